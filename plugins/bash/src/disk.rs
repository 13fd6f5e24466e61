//! Directories of the host as a filesystem of the shell. Modes are kept here while the script runs: WASI has none.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io::Error};

use bashkit::{DirEntry, FileType, FsBackend, Metadata, Result, async_trait};
use wasip2::filesystem::preopens::get_directories;

/// The modes of what was never changed, and of a program.
const FILE: u32 = 0o644;
const PROGRAM: u32 = 0o755;
const DIRECTORY: u32 = 0o755;

/// A directory of the host, by its path in the guest.
pub struct Disk {
    root: &'static str,
    modes: Mutex<HashMap<PathBuf, u32>>,
}

impl Disk {
    pub fn new(root: &'static str) -> Self {
        Self {
            root,
            modes: Mutex::default(),
        }
    }

    /// Maps a path of the shell to one below this directory; `..` does not lead above it.
    fn place(&self, path: &Path) -> PathBuf {
        let mut place = PathBuf::from(self.root);
        let mut depth = 0;
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    place.push(name);
                    depth += 1;
                }
                Component::ParentDir if depth > 0 => {
                    place.pop();
                    depth -= 1;
                }
                _ => {}
            }
        }
        place
    }

    fn modes(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metadata(&self, place: &Path) -> io::Result<Metadata> {
        let meta = fs::symlink_metadata(place)?;
        let kind = match meta.file_type() {
            kind if kind.is_dir() => FileType::Directory,
            kind if kind.is_symlink() => FileType::Symlink,
            _ => FileType::File,
        };
        let kept = self.modes().get(place).copied();
        let mode = kept.unwrap_or_else(|| match kind {
            FileType::Directory => DIRECTORY,
            FileType::File if is_program(place) => PROGRAM,
            _ => FILE,
        });
        let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(Metadata {
            file_type: kind,
            size: meta.len(),
            mode,
            modified,
            created: modified,
        })
    }
}

/// Returns true if a file looks like a script. Only a file whose name could be that of one is opened.
fn is_program(place: &Path) -> bool {
    let named = place
        .extension()
        .is_none_or(|kind| kind == "sh" || kind == "bash" || kind == "py");
    let mut start = [0; 2];
    named
        && fs::File::open(place)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok()
        && start == *b"#!"
}

#[async_trait]
impl FsBackend for Disk {
    async fn read(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(fs::read(self.place(path))?)
    }

    async fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        Ok(fs::write(self.place(path), content)?)
    }

    async fn append(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.place(path))?;
        Ok(file.write_all(content)?)
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        let place = self.place(path);
        Ok(match recursive {
            true => fs::create_dir_all(place)?,
            false => fs::create_dir(place)?,
        })
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        let place = self.place(path);
        match fs::symlink_metadata(&place)?.is_dir() {
            true if recursive => fs::remove_dir_all(&place)?,
            true => fs::remove_dir(&place)?,
            false => fs::remove_file(&place)?,
        }
        self.modes().retain(|kept, _| !kept.starts_with(&place));
        Ok(())
    }

    async fn stat(&self, path: &Path) -> Result<Metadata> {
        Ok(self.metadata(&self.place(path))?)
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.place(path))? {
            let entry = entry?;
            // Entries that are gone by now or cannot be read are left out.
            if let Ok(metadata) = self.metadata(&entry.path()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                entries.push(DirEntry { name, metadata });
            }
        }
        Ok(entries)
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        Ok(fs::symlink_metadata(self.place(path)).is_ok())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.place(from), self.place(to));
        fs::rename(&from, &to)?;
        let mode = self.modes().remove(&from);
        if let Some(mode) = mode {
            self.modes().insert(to, mode);
        }
        Ok(())
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.place(from), self.place(to));
        fs::copy(&from, &to)?;
        let mode = self.modes().get(&from).copied();
        if let Some(mode) = mode {
            self.modes().insert(to, mode);
        }
        Ok(())
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let link = self.place(link);
        let inside = link.strip_prefix("/").ok().and_then(text);
        let (Some(target), Some(inside)) = (text(target), inside) else {
            return Err(Error::from(ErrorKind::InvalidInput).into());
        };
        let roots = get_directories();
        let Some((root, _)) = roots.iter().find(|(_, name)| name == "/") else {
            return Err(Error::from(ErrorKind::NotFound).into());
        };
        Ok(root
            .symlink_at(&target, &inside)
            .map_err(|code| match code {
                wasip2::filesystem::types::ErrorCode::Exist => {
                    Error::from(ErrorKind::AlreadyExists)
                }
                wasip2::filesystem::types::ErrorCode::NoEntry => Error::from(ErrorKind::NotFound),
                _ => Error::from(ErrorKind::PermissionDenied),
            })?)
    }

    async fn read_link(&self, path: &Path) -> Result<PathBuf> {
        Ok(fs::read_link(self.place(path))?)
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        let place = self.place(path);
        fs::symlink_metadata(&place)?;
        self.modes().insert(place, mode);
        Ok(())
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.place(path))?;
        Ok(file.set_modified(time)?)
    }
}
