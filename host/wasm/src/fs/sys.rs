//! Interface to the operating system below the guard: every operation takes a directory handle and one name in it, and
//! follows no link.
//!
//! Unix uses `rustix`, other systems `cap-std`. Out of scope: paths of several components (except for [`open_beneath`],
//! where the kernel itself prevents leaving the directory), rules, WASI's error codes.

#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::*;
#[cfg(unix)]
pub(super) use unix::*;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "not every platform distinguishes devices")
)]
pub(super) enum FileKind {
    File,
    Directory,
    Link,
    Block,
    Character,
    /// A FIFO, a socket, or an object whose kind a directory listing does not report.
    Other,
}

/// The name of a directory's entry, or its raw form if it is not Unicode, which a guest cannot express.
pub(super) type EntryName = Result<String, OsString>;

/// Returns the text of a link with `/` between names.
pub(super) fn with_slashes(text: &str) -> Cow<'_, str> {
    if cfg!(windows) && text.contains('\\') {
        Cow::Owned(text.replace('\\', "/"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Metadata of an object. Times are since 1970 and absent when earlier.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileStat {
    pub kind: FileKind,
    pub links: u64,
    pub size: u64,
    pub accessed: Option<Duration>,
    pub modified: Option<Duration>,
    pub changed: Option<Duration>,
    /// Permission bits, on platforms that have them.
    pub mode: Option<u32>,
    /// Device and inode, or the platform's equivalent.
    pub id: (u64, u64),
}

/// Options for opening a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenMode {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub directory: bool,
}

/// The result of an open.
pub(super) enum OpenedObject {
    File(File),
    Dir(DirHandle),
    /// A FIFO, a socket or a device; it is closed again.
    Neither,
}

/// A timestamp to set.
#[derive(Debug, Clone, Copy)]
pub(super) enum TimeUpdate {
    Keep,
    Now,
    /// Since 1970.
    At(Duration),
}
