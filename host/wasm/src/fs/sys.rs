//! The operating system below the guard: every operation takes a directory handle and one name in it, and
//! follows no link.
//!
//! Unix speaks to the kernel by `rustix`, the rest by `cap-std`. Never here: paths of several components
//! (but for [`direct`], which the kernel itself keeps from leaving), rules, WASI's error codes.

#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::*;
#[cfg(unix)]
pub(super) use unix::*;

use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "devices are not told apart everywhere")
)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    Block,
    Character,
    /// A FIFO, a socket, or what a directory listing does not tell.
    Other,
}

/// The name of a directory's entry, or what it is if it is no Unicode, which a guest can't say.
pub(super) type Name = Result<String, OsString>;

/// What is known of an object. Times are since 1970 and absent when earlier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub kind: Kind,
    pub links: u64,
    pub size: u64,
    pub accessed: Option<Duration>,
    pub modified: Option<Duration>,
    pub changed: Option<Duration>,
    /// Device and inode, or what the platform has in their place.
    pub id: (u64, u64),
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub directory: bool,
    /// What is created is for its owner alone.
    pub private: bool,
}

/// What an open found.
pub(super) enum Opened {
    File(File),
    Dir(Dir),
    /// A FIFO, a socket or a device; it is closed again.
    Neither,
}

/// A time to set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stamp {
    Keep,
    Now,
    /// Since 1970.
    At(Duration),
}
