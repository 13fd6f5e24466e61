//! Stores an index and its vectors in the state folder of a workspace, which no tool can access.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform;

use crate::codec;
use crate::index::CodeIndex;

/// The folder, below the workspace.
const FOLDER: &str = ".mimir/state/code-index";

/// The name of the stored index.
const INDEX: &str = "index";

/// Maximum size of a stored index in bytes.
const MAX_STORED: u64 = 512 << 20;

/// The stored index of a workspace.
#[derive(Debug)]
pub(crate) struct IndexStore {
    workspace: PathBuf,
}

impl IndexStore {
    pub(crate) fn new(workspace: &Path) -> Self {
        Self {
            workspace: workspace.to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(FOLDER).join(name)
    }

    /// Reads the stored index. `None` if there is none, or if it cannot be used.
    pub(crate) fn load(&self) -> Option<CodeIndex> {
        let bytes = self.read_file(INDEX, MAX_STORED)?;
        let index = codec::decode(&bytes);
        if index.is_none() {
            tracing::debug!("the index of the code is damaged or outdated, and is built again");
        }
        index
    }

    /// Stores the index, unless another process is storing one: an index that is not stored is only slower.
    pub(crate) fn save(&self, index: &mut CodeIndex) {
        let bytes = codec::encode(index);
        match self.write_file(INDEX, &bytes) {
            Ok(()) => index.unsaved = 0,
            Err(error) => tracing::debug!(%error, "the index of the code is not stored"),
        }
    }

    /// Reads a file of at most `max` bytes. `None` if it does not exist, or if it cannot be read.
    pub(crate) fn read_file(&self, name: &str, max: u64) -> Option<Vec<u8>> {
        let path = self.path(name);
        files::reject_links(&self.workspace, &path).ok()?;
        match files::read(&path, LinkPolicy::Refuse, max) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::debug!(%error, name, "a file of the index of the code cannot be read");
                None
            }
        }
    }

    /// Replaces a file. Fails if another process is storing one.
    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.workspace.join(FOLDER);
        files::reject_links(&self.workspace, &folder)?;
        files::make_state(&self.workspace)?;
        platform::create_private_folder(&folder, true)?;
        let lock = files::open_private(&self.path("turn"), OpenOptions::new().write(true))?;
        lock.try_lock().map_err(io::Error::other)?;
        if bytes.len() as u64 > MAX_STORED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let new = self.path("new");
        let mut options = OpenOptions::new();
        options.write(true).truncate(true);
        let written = files::open_private(&new, &mut options)
            .and_then(|mut file| file.write_all(bytes))
            // Without a sync: after a crash of the machine, the checksum tells that the content is missing.
            .and_then(|()| std::fs::rename(&new, self.path(name)));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_store_ignores_damage_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let store = IndexStore::new(folder.path());
        assert!(store.load().is_none());
        let mut index = CodeIndex::default();
        index.unsaved = 3;
        store.save(&mut index);
        assert_eq!(index.unsaved, 0);
        assert!(store.load().is_some());
        std::fs::write(store.path("index"), b"mimir-code-index 1\nbroken").unwrap();
        assert!(store.load().is_none());
        store.save(&mut index);
        assert!(store.load().is_some());
        #[cfg(unix)]
        {
            std::fs::remove_dir_all(folder.path().join(FOLDER)).unwrap();
            let outside = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(outside.path(), folder.path().join(FOLDER)).unwrap();
            index.unsaved = 1;
            store.save(&mut index);
            assert_eq!(index.unsaved, 1);
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn index_store_does_not_wait_for_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let store = IndexStore::new(folder.path());
        let mut index = CodeIndex::default();
        store.save(&mut index);
        let lock = std::fs::File::open(store.path("turn")).unwrap();
        lock.lock().unwrap();
        index.unsaved = 1;
        store.save(&mut index);
        assert_eq!(index.unsaved, 1);
    }
}
