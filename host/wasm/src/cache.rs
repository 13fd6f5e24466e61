//! Files in the user's cache folder: compiled code, and what was learnt about a component.
//!
//! An entry is named by what it was made from, carries the hash of its name and content, and is used only if
//! folder and file belong to this user alone and the hash holds. Anything else is as if it were not
//! there.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The first bytes of every entry; the last one is the version of this format.
const MAGIC: &[u8; 8] = b"mimir\0c\x02";

/// Magic and hash.
const HEADER: usize = MAGIC.len() + 32;

/// A folder that only this user can write to, or none.
#[derive(Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    /// Whether somebody was told that it cannot be used.
    told: AtomicBool,
}

/// What `doctor` says about the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheState {
    /// Nothing is kept.
    Off,
    /// It is not there yet; the first entry makes it.
    Absent,
    /// It can be used.
    Good {
        /// How many entries.
        entries: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// It is not used.
    Bad {
        /// Why.
        why: String,
    },
}

impl Cache {
    /// A cache in `folder`, or one that keeps nothing.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            told: AtomicBool::new(false),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Its state and size.
    pub fn state(&self) -> CacheState {
        let Some(folder) = &self.folder else {
            return CacheState::Off;
        };
        let bad = |error: io::Error| CacheState::Bad {
            why: error.to_string(),
        };
        if folder.symlink_metadata().is_err() {
            // The first entry makes it, in the nearest folder that is there.
            let mut above = folder.ancestors().skip(1);
            let above = above.find(|folder| folder.symlink_metadata().is_ok());
            return match above.map_or(Ok(()), private::check_writable) {
                Ok(()) => CacheState::Absent,
                Err(error) => bad(error),
            };
        }
        let checked = private::check_folder(folder).and_then(|()| private::check_writable(folder));
        if let Err(error) = checked {
            return bad(error);
        }
        let (mut entries, mut bytes) = (0, 0);
        for kind in Kind::ALL {
            let folder = folder.join(kind.folder());
            if folder.symlink_metadata().is_err() {
                continue;
            }
            // Each is checked before an entry of it is used.
            if let Err(error) = private::check_folder(&folder) {
                return CacheState::Bad {
                    why: format!("{}: {error}", folder.display()),
                };
            }
            let Ok(files) = fs::read_dir(folder) else {
                continue;
            };
            for file in files.flatten() {
                entries += 1;
                bytes += file.metadata().map_or(0, |meta| meta.len());
            }
        }
        CacheState::Good { entries, bytes }
    }

    /// The content of an entry, if there is a whole one that only this user can have written.
    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<Bytes> {
        let folder = self.folder.as_ref()?;
        match read(folder, &folder.join(kind.folder()), key) {
            Ok(content) => content,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    tracing::warn!(%error, key, "a cache entry is not used and made anew");
                } else {
                    self.useless(folder, &error);
                }
                None
            }
        }
    }

    /// Keeps an entry. A cache that cannot be written costs time and nothing else.
    pub(crate) fn put(&self, kind: Kind, key: &str, content: &[u8]) {
        let Some(folder) = &self.folder else {
            return;
        };
        if let Err(error) = write(folder, &folder.join(kind.folder()), key, content) {
            self.useless(folder, &error);
        }
    }

    /// Says once that the cache is of no use: what is wrong with one entry is wrong with the others too.
    fn useless(&self, folder: &Path, error: &io::Error) {
        if self.told.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "the cache cannot be used");
            return;
        }
        let folder = folder.display();
        tracing::warn!(
            "the cache {folder} cannot be used ({error}), so tools are compiled again each time; MIMIR_CACHE_DIR names another folder"
        );
    }
}

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Machine code.
    Compiled,
    /// What one component says of itself.
    Description,
    /// What is in one folder of tools.
    Folder,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Compiled, Kind::Description, Kind::Folder];

    fn folder(self) -> &'static str {
        match self {
            Kind::Compiled => "compiled",
            Kind::Description => "descriptions",
            Kind::Folder => "folders",
        }
    }
}

/// The hash that an entry carries. The name is part of it: an entry under another name is foreign.
fn seal(key: &str, content: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((key.len() as u64).to_le_bytes());
    hash.update(key);
    hash.update(content);
    hash.finalize().into()
}

fn read(top: &Path, folder: &Path, key: &str) -> io::Result<Option<Bytes>> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let mut file = match private::open(&folder.join(key)) {
        // What is in the way of the folder is found when something is to be kept.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        other => other?,
    };
    private::check_folder(top)?;
    private::check_folder(folder)?;
    private::check_file(&file)?;
    let mut entry = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut entry)?;
    let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "it is corrupt");
    let (header, content) = entry.split_at_checked(HEADER).ok_or_else(corrupt)?;
    let (magic, hash) = header.split_at(MAGIC.len());
    if magic != MAGIC || hash != seal(key, content) {
        return Err(corrupt());
    }
    Ok(Some(Bytes::from(entry).slice(HEADER..)))
}

fn write(top: &Path, folder: &Path, key: &str, content: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    private::make_folder(top)?;
    private::make_folder(folder)?;
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{}-{count}", std::process::id()));
    let written = (|| {
        let mut file = private::create(&temporary)?;
        file.write_all(MAGIC)?;
        file.write_all(&seal(key, content))?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&temporary, folder.join(key))
    })();
    if written.is_err() {
        // The first error is the one to tell.
        fs::remove_file(&temporary).ok();
    }
    written
}

/// What "this user alone" means on the platform.
#[cfg(unix)]
mod private {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// Write permission of the group and of others.
    const WRITABLE_BY_OTHERS: u32 = 0o022;

    fn refuse(why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
    }

    pub fn check_writable(folder: &Path) -> io::Result<()> {
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
    }

    pub fn check_folder(folder: &Path) -> io::Result<()> {
        let meta = folder.symlink_metadata()?;
        if !meta.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse("the cache folder belongs to somebody else"));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(refuse(
                "the cache folder is open to others; `chmod 700` makes it private",
            ));
        }
        Ok(())
    }

    pub fn check_file(file: &File) -> io::Result<()> {
        let meta = file.metadata()?;
        if !meta.is_file()
            || meta.uid() != rustix::process::geteuid().as_raw()
            || meta.mode() & WRITABLE_BY_OTHERS != 0
        {
            return Err(refuse("it could have been written by somebody else"));
        }
        Ok(())
    }

    pub fn open(path: &Path) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
    }

    pub fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    }

    pub fn make_folder(folder: &Path) -> io::Result<()> {
        if !folder.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        check_folder(folder)
    }
}

/// On other platforms the user's cache folder is private to the user by the system's own defaults.
#[cfg(not(unix))]
mod private {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub fn check_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub fn check_writable(folder: &Path) -> io::Result<()> {
        let meta = std::fs::metadata(folder)?;
        if !meta.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if meta.permissions().readonly() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    pub fn check_file(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub fn create(path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).open(path)
    }

    pub fn make_folder(folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)
    }
}

#[cfg(test)]
mod tests;
