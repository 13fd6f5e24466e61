//! Access to a file below a folder, opened one path component at a time and never through a link, so that a restored
//! file ends up in the workspace even if its folders were replaced.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

#[cfg(unix)]
pub use unix::UndoPath;

#[cfg(not(unix))]
pub use portable::UndoPath;

/// Kind of the item at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind {
    /// No item.
    Absent,
    /// A directory.
    Directory,
    /// A link, with its target.
    Link(String),
    /// Any other item. Only a regular file can be opened.
    File,
}

/// Splits a relative path into its components. Fails if the path is empty or leaves its folder.
fn split_path(path: &str) -> io::Result<Vec<&str>> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "the path leaves its folder");
    let mut names = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => names.push(name.to_str().ok_or_else(refused)?),
            Component::CurDir => {}
            _ => return Err(refused()),
        }
    }
    if names.is_empty() {
        Err(refused())
    } else {
        Ok(names)
    }
}

/// Refuses items other than regular files, because tools do not write pipes or devices.
fn require_regular_file(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }
}

/// Creates a unique name for an unfinished file.
fn temporary_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |t| t.subsec_nanos());
    format!(
        ".mimir-undo-{:x}-{nanos:x}-{:x}.tmp",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, fchmod, linkat, mkdirat, openat, readlinkat,
        renameat, statat, symlinkat, unlinkat,
    };
    use rustix::io::Errno;

    use super::{PathKind, require_regular_file, split_path, temporary_name};

    /// The location of a file that may not exist yet: an open folder and a name in it.
    #[derive(Debug)]
    pub struct UndoPath {
        folder: OwnedFd,
        name: String,
    }

    const FOLDER: OFlags = OFlags::DIRECTORY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC)
        .union(OFlags::RDONLY);

    /// Permissions of new files and folders whose old permissions are unknown: access for the owner only.
    const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
    const FOLDER_MODE: Mode = Mode::RWXU;

    /// The permission bits that are preserved, which exclude setuid, setgid and sticky.
    const MODE_BITS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

    impl UndoPath {
        /// Opens the folder of `path` below `root`. Creates missing folders if `make` is true.
        pub fn resolve(root: &Path, path: &str, make: bool) -> io::Result<Self> {
            let mut names = split_path(path)?;
            let name = names.pop().unwrap_or_default().to_owned();
            let mut folder = openat(
                CWD,
                root,
                OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY,
                Mode::empty(),
            )?;
            for part in names {
                folder = match openat(&folder, part, FOLDER, Mode::empty()) {
                    Err(Errno::NOENT) if make => {
                        mkdirat(&folder, part, FOLDER_MODE)?;
                        openat(&folder, part, FOLDER, Mode::empty())?
                    }
                    // Systems return different errors for a link that is not followed.
                    Err(Errno::LOOP | Errno::MLINK) => return Err(Errno::NOTDIR.into()),
                    opened => opened?,
                };
            }
            Ok(Self { folder, name })
        }

        /// Opens the file for reading.
        pub fn open(&self) -> io::Result<File> {
            // Non-blocking, because opening a pipe would wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            require_regular_file(
                openat(&self.folder, self.name.as_str(), flags, Mode::empty())?.into(),
            )
        }

        /// Writes a file atomically.
        ///
        /// A replaced file keeps its permissions. A new file gets `mode`, or access for the owner only.
        pub fn write_file(&self, content: &mut dyn Read, mode: Option<u32>) -> io::Result<()> {
            let name = temporary_name();
            let mode = match statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => {
                    Some(Mode::from_raw_mode(stat.st_mode))
                }
                _ => mode.map(|mode| Mode::from_raw_mode(mode as _) & MODE_BITS),
            };
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = openat(&self.folder, name.as_str(), flags, FILE_MODE)?;
            let mut file = File::from(fd);
            let done = io::copy(content, &mut file)
                .and_then(|_| match mode {
                    Some(mode) => fchmod(&file, mode).map_err(Into::into),
                    None => Ok(()),
                })
                .and_then(|()| file.sync_all())
                .and_then(|()| {
                    Ok(renameat(
                        &self.folder,
                        name.as_str(),
                        &self.folder,
                        self.name.as_str(),
                    )?)
                });
            if done.is_err() {
                let _ = unlinkat(&self.folder, name.as_str(), AtFlags::empty());
            }
            done
        }

        /// Returns the kind of the item at this location.
        pub fn kind(&self) -> io::Result<PathKind> {
            let name = self.name.as_str();
            let stat = match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(PathKind::Absent),
                stat => stat?,
            };
            Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => PathKind::Directory,
                FileType::Symlink => {
                    let target = readlinkat(&self.folder, name, Vec::new())?;
                    PathKind::Link(target.to_string_lossy().into_owned())
                }
                _ => PathKind::File,
            })
        }

        /// Creates a directory with access for the owner only.
        pub fn make_directory(&self) -> io::Result<()> {
            Ok(mkdirat(&self.folder, self.name.as_str(), FOLDER_MODE)?)
        }

        /// Returns the permissions of the item; `None` if it cannot be accessed.
        #[expect(
            clippy::useless_conversion,
            reason = "modes have another width on other platforms"
        )]
        pub fn mode(&self) -> Option<u32> {
            let stat = statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(
                (Mode::from_raw_mode(stat.st_mode) & MODE_BITS)
                    .bits()
                    .into(),
            )
        }

        /// Sets the permissions of the directory.
        pub fn set_mode(&self, mode: u32) -> io::Result<()> {
            let folder = openat(&self.folder, self.name.as_str(), FOLDER, Mode::empty())?;
            Ok(fchmod(folder, Mode::from_raw_mode(mode as _) & MODE_BITS)?)
        }

        /// Makes the file or link available at `copy`: as a hard link if possible, else as a copy. Does nothing for a
        /// directory.
        pub fn hard_link_to(&self, copy: &Self) -> io::Result<()> {
            let (from, to) = (self.name.as_str(), copy.name.as_str());
            let linked = linkat(&self.folder, from, &copy.folder, to, AtFlags::empty());
            // Hard links are not possible across file systems, and may be refused for files of another user.
            match linked.map(|()| PathKind::Absent).or_else(|_| self.kind())? {
                PathKind::Absent | PathKind::Directory => Ok(()),
                PathKind::Link(target) => copy.make_link(&target),
                PathKind::File => copy.write_file(&mut self.open()?, None),
            }
        }

        /// Creates a symbolic link. The target is not checked.
        pub fn make_link(&self, target: &str) -> io::Result<()> {
            Ok(symlinkat(target, &self.folder, self.name.as_str())?)
        }

        /// Removes the file or the link, or the directory if it is empty.
        pub fn remove(&self) -> io::Result<()> {
            let flags = match self.kind()? {
                PathKind::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            Ok(unlinkat(&self.folder, self.name.as_str(), flags)?)
        }
    }
}

#[cfg(not(unix))]
mod portable {
    use std::fs::{self, File};
    use std::io::{self, Read};
    use std::path::{Path, PathBuf};

    use super::{PathKind, require_regular_file, split_path, temporary_name};

    /// The location of a file that may not exist yet.
    #[derive(Debug)]
    pub struct UndoPath {
        folder: PathBuf,
        path: PathBuf,
    }

    fn refuse_link(path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.file_type().is_symlink() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "the path contains a link",
            ));
        }
        Ok(())
    }

    impl UndoPath {
        /// Finds the folder of `path` below `root`. Creates missing folders if `make` is true.
        pub fn resolve(root: &Path, path: &str, make: bool) -> io::Result<Self> {
            let mut names = split_path(path)?;
            let name = names.pop().unwrap_or_default();
            let mut folder = root.to_owned();
            for part in names {
                folder.push(part);
                match refuse_link(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && make => {
                        fs::create_dir(&folder)?
                    }
                    looked => looked?,
                }
            }
            Ok(Self {
                path: folder.join(name),
                folder,
            })
        }

        /// Opens the file for reading.
        pub fn open(&self) -> io::Result<File> {
            refuse_link(&self.path)?;
            require_regular_file(File::open(&self.path)?)
        }

        /// Writes a file atomically.
        pub fn write_file(&self, content: &mut dyn Read, _mode: Option<u32>) -> io::Result<()> {
            let unfinished = self.folder.join(temporary_name());
            let done = File::create_new(&unfinished)
                .and_then(|mut file| io::copy(content, &mut file).and_then(|_| file.sync_all()))
                .and_then(|()| fs::rename(&unfinished, &self.path));
            if done.is_err() {
                let _ = fs::remove_file(&unfinished);
            }
            done
        }

        /// Returns the kind of the item at this location.
        pub fn kind(&self) -> io::Result<PathKind> {
            let meta = match fs::symlink_metadata(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(PathKind::Absent);
                }
                meta => meta?,
            };
            Ok(if meta.file_type().is_symlink() {
                PathKind::Link(fs::read_link(&self.path)?.to_string_lossy().into_owned())
            } else if meta.is_dir() {
                PathKind::Directory
            } else {
                PathKind::File
            })
        }

        /// Creates a directory.
        pub fn make_directory(&self) -> io::Result<()> {
            fs::create_dir(&self.path)
        }

        /// Not supported: files inherit the permissions of their folder here.
        pub fn mode(&self) -> Option<u32> {
            None
        }

        /// Does nothing: files inherit the permissions of their folder here.
        pub fn set_mode(&self, _mode: u32) -> io::Result<()> {
            Ok(())
        }

        /// Copies the file to `copy`.
        pub fn hard_link_to(&self, copy: &Self) -> io::Result<()> {
            copy.write_file(&mut self.open()?, None)
        }

        /// Not supported, because Windows distinguishes links to directories from links to files.
        pub fn make_link(&self, _target: &str) -> io::Result<()> {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "links cannot be restored on this platform",
            ))
        }

        /// Removes the file, or the directory if it is empty.
        pub fn remove(&self) -> io::Result<()> {
            match self.kind()? {
                PathKind::Directory => fs::remove_dir(&self.path),
                _ => fs::remove_file(&self.path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;

    #[test]
    fn undo_path_writes_and_removes_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(UndoPath::resolve(dir.path(), "a/b/c.txt", false).is_err());
        let place = UndoPath::resolve(dir.path(), "./a/b/c.txt", true).unwrap();
        assert_eq!(place.open().unwrap_err().kind(), io::ErrorKind::NotFound);
        place.write_file(&mut &b"one"[..], None).unwrap();
        place.write_file(&mut &b"two"[..], None).unwrap();
        let mut text = String::new();
        place.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "two");
        assert_eq!(
            fs::read_dir(dir.path().join("a/b")).unwrap().count(),
            1,
            "a temporary file was left behind"
        );
        place.remove().unwrap();
        assert!(place.open().is_err());
    }

    #[test]
    fn undo_path_rejects_paths_outside() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", ".", "..", "a/../../b", "/etc/passwd"] {
            assert!(UndoPath::resolve(dir.path(), bad, true).is_err(), "{bad:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn undo_path_does_not_follow_links() {
        use std::os::unix::fs::symlink;
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), "safe").unwrap();
        let dir = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("folder")).unwrap();
        symlink(outside.path().join("victim"), dir.path().join("file")).unwrap();
        assert!(UndoPath::resolve(dir.path(), "folder/victim", true).is_err());
        let place = UndoPath::resolve(dir.path(), "file", true).unwrap();
        assert!(place.open().is_err());
        place.write_file(&mut &b"new"[..], None).unwrap();
        assert_eq!(
            fs::read_to_string(outside.path().join("victim")).unwrap(),
            "safe"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("file")).unwrap(),
            "new",
            "the target of the link was changed"
        );
    }
}
