//! Stand-ins for hidden files and folders: unreadable, but with the least effect on programs that walk a tree.
//!
//! - A tracked file becomes an unreadable file, with the size and time that git expects.
//! - Any other file becomes a socket without a listener: opening it fails with "Permission denied" as for a file, but
//!   `tar` and `cp -r` continue.
//! - A folder with tracked files contains their stand-ins, and nothing else.
//!
//! They are stored in one folder of this user, named by their content, so that prepared containers can be reused.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::index::IndexStat;

/// Folder of stand-ins, accessible to this user only.
pub(super) struct StandInStore(PathBuf);

impl StandInStore {
    /// Opens this user's folder. Returns `None` if that fails.
    pub(super) fn open() -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        let temporary = std::env::temp_dir().canonicalize().ok()?;
        Self::open_at(&temporary.join(format!("mimir-hidden-{user}"))).ok()
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let meta = path.symlink_metadata()?;
        let is_own = meta.uid() == rustix::process::geteuid().as_raw();
        if !meta.is_dir() || !is_own || meta.mode() & 0o077 != 0 {
            return Err(io::Error::other(
                "expected a folder that only this user can access",
            ));
        }
        Ok(Self(path.to_owned()))
    }

    /// Returns an unreadable file with this size and time.
    pub(super) fn file(&self, stat: IndexStat) -> Option<PathBuf> {
        let IndexStat {
            size,
            modified,
            executable,
        } = stat;
        let path = self
            .0
            .join(format!("f-{size}-{modified}-{}", u8::from(executable)));
        make_file(&path, stat).ok()?;
        Some(path)
    }

    /// Returns a folder with unreadable files, given by their paths in it.
    pub(super) fn folder(&self, files: &[(String, IndexStat)]) -> Option<PathBuf> {
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let folder = self.0.join(format!("d-{:016x}", hasher.finish()));
        for (path, stat) in files {
            let path = Path::new(path);
            let plain = path
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            if !plain {
                return None;
            }
            let file = folder.join(path);
            fs::create_dir_all(file.parent()?).ok()?;
            make_file(&file, *stat).ok()?;
        }
        Some(folder)
    }

    /// Returns a readable file with this text.
    pub(super) fn text(&self, text: &str) -> Option<PathBuf> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let path = self.0.join(format!("t-{:016x}", hasher.finish()));
        if fs::read_to_string(&path).is_ok_and(|content| content == text) {
            return Some(path);
        }
        // Renamed when complete, since another process may read it.
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(&self.0)
            .ok()?;
        file.write_all(text.as_bytes()).ok()?;
        file.persist(&path).ok()?;
        Some(path)
    }

    /// Returns a socket without a listener.
    #[cfg(target_os = "linux")]
    pub(super) fn socket(&self) -> Option<PathBuf> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::os::unix::fs::FileTypeExt as _;

        let path = self.0.join("s");
        let existing = || {
            let meta = path.symlink_metadata().ok()?;
            (meta.file_type().is_socket() && meta.mode() & 0o777 == 0).then(|| path.clone())
        };
        if let Some(path) = existing() {
            return Some(path);
        }
        let _ = fs::remove_file(&path);
        let created = mknodat(CWD, &path, FileType::Socket, Mode::empty(), 0);
        // Another process may have created it meanwhile.
        created.ok().map(|()| path.clone()).or_else(existing)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn socket(&self) -> Option<PathBuf> {
        None
    }
}

/// Creates the file, unless it already exists.
fn make_file(path: &Path, stat: IndexStat) -> io::Result<()> {
    let mode = if stat.executable { 0o100 } else { 0 };
    let modified = UNIX_EPOCH + Duration::from_secs(stat.modified.into());
    let is_current = || {
        path.symlink_metadata().is_ok_and(|meta| {
            meta.is_file()
                && meta.mode() & 0o777 == mode
                && meta.len() == u64::from(stat.size)
                && meta.modified().is_ok_and(|time| time == modified)
        })
    };
    if is_current() {
        return Ok(());
    }
    let _ = fs::remove_file(path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    match file {
        Ok(file) => fill(&file, stat.size, modified),
        // Another process is creating it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sets the size and time without writing: the content is a hole in the file.
fn fill(file: &File, size: u32, modified: std::time::SystemTime) -> io::Result<()> {
    file.set_len(size.into())?;
    file.set_times(FileTimes::new().set_modified(modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_files_have_the_requested_size_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = StandInStore::open_at(&folder.path().join("s")).unwrap();
        let stat = IndexStat {
            size: 4_000_000_000,
            modified: 7,
            executable: true,
        };
        let file = store.file(stat).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!((meta.len(), meta.mtime()), (4_000_000_000, 7));
        assert_eq!((meta.mode() & 0o777, meta.blocks()), (0o100, 0));
        assert_eq!(
            store.file(stat),
            Some(file.clone()),
            "the existing file was not reused"
        );
        fs::remove_file(&file).unwrap();
        fs::write(&file, "another").unwrap();
        store.file(stat).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4_000_000_000);
        let inner = store.folder(&[("a/b".into(), stat)]).unwrap();
        assert!(inner.join("a/b").is_file());
        assert_eq!(store.folder(&[("../b".into(), stat)]), None);
    }

    #[test]
    fn stand_in_store_rejects_folders_writable_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(StandInStore::open_at(&open).is_err());
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(StandInStore::open_at(&folder.path().join("link")).is_err());
    }
}
