//! Host directories as a file system of the shell. WASI has no file modes, so modes set by the script are stored here
//! while the script runs.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io::Error};

use bashkit::{DirEntry, FileType, FsBackend, Metadata, Result, async_trait};
use wasip2::filesystem::preopens::get_directories;

/// Default modes of files, directories and executable scripts, unless the script has changed them.
const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;
const DIRECTORY_MODE: u32 = 0o755;

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
    fn host_path(&self, path: &Path) -> PathBuf {
        let mut host_path = PathBuf::from(self.root);
        let mut depth = 0;
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    host_path.push(name);
                    depth += 1;
                }
                Component::ParentDir if depth > 0 => {
                    host_path.pop();
                    depth -= 1;
                }
                _ => {}
            }
        }
        host_path
    }

    fn modes(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metadata(&self, host_path: &Path) -> io::Result<Metadata> {
        let meta = fs::symlink_metadata(host_path)?;
        let kind = match meta.file_type() {
            kind if kind.is_dir() => FileType::Directory,
            kind if kind.is_symlink() => FileType::Symlink,
            _ => FileType::File,
        };
        let stored_mode = self.modes().get(host_path).copied();
        let mode = stored_mode.unwrap_or_else(|| match kind {
            FileType::Directory => DIRECTORY_MODE,
            FileType::File if is_program(host_path) => PROGRAM_MODE,
            _ => FILE_MODE,
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

/// Returns true if a file begins with `#!`. Only files with the extension of a script, or without one, are opened.
fn is_program(host_path: &Path) -> bool {
    let has_script_name = host_path
        .extension()
        .is_none_or(|kind| kind == "sh" || kind == "bash" || kind == "py");
    let mut start = [0; 2];
    has_script_name
        && fs::File::open(host_path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok()
        && start == *b"#!"
}

#[async_trait]
impl FsBackend for Disk {
    async fn read(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(fs::read(self.host_path(path))?)
    }

    async fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        Ok(fs::write(self.host_path(path), content)?)
    }

    async fn append(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(self.host_path(path))?;
        Ok(file.write_all(content)?)
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        let host_path = self.host_path(path);
        Ok(if recursive {
            fs::create_dir_all(host_path)?
        } else {
            fs::create_dir(host_path)?
        })
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        let host_path = self.host_path(path);
        match fs::symlink_metadata(&host_path)?.is_dir() {
            true if recursive => fs::remove_dir_all(&host_path)?,
            true => fs::remove_dir(&host_path)?,
            false => fs::remove_file(&host_path)?,
        }
        self.modes()
            .retain(|changed, _| !changed.starts_with(&host_path));
        Ok(())
    }

    async fn stat(&self, path: &Path) -> Result<Metadata> {
        Ok(self.metadata(&self.host_path(path))?)
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.host_path(path))? {
            let entry = entry?;
            // Entries that were removed in the meantime or cannot be read are omitted.
            if let Ok(metadata) = self.metadata(&entry.path()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                entries.push(DirEntry { name, metadata });
            }
        }
        Ok(entries)
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        Ok(fs::symlink_metadata(self.host_path(path)).is_ok())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.host_path(from), self.host_path(to));
        fs::rename(&from, &to)?;
        let mode = self.modes().remove(&from);
        if let Some(mode) = mode {
            self.modes().insert(to, mode);
        }
        Ok(())
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.host_path(from), self.host_path(to));
        fs::copy(&from, &to)?;
        let mode = self.modes().get(&from).copied();
        if let Some(mode) = mode {
            self.modes().insert(to, mode);
        }
        Ok(())
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let link = self.host_path(link);
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
        Ok(fs::read_link(self.host_path(path))?)
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        let host_path = self.host_path(path);
        fs::symlink_metadata(&host_path)?;
        self.modes().insert(host_path, mode);
        Ok(())
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.host_path(path))?;
        Ok(file.set_modified(time)?)
    }
}
