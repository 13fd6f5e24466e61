//! Writes that failed for lack of disk space.
//!
//! A stream reports to a guest only that a write failed, and most guests' libraries show `I/O error`, whatever the
//! reason. The host stores the reason for the user.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Reason why a write failed for lack of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceExhausted {
    /// The disk is full.
    Disk,
    /// The user's disk quota is used up.
    Quota,
    /// The file has reached the maximum size that the system allows.
    File,
}

impl fmt::Display for SpaceExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disk => "the disk is full",
            Self::Quota => "the disk quota is used up",
            Self::File => "the file has reached the maximum size that the system allows",
        })
    }
}

impl SpaceExhausted {
    fn from_io_error(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::StorageFull => Some(Self::Disk),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::FileTooLarge => Some(Self::File),
            _ => None,
        }
    }
}

/// The result of a store's last write, shared by all its streams.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskStatus(Arc<AtomicU8>);

impl DiskStatus {
    /// Records the result of a write.
    pub(super) fn note_write<T>(&self, result: &io::Result<T>) {
        let exhausted = result
            .as_ref()
            .err()
            .and_then(SpaceExhausted::from_io_error);
        let number = exhausted.map_or(0, |exhausted| exhausted as u8 + 1);
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns the reason if the last write failed for lack of space.
    pub(super) fn exhausted(&self) -> Option<SpaceExhausted> {
        use SpaceExhausted::{Disk, File, Quota};
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
    fn disk_reports_the_last_write() {
        let disk = DiskStatus::default();
        assert_eq!(disk.exhausted(), None);
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, Some(SpaceExhausted::Disk)),
            (io::ErrorKind::QuotaExceeded, Some(SpaceExhausted::Quota)),
            (io::ErrorKind::FileTooLarge, Some(SpaceExhausted::File)),
            (io::ErrorKind::BrokenPipe, None),
            (io::ErrorKind::StorageFull, Some(SpaceExhausted::Disk)),
        ] {
            disk.clone().note_write::<()>(&Err(kind.into()));
            assert_eq!(disk.exhausted(), expected);
        }
        disk.note_write(&Ok(1));
        assert_eq!(disk.exhausted(), None, "the guest freed space");
    }
}
