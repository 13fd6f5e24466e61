//! Room on the disk that is kept for lines of calls that are under way: a file of bytes that mean nothing. When
//! the disk is full the file is emptied, and the lines have room; until it can be filled again, no further call
//! is made.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use mimir_core::files::{self, Links};

/// How much is kept: a line of some 700 bytes for each of 64 calls at a time, and as much again for the blocks
/// of the disk that they only begin.
const SIZE: usize = 64 << 10;

/// Whether the reserve is there.
pub(super) fn is_kept(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == SIZE as u64)
}

/// Makes the reserve. Fails if there is no room for it.
pub(super) fn keep(path: &Path) -> io::Result<()> {
    if is_kept(path) {
        return Ok(());
    }
    let mut file = files::own(path, OpenOptions::new().write(true).truncate(true))?;
    let written = file.write_all(&filling());
    if written.is_err() {
        // Half a reserve is none, and others may need the room.
        file.set_len(0)?;
    }
    written
}

/// Gives the room back; says whether there was any.
pub(super) fn release(path: &Path) -> io::Result<bool> {
    if !is_kept(path) {
        return Ok(false);
    }
    files::open_with(path, Links::Refused, OpenOptions::new().write(true))?.set_len(0)?;
    Ok(true)
}

/// Bytes that no file system can make smaller, or share with others.
fn filling() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE);
    let mut block = Sha256::digest(b"mimir");
    while bytes.len() < SIZE {
        bytes.extend_from_slice(&block);
        block = Sha256::digest(block);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_released_once_and_kept_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.reserve");
        assert!(!release(&path).unwrap());
        for _ in 0..2 {
            keep(&path).unwrap();
            keep(&path).unwrap();
            assert!(is_kept(&path) && release(&path).unwrap());
            assert!(!release(&path).unwrap());
        }
    }
}
