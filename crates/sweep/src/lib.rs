//! Many runs at once: shared out among workers and machines, interrupted and resumed.
//!
//! A run depends on its description alone, its [`Key`]. So workers, shards and interruptions change no result. A record that is
//! found in a [`Store`] stands for the run of the same key if the same build made it.
//! Nothing here knows what a run is made of: the caller describes it, makes it, and says how far the work is.

mod key;
mod record;
#[cfg(test)]
mod sample;
mod shard;
mod store;
mod work;

pub use key::Key;
pub use record::{Build, Unusable};
pub use shard::{NoShard, Shard};
pub use store::{Found, NotKept, Store, TextOf, Unused, WriteWhole};
pub use work::{Outcome, work};
