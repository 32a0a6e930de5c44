//! Where guest memory lies in the host's memory.

#[cfg(target_pointer_width = "32")]
mod narrow;
#[cfg(target_pointer_width = "64")]
mod wide;

#[cfg(target_pointer_width = "32")]
pub(super) use narrow::Room;
#[cfg(target_pointer_width = "64")]
pub(super) use wide::Room;
