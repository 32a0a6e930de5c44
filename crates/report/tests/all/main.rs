//! Published samples and published schemas, in one program.

mod published_samples;
mod schema;
