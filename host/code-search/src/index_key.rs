//! The key by which stored files of an index are recognized as written by this user.
//!
//! The files are in the workspace, so they may come with a checkout. A forged index would hide code from searches. The
//! key is in the user's own folder; without it, an index holds for one process only.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Seek as _, Write as _};
use std::path::Path;

use mimir_core::files;
use mimir_core::platform::{self, FileAccessRule, OwnerOnly};
use sha2::{Digest, Sha256};

/// Length of a key and of a seal in bytes.
pub(crate) const KEY_LENGTH: usize = 32;

/// The key of a workspace's index.
#[derive(Clone)]
pub(crate) struct IndexKey([u8; KEY_LENGTH]);

impl IndexKey {
    /// Reads the user's key from `file`, which is created if it does not exist, and derives the key of a workspace.
    /// Fails without random numbers.
    pub(crate) fn load(file: Option<&Path>, workspace: &Path) -> io::Result<Self> {
        let stored = file.and_then(|file| {
            let unusable = |error| tracing::debug!(%error, "the key of indexes cannot be used");
            read_or_create(file).map_err(unusable).ok()
        });
        let user_key = match stored {
            Some(key) => key,
            None => random_key()?,
        };
        let key = Sha256::new()
            .chain_update(user_key)
            .chain_update(workspace.as_os_str().as_encoded_bytes());
        Ok(Self(key.finalize().into()))
    }

    /// Returns the message authentication code of a stored file.
    pub(crate) fn seal(&self, magic: &[u8], body: &[u8]) -> [u8; KEY_LENGTH] {
        let content = Sha256::new().chain_update(magic).chain_update(body);
        // The key precedes a text of constant length, so that nothing can be appended to it.
        let seal = Sha256::new()
            .chain_update(self.0)
            .chain_update(content.finalize());
        seal.finalize().into()
    }

    /// Returns a hash by which a changed content is recognized. Nobody else can find two contents with the same hash.
    pub(crate) fn content_hash(&self, text: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.write(text.as_bytes());
        hasher.finish()
    }
}

fn read_or_create(path: &Path) -> io::Result<[u8; KEY_LENGTH]> {
    if let Some(folder) = path.parent() {
        platform::create_private_folder(folder, true)?;
    }
    let mut file = files::open_private(path, OpenOptions::new().read(true).write(true))?;
    let rule = FileAccessRule::of_user(OwnerOnly::Reading);
    if rule.check_file(&file)?.is_some() {
        return Err(io::Error::other("other users can access it"));
    }
    // Another process may have created the file, and not yet written the key.
    file.lock()?;
    let stored = files::read_open(&file, KEY_LENGTH as u64).unwrap_or_default();
    if let Ok(key) = stored.as_slice().try_into() {
        return Ok(key);
    }
    let key = random_key()?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&key)?;
    Ok(key)
}

fn random_key() -> io::Result<[u8; KEY_LENGTH]> {
    let mut key = [0; KEY_LENGTH];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_key_is_stored_and_differs_between_users_and_workspaces() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache/code-index.key");
        let load = |file: Option<&Path>, workspace: &str| {
            IndexKey::load(file, Path::new(workspace)).unwrap()
        };
        let key = load(Some(&file), "/a");
        let seal = key.seal(b"m", b"body");
        assert_eq!(load(Some(&file), "/a").seal(b"m", b"body"), seal);
        assert_eq!(
            load(Some(&file), "/a").content_hash("text"),
            key.content_hash("text")
        );
        for other in [load(Some(&file), "/b"), load(None, "/a"), load(None, "/a")] {
            assert_ne!(other.seal(b"m", b"body"), seal);
            assert_ne!(other.content_hash("text"), key.content_hash("text"));
        }
        assert_ne!(key.seal(b"m", b"bodY"), seal);
        assert_ne!(key.seal(b"n", b"body"), seal);
        // A key that was not completely written.
        std::fs::write(&file, [1; 5]).unwrap();
        let next = load(Some(&file), "/a").seal(b"m", b"body");
        assert_ne!(next, seal);
        assert_eq!(load(Some(&file), "/a").seal(b"m", b"body"), next);
    }

    #[cfg(unix)]
    #[test]
    fn index_key_that_other_users_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("code-index.key");
        std::fs::write(&file, [7; KEY_LENGTH]).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let load = || IndexKey::load(Some(&file), Path::new("/a")).unwrap();
        assert_ne!(load().seal(b"m", b"body"), load().seal(b"m", b"body"));
    }
}
