//! Stores an index and its vectors in the state folder of a workspace, which no tool can access.
//!
//! A stored file is only used if it has a seal by the key of this user (`index_key`): files that come with a checkout
//! are ignored, and replaced.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform;

use crate::codec;
use crate::index::CodeIndex;
use crate::index_key::{IndexKey, KEY_LENGTH};

/// The folder, below the workspace.
const FOLDER: &str = ".mimir/state/code-index";

/// The stored index. The number changes with the format, and with what is found in files.
const INDEX: StoredFile = StoredFile {
    name: "index",
    magic: b"mimir-code-index 2\n",
    max_body: 256 << 20,
};

/// A file in the folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredFile {
    pub(crate) name: &'static str,
    /// The first bytes. The seal and the body follow.
    pub(crate) magic: &'static [u8],
    /// Maximum size of the body in bytes.
    pub(crate) max_body: usize,
}

/// The stored files of a workspace.
pub(crate) struct IndexStore {
    workspace: PathBuf,
    pub(crate) key: IndexKey,
}

impl IndexStore {
    pub(crate) fn new(workspace: &Path, key: IndexKey) -> Self {
        Self {
            workspace: workspace.to_owned(),
            key,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(FOLDER).join(name)
    }

    /// Reads the stored index. `None` if there is none, or if it cannot be used.
    pub(crate) fn load(&self) -> Option<CodeIndex> {
        self.read_file(INDEX, codec::decode)
    }

    /// Stores the index, unless another process is storing one: an index that is not stored is only slower.
    pub(crate) fn save(&self, index: &mut CodeIndex) {
        let body = codec::encode(index);
        match self.write_file(INDEX, &body) {
            Ok(()) => index.unsaved = 0,
            Err(error) => tracing::debug!(%error, "the index of the code is not stored"),
        }
    }

    /// Reads and decodes the body of a file. `None` if it does not exist, or if this user has not written it.
    pub(crate) fn read_file<T>(
        &self,
        file: StoredFile,
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let StoredFile { name, magic, .. } = file;
        let path = self.path(name);
        files::reject_links(&self.workspace, &path).ok()?;
        let max = magic.len() + KEY_LENGTH + file.max_body;
        let bytes = match files::read(&path, LinkPolicy::Refuse, max as u64) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::debug!(%error, name, "a file of the index of the code cannot be read");
                return None;
            }
        };
        let sealed = bytes.strip_prefix(magic);
        let decoded = sealed
            .and_then(|sealed| sealed.split_at_checked(KEY_LENGTH))
            .filter(|(seal, body)| self.key.seal(magic, body) == *seal)
            .and_then(|(_, body)| decode(body));
        if decoded.is_none() {
            tracing::debug!(
                name,
                "a file of the index of the code is damaged, outdated or another user's"
            );
        }
        decoded
    }

    /// Replaces a file. Fails if another process is storing one.
    pub(crate) fn write_file(&self, file: StoredFile, body: &[u8]) -> io::Result<()> {
        let folder = self.workspace.join(FOLDER);
        files::reject_links(&self.workspace, &folder)?;
        files::make_state(&self.workspace)?;
        platform::create_private_folder(&folder, true)?;
        let lock = files::open_private(&self.path("turn"), OpenOptions::new().write(true))?;
        lock.try_lock().map_err(io::Error::other)?;
        if body.len() > file.max_body {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let new = self.path("new");
        let mut options = OpenOptions::new();
        options.write(true).truncate(true);
        let written = files::open_private(&new, &mut options)
            .and_then(|mut written| {
                written.write_all(file.magic)?;
                written.write_all(&self.key.seal(file.magic, body))?;
                written.write_all(body)
            })
            // Without a sync: after a crash of the machine, the seal tells that the content is missing.
            .and_then(|()| std::fs::rename(&new, self.path(file.name)));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    /// Creates a store with a key of its own.
    #[cfg(test)]
    pub(crate) fn in_test(workspace: &Path) -> Self {
        Self::new(workspace, IndexKey::load(None, workspace).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_store_ignores_damage_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let store = IndexStore::in_test(folder.path());
        assert!(store.load().is_none());
        let mut index = CodeIndex::default();
        index.unsaved = 3;
        store.save(&mut index);
        assert_eq!(index.unsaved, 0);
        assert!(store.load().is_some());
        let bytes = std::fs::read(store.path("index")).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(store.path("index"), damaged).unwrap();
            assert!(store.load().is_none(), "byte {at}");
            std::fs::write(store.path("index"), &bytes[..at]).unwrap();
            assert!(store.load().is_none(), "length {at}");
        }
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
    fn index_store_ignores_an_index_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [(); 2].map(|()| IndexStore::in_test(folder.path()));
        other.save(&mut CodeIndex::default());
        assert!(other.load().is_some());
        assert!(own.load().is_none());
        own.save(&mut CodeIndex::default());
        assert!(own.load().is_some());
    }

    #[test]
    fn index_store_does_not_wait_for_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let store = IndexStore::in_test(folder.path());
        let mut index = CodeIndex::default();
        store.save(&mut index);
        let lock = std::fs::File::open(store.path("turn")).unwrap();
        lock.lock().unwrap();
        index.unsaved = 1;
        store.save(&mut index);
        assert_eq!(index.unsaved, 1);
    }
}
