//! Machine code, which is long: it is mapped and not read, where nothing has touched its file since it was read and
//! found whole.
//!
//! Reading and hashing 40 MB takes longer than all else that a call does. A file whose content was compared with its
//! hash is known by its stamp: what the system says of every file and changes with every change of it.
//!
//! Never here: running it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use bytes::Bytes;

use super::{Cache, Kind, private, seal, write_to};

/// What is known of a file of code: the hash of its name and content, and the stamp that it had when it was compared.
struct Seal {
    hash: String,
    /// None where a change might leave the stamp as it is.
    stamp: Option<String>,
}

impl Seal {
    fn read(cache: &Cache, key: &str) -> Option<Self> {
        let text = String::from_utf8(cache.get(Kind::Seal, key)?.into()).ok()?;
        let (hash, stamp) = text.split_once('\n')?;
        Some(Self {
            hash: hash.to_owned(),
            stamp: (!stamp.is_empty()).then(|| stamp.to_owned()),
        })
    }

    fn write(&self, cache: &Cache, key: &str) {
        let stamp = self.stamp.as_deref().unwrap_or_default();
        let text = format!("{}\n{stamp}", self.hash);
        cache.put(Kind::Seal, key, text.as_bytes());
    }
}

impl Cache {
    /// The file with this code, if it is as it was when its content was compared with its hash.
    pub(crate) fn unchanged(&self, key: &str) -> Option<PathBuf> {
        let stamp = Seal::read(self, key)?.stamp?;
        let (file, path) = self.opened(key).ok()??;
        (stamped(&file)? == stamp).then_some(path)
    }

    /// This code, read and compared with its hash.
    pub(crate) fn code(&self, key: &str) -> Option<Bytes> {
        let mut seal = Seal::read(self, key)?;
        let (mut file, path) = match self.opened(key) {
            Ok(found) => found?,
            Err(error) => {
                self.useless(self.folder()?, &error);
                return None;
            }
        };
        // Before it is read: what changes it meanwhile changes the stamp that it has later.
        let stamp = stamped(&file);
        let mut content = Vec::new();
        let read = file.read_to_end(&mut content);
        if read.is_err() || seal.hash != hash(key, &content) {
            let path = path.display();
            tracing::warn!("{path} is corrupt, is not used and made anew");
            return None;
        }
        if stamp.is_some() && stamp != seal.stamp {
            seal.stamp = stamp;
            seal.write(self, key);
        }
        Some(content.into())
    }

    /// Keeps code.
    pub(crate) fn keep_code(&self, key: &str, content: &[u8]) {
        let Some(folder) = self.folder() else {
            return;
        };
        let place = folder.join(Kind::Compiled.folder());
        let written = write_to(folder, &place, key, |file| {
            file.write_all(content)?;
            // What a machine that loses its power leaves of it is not to have the stamp of what was written.
            file.sync_all()
        });
        if let Err(error) = written {
            return self.useless(folder, &error);
        }
        // It is too new to have a stamp that says something.
        let seal = Seal {
            hash: hash(key, content),
            stamp: None,
        };
        seal.write(self, key);
    }

    fn opened(&self, key: &str) -> io::Result<Option<(File, PathBuf)>> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let Some(top) = self.folder() else {
            return Ok(None);
        };
        let folder = top.join(Kind::Compiled.folder());
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

/// What the system says of a file, if a later change is sure to change it.
#[cfg(unix)]
fn stamped(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, SystemTime};

    /// Clocks of file systems go in steps, of ten milliseconds at most: two changes within one have the same time.
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

/// Elsewhere nothing is known that no program can set.
#[cfg(not(unix))]
fn stamped(_: &File) -> Option<String> {
    None
}
