//! The head: the number and hash of the last line, in a separate file that is also the lock of the log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use super::LineHash;
use super::line::SEQ_MAX;

/// The number and hash of a line, usually the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogHead {
    /// The number of the line; 0 before the first.
    pub seq: u64,
    /// The hash of the line.
    pub hash: LineHash,
}

/// Size of the head file in bytes: constant, so that the file is overwritten in place, and less than a disk block.
const FILE_SIZE: usize = 128;

/// Number of lines after which the head is written in a burst of events: writing the head takes nearly as long as
/// writing a line. If a writer is killed in a burst, fewer lines than this can be removed unnoticed from the end. A
/// running writer knows the end, and writes the head when it continues or exits.
pub(super) const WRITE_EVERY: u64 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadJson {
    seq: u64,
    hash: String,
}

impl LogHead {
    /// Returns true if the head is behind the last line `seq` by no more than a burst allows.
    pub(super) fn is_slightly_behind(&self, seq: u64) -> bool {
        self.seq < seq && seq - self.seq < WRITE_EVERY
    }

    /// The head before the first line.
    pub const START: Self = Self {
        seq: 0,
        hash: LineHash::ZERO,
    };

    /// Encodes the head as JSON, padded with blanks to a constant length, so that it can overwrite an older head.
    pub fn encode(&self) -> [u8; FILE_SIZE] {
        let mut bytes = [b' '; FILE_SIZE];
        let mut rest = &mut bytes[..];
        // Cannot fail: at most 20 and 64 digits fit.
        let _ = io::Write::write_fmt(
            &mut rest,
            format_args!(r#"{{"seq":{},"hash":"{}"}}"#, self.seq, self.hash),
        );
        bytes[FILE_SIZE - 1] = b'\n';
        bytes
    }

    /// Parses `{"seq": …, "hash": …}`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let json: HeadJson = serde_json::from_slice(bytes).ok()?;
        if json.seq > SEQ_MAX {
            return None;
        }
        Some(Self {
            seq: json.seq,
            hash: LineHash::read(json.hash.as_bytes())?,
        })
    }

    /// Overwrites the head file.
    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        let bytes = self.encode();
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::write_all_at(file, &bytes, 0)
        }
        #[cfg(not(unix))]
        {
            let mut file = file;
            file.seek(SeekFrom::Start(0))?;
            io::Write::write_all(&mut file, &bytes)
        }
    }

    /// Reads the head file.
    pub(super) fn read(mut file: &File) -> io::Result<HeadState> {
        let mut bytes = Vec::with_capacity(FILE_SIZE);
        file.seek(SeekFrom::Start(0))?;
        // One byte more than the size: a longer file is damaged.
        file.take(FILE_SIZE as u64 + 1).read_to_end(&mut bytes)?;
        Ok(match bytes.len() {
            0 => HeadState::Nothing,
            FILE_SIZE => Self::decode(&bytes).map_or(HeadState::Damaged, HeadState::Head),
            _ => HeadState::Damaged,
        })
    }
}

/// Content of the head file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadState {
    /// Missing or empty.
    Nothing,
    /// Not a valid head.
    Damaged,
    /// A valid head.
    Head(LogHead),
}

/// The head file of a writer, which knows whether its handle holds the lock of the log. Locking a handle twice is
/// harmless on Unix, but on Windows the second attempt waits for the first forever. Closing the file releases the lock.
pub(super) struct HeadFile {
    file: File,
    is_locked: bool,
}

impl HeadFile {
    /// Wraps a file that is not locked.
    pub(super) fn new(file: File) -> Self {
        let is_locked = false;
        Self { file, is_locked }
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Waits for the lock of the log, unless this handle holds it.
    pub(super) fn lock(&mut self) -> io::Result<()> {
        if !self.is_locked {
            lock(&self.file)?;
            self.is_locked = true;
        }
        Ok(())
    }

    /// Releases the lock of the log.
    pub(super) fn unlock(&mut self) -> io::Result<()> {
        unlock(&self.file)?;
        self.is_locked = false;
        Ok(())
    }
}

/// Waits for the lock of the log. Writers hold the lock only while they write.
pub(super) fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            // A signal interrupts the system call, which is not restarted automatically.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Releases the lock of the log.
fn unlock(file: &File) -> io::Result<()> {
    match file.unlock() {
        // On Windows, the standard library unlocks twice, since a handle can hold two locks, and ignores that the second
        // attempt finds none. wine returns another error code for that.
        Err(error) if cfg!(windows) && error.raw_os_error() == Some(ERROR_LOCK_VIOLATION) => Ok(()),
        result => result,
    }
}

/// The error of Windows for a region of a file that is locked by others, and of wine for one that is not locked.
const ERROR_LOCK_VIOLATION: i32 = 33;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_survives_a_round_trip_and_detects_damage() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(LogHead::read(&file).unwrap(), HeadState::Nothing);
        for seq in [SEQ_MAX, 1] {
            let head = LogHead {
                seq,
                hash: LineHash::digest_line(b"x"),
            };
            head.write(&file).unwrap();
            assert_eq!(LogHead::read(&file).unwrap(), HeadState::Head(head));
            assert_eq!(file.metadata().unwrap().len(), FILE_SIZE as u64);
        }
        io::Write::write_all(&mut file, b"more").unwrap();
        assert_eq!(LogHead::read(&file).unwrap(), HeadState::Damaged);
        file.set_len(9).unwrap();
        assert_eq!(LogHead::read(&file).unwrap(), HeadState::Damaged);
    }

    #[test]
    fn head_file_is_locked_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        let mut head = HeadFile::new(file.reopen().unwrap());
        // On Windows, a second lock of the same handle would never be granted.
        head.lock().unwrap();
        head.lock().unwrap();
        assert!(other.try_lock().is_err());
        head.unlock().unwrap();
        other.try_lock().unwrap();
    }
}
