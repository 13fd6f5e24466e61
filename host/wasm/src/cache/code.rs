//! Cached machine code. Files of machine code are large, so they are mapped rather than read if they have not changed
//! since their content was last verified.
//!
//! Reading and hashing 40 MB takes longer than everything else in a call. Whether a verified file has changed is
//! detected by its stamp: metadata that every change of the file alters.
//!
//! Out of scope: running the code.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use bytes::Bytes;

use super::{CacheEntryKind, ComponentCache, private, seal, write_to};

/// Seal of a code file: the hash of its name and content, and its stamp at the time of verification.
struct CodeSeal {
    hash: String,
    /// `None` if a later change might not alter the stamp.
    stamp: Option<String>,
}

impl CodeSeal {
    fn read(cache: &ComponentCache, key: &str) -> Option<Self> {
        let text = String::from_utf8(cache.get(CacheEntryKind::Seal, key)?.into()).ok()?;
        let (hash, stamp) = text.split_once('\n')?;
        Some(Self {
            hash: hash.to_owned(),
            stamp: (!stamp.is_empty()).then(|| stamp.to_owned()),
        })
    }

    fn write(&self, cache: &ComponentCache, key: &str) {
        let stamp = self.stamp.as_deref().unwrap_or_default();
        let text = format!("{}\n{stamp}", self.hash);
        cache.put(CacheEntryKind::Seal, key, text.as_bytes());
    }
}

impl ComponentCache {
    /// Returns the path of the code file if the file has not changed since its content was verified.
    pub(crate) fn verified_file(&self, key: &str) -> Option<PathBuf> {
        let stamp = CodeSeal::read(self, key)?.stamp?;
        let (file, path) = self.open_code_file(key).ok()??;
        (file_stamp(&file)? == stamp).then_some(path)
    }

    /// Reads the code and verifies its hash. `None` if it is missing, unreadable or corrupt.
    pub(crate) fn read_code(&self, key: &str) -> Option<Bytes> {
        let mut seal = CodeSeal::read(self, key)?;
        let (mut file, path) = match self.open_code_file(key) {
            Ok(file) => file?,
            Err(error) => {
                self.warn_unusable(self.folder()?, &error);
                return None;
            }
        };
        // Taken before reading, so that the stamp of a file that changes in the meantime will not match.
        let stamp = file_stamp(&file);
        let mut content = Vec::new();
        let read = file.read_to_end(&mut content);
        if read.is_err() || seal.hash != hash(key, &content) {
            let path = path.display();
            tracing::warn!("{path} is corrupt and will be replaced");
            return None;
        }
        if stamp.is_some() && stamp != seal.stamp {
            seal.stamp = stamp;
            seal.write(self, key);
        }
        Some(content.into())
    }

    /// Stores code.
    pub(crate) fn store_code(&self, key: &str, content: &[u8]) {
        let Some(folder) = self.folder() else {
            return;
        };
        let code_folder = folder.join(CacheEntryKind::Compiled.folder());
        let written = write_to(folder, &code_folder, key, |file| {
            file.write_all(content)?;
            // After a power failure, a partly written file must not have the stamp of the complete one.
            file.sync_all()
        });
        if let Err(error) = written {
            return self.warn_unusable(folder, &error);
        }
        // No stamp yet: the file is too new for a reliable one.
        let seal = CodeSeal {
            hash: hash(key, content),
            stamp: None,
        };
        seal.write(self, key);
    }

    fn open_code_file(&self, key: &str) -> io::Result<Option<(File, PathBuf)>> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let Some(top) = self.folder() else {
            return Ok(None);
        };
        let folder = top.join(CacheEntryKind::Compiled.folder());
        let path = folder.join(key);
        let file = match private::open(&path) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
            other => other?,
        };
        private::check_folder(top)?;
        private::check_folder(&folder)?;
        private::check_file(&file)?;
        Ok(Some((file, path)))
    }
}

fn hash(key: &str, content: &[u8]) -> String {
    let hash = seal(key, content);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the metadata that identifies a version of a file, or `None` if a later change might not alter it.
#[cfg(unix)]
fn file_stamp(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, SystemTime};

    /// Minimum age of the last change. Two changes within one step of the file system's clock, ten milliseconds at
    /// worst, have the same time.
    const STEP: Duration = Duration::from_millis(200);

    let meta = file.metadata().ok()?;
    let (seconds, nanos) = (meta.ctime(), meta.ctime_nsec());
    let changed = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
    if age.ok()? < STEP {
        return None;
    }
    let (device, number, length) = (meta.dev(), meta.ino(), meta.len());
    Some(format!("{device} {number} {length} {seconds}.{nanos:09}"))
}

/// Returns `None`: on other platforms, programs can set all file metadata.
#[cfg(not(unix))]
fn file_stamp(_: &File) -> Option<String> {
    None
}
