//! What the disk had no room for.
//!
//! A stream tells a guest that a write failed, and most guests' libraries make `I/O error` of whatever the reason
//! was. The host remembers it, so that the person reads it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why a write found no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The disk is full.
    Disk,
    /// What this user may have on it is used up.
    Quota,
    /// The file is as large as the system lets one become.
    File,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disk => "the disk is full",
            Self::Quota => "the disk quota is used up",
            Self::File => "the system allows no larger file",
        })
    }
}

impl Exhausted {
    fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::StorageFull => Some(Self::Disk),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::FileTooLarge => Some(Self::File),
            _ => None,
        }
    }
}

/// How the last write of a store went, as all its streams know.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<AtomicU8>);

impl Disk {
    /// Takes note of a write.
    pub(super) fn note<T>(&self, wrote: &io::Result<T>) {
        let exhausted = wrote.as_ref().err().and_then(Exhausted::of);
        let number = exhausted.map_or(0, |exhausted| exhausted as u8 + 1);
        self.0.store(number, Ordering::Relaxed);
    }

    /// Why the last write found no room, if that is why it failed.
    pub(super) fn exhausted(&self) -> Option<Exhausted> {
        use Exhausted::{Disk, File, Quota};
        let number = self.0.load(Ordering::Relaxed);
        [Disk, Quota, File]
            .into_iter()
            .find(|exhausted| *exhausted as u8 + 1 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_counts() {
        let disk = Disk::default();
        assert_eq!(disk.exhausted(), None);
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, Some(Exhausted::Disk)),
            (io::ErrorKind::QuotaExceeded, Some(Exhausted::Quota)),
            (io::ErrorKind::FileTooLarge, Some(Exhausted::File)),
            (io::ErrorKind::BrokenPipe, None),
            (io::ErrorKind::StorageFull, Some(Exhausted::Disk)),
        ] {
            disk.clone().note::<()>(&Err(kind.into()));
            assert_eq!(disk.exhausted(), expected);
        }
        disk.note(&Ok(1));
        assert_eq!(disk.exhausted(), None, "the guest made room");
    }
}
