//! The head: which line is the last, in a file of its own that is also the lock of the log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use super::Hash;
use super::line::SEQ_MAX;

/// Which line is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its number; 0 before the first.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

/// Bytes of the file: always the same, so that it is written in place and never cut. One block of a disk.
const SIZE: usize = 128;

/// How far the head may be behind the log in a rush of events: to write it takes nearly as long as to write the
/// line. Fewer lines than that can be taken unnoticed from the end of a log whose writer was killed in a rush;
/// a writer that lives knows where the log ends, and says so when it goes on or ends.
pub(super) const EVERY: u64 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    seq: u64,
    hash: String,
}

impl Head {
    /// Whether it is as far behind a log whose last line is `seq` as it is in a rush.
    pub(super) fn is_little_behind(&self, seq: u64) -> bool {
        self.seq < seq && seq - self.seq < EVERY
    }

    /// Before the first line.
    pub(super) const START: Self = Self {
        seq: 0,
        hash: Hash::ZERO,
    };

    /// As JSON, filled up with blanks to one length: so it can be written over an older one.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [b' '; SIZE];
        let mut room = &mut bytes[..];
        // It fits: 20 digits and 64 are the most.
        let _ = io::Write::write_fmt(
            &mut room,
            format_args!(r#"{{"seq":{},"hash":"{}"}}"#, self.seq, self.hash),
        );
        bytes[SIZE - 1] = b'\n';
        bytes
    }

    /// Reads `{"seq": …, "hash": …}`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(bytes).ok()?;
        if wire.seq > SEQ_MAX {
            return None;
        }
        Some(Self {
            seq: wire.seq,
            hash: Hash::read(wire.hash.as_bytes())?,
        })
    }

    /// Writes it over the old one.
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

    /// Reads it.
    pub(super) fn read(mut file: &File) -> io::Result<Known> {
        let mut bytes = Vec::with_capacity(SIZE);
        file.seek(SeekFrom::Start(0))?;
        // One more than there should be: what is longer is damaged.
        file.take(SIZE as u64 + 1).read_to_end(&mut bytes)?;
        Ok(match bytes.len() {
            0 => Known::Nothing,
            SIZE => Self::decode(&bytes).map_or(Known::Damaged, Known::Head),
            _ => Known::Damaged,
        })
    }
}

/// What the file of the head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It is not there, or empty.
    Nothing,
    /// It is no head.
    Damaged,
    /// This.
    Head(Head),
}

/// Waits for the lock of the log. Nobody holds it for longer than a write.
pub(super) fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            // A signal: the system's call does not go on by itself.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_in_place_and_read_again() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(Head::read(&file).unwrap(), Known::Nothing);
        for seq in [SEQ_MAX, 1] {
            let head = Head {
                seq,
                hash: Hash::of(b"x"),
            };
            head.write(&file).unwrap();
            assert_eq!(Head::read(&file).unwrap(), Known::Head(head));
            assert_eq!(file.metadata().unwrap().len(), SIZE as u64);
        }
        io::Write::write_all(&mut file, b"more").unwrap();
        assert_eq!(Head::read(&file).unwrap(), Known::Damaged);
        file.set_len(9).unwrap();
        assert_eq!(Head::read(&file).unwrap(), Known::Damaged);
    }
}
