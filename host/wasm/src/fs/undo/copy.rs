//! Copies of files that are going to change, and digests of those that may have changed.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::UndoTarget;
use super::state::{RecordedState, mode, modified};
use crate::backend::create_backups_folder;

/// Bytes copied or compared at once. Between two chunks, the work stops if the call is over.
const CHUNK_BYTES: usize = 1 << 20;

/// A copy to be made.
pub(super) struct BackupCopy {
    pub(super) file: fs::File,
    pub(super) meta: fs::Metadata,
    pub(super) target: UndoTarget,
    pub(super) name: String,
    /// Its maximum size in bytes.
    pub(super) max_bytes: u64,
    pub(super) is_over: Arc<AtomicBool>,
}

impl BackupCopy {
    /// Copies the file, and returns its state.
    pub(super) fn copy(mut self) -> io::Result<RecordedState> {
        let folder = self.target.folder.join(&self.target.id);
        if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            create_backups_folder(&self.target.workspace, &self.target.folder)?;
            match make_private(&folder) {
                // Another copy of the same call has just created it.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) => {}
                created => created?,
            }
        }
        let copy = folder.join(&self.name);
        let mut to = fs::File::create_new(&copy)?;
        // Readers of the file may also read its copy.
        to.set_permissions(self.meta.permissions())?;
        match hash(&mut self.file, &mut to, self.max_bytes, &self.is_over) {
            Ok((digest, size)) => Ok(RecordedState::File {
                sha256: Some(digest),
                backup: Some(format!("{}/{}", self.target.id, self.name)),
                size,
                modified: modified(&self.meta),
                mode: mode(&self.meta),
            }),
            Err(error) => {
                fs::remove_file(&copy).ok();
                Err(error)
            }
        }
    }
}

/// Copies a file of at most `max_bytes` bytes, unless it is stopped. Returns the digest and the length of its content.
pub(super) fn hash(
    file: &mut fs::File,
    to: &mut impl io::Write,
    max_bytes: u64,
    stop: &AtomicBool,
) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total: u64 = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("the call is over"));
        }
        let count = file.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        total += count as u64;
        if total > max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hash.update(&chunk[..count]);
        to.write_all(&chunk[..count])?;
    }
    Ok((format!("{:x}", hash.finalize()), total))
}

fn make_private(folder: &Path) -> io::Result<()> {
    #[cfg_attr(
        not(unix),
        expect(
            unused_mut,
            reason = "only changed by modes, which this platform does not have"
        )
    )]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
