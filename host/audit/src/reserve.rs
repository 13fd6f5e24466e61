//! Reserved disk space for the log lines of running calls: a file of meaningless bytes. When the disk is full, the file
//! is truncated to make space for those lines. No further call is made until the reserve can be created again.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use mimir_core::files::{self, LinkPolicy};

/// Size of the reserve in bytes: a line of about 700 bytes for each of 64 concurrent calls, and some for partly used
/// disk blocks.
const RESERVE_SIZE: usize = 64 << 10;

/// Returns true if the complete reserve exists.
pub(super) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.len() == RESERVE_SIZE as u64)
}

/// Creates the reserve if it is missing. Fails if the disk is full.
pub(super) fn create(path: &Path) -> io::Result<()> {
    if exists(path) {
        return Ok(());
    }
    let mut file = files::open_private(path, OpenOptions::new().write(true).truncate(true))?;
    let written = file.write_all(&incompressible_bytes());
    if written.is_err() {
        // A partial reserve is useless, and other processes may need the space.
        file.set_len(0)?;
    }
    written
}

/// Frees the reserved space. Returns false if the reserve did not exist.
pub(super) fn release(path: &Path) -> io::Result<bool> {
    if !exists(path) {
        return Ok(false);
    }
    files::open_with(path, LinkPolicy::Refuse, OpenOptions::new().write(true))?.set_len(0)?;
    Ok(true)
}

/// Returns bytes that a file system can neither compress nor deduplicate.
fn incompressible_bytes() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RESERVE_SIZE);
    let mut block = Sha256::digest(b"mimir");
    while bytes.len() < RESERVE_SIZE {
        bytes.extend_from_slice(&block);
        block = Sha256::digest(block);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_released_once_and_recreated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.reserve");
        assert!(!release(&path).unwrap());
        for _ in 0..2 {
            create(&path).unwrap();
            create(&path).unwrap();
            assert!(exists(&path) && release(&path).unwrap());
            assert!(!release(&path).unwrap());
        }
    }
}
