//! A file below a folder, reached one name at a time and never through a link, so that what is restored
//! lands in the workspace whatever happened to the folders since.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

#[cfg(unix)]
pub use unix::Place;

#[cfg(not(unix))]
pub use portable::Place;

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A link, with where it points.
    Link(String),
    /// Anything else; whether it can be read is seen when it is opened.
    File,
}

/// The names in a relative path; none if it leaves its folder or is empty.
fn names(path: &str) -> io::Result<Vec<&str>> {
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

/// A regular file, or an error: a pipe or a device is nothing that a tool wrote.
fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ))
    }
}

/// A name for a file that is not finished; nobody else takes it, and a second one differs.
fn unfinished() -> String {
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

    use super::{Item, names, regular, unfinished};

    /// Where a file is or will be: an open folder and a name in it.
    #[derive(Debug)]
    pub struct Place {
        folder: OwnedFd,
        name: String,
    }

    const FOLDER: OFlags = OFlags::DIRECTORY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC)
        .union(OFlags::RDONLY);

    /// Of a new file and a new folder of which nobody knows whose they may be: their owner's.
    const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
    const FOLDER_MODE: Mode = Mode::RWXU;

    /// The permissions that are kept: never setuid and the like.
    const KEPT: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

    impl Place {
        /// Goes to `path` below `root`; makes the folders on the way if `make`.
        pub fn find(root: &Path, path: &str, make: bool) -> io::Result<Self> {
            let mut names = names(path)?;
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
                    // Systems have several words for a link that is not followed.
                    Err(Errno::LOOP | Errno::MLINK) => return Err(Errno::NOTDIR.into()),
                    opened => opened?,
                };
            }
            Ok(Self { folder, name })
        }

        /// Opens the file for reading.
        pub fn open(&self) -> io::Result<File> {
            // Not blocking: a pipe in the place of the file must not make this wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            regular(openat(&self.folder, self.name.as_str(), flags, Mode::empty())?.into())
        }

        /// Puts a file there, whole or not at all.
        ///
        /// The permissions are those of the file that it replaces, else `mode`, else for its owner alone.
        pub fn put(&self, content: &mut dyn Read, mode: Option<u32>) -> io::Result<()> {
            let name = unfinished();
            let mode = match statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => {
                    Some(Mode::from_raw_mode(stat.st_mode))
                }
                _ => mode.map(|mode| Mode::from_raw_mode(mode as _) & KEPT),
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

        /// What is there.
        pub fn item(&self) -> io::Result<Item> {
            let name = self.name.as_str();
            let stat = match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(Item::Absent),
                stat => stat?,
            };
            Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Item::Directory,
                FileType::Symlink => {
                    let target = readlinkat(&self.folder, name, Vec::new())?;
                    Item::Link(target.to_string_lossy().into_owned())
                }
                _ => Item::File,
            })
        }

        /// Makes a directory for its owner alone.
        pub fn make_directory(&self) -> io::Result<()> {
            Ok(mkdirat(&self.folder, self.name.as_str(), FOLDER_MODE)?)
        }

        /// Who may use what is there.
        #[expect(
            clippy::useless_conversion,
            reason = "modes have another width on other platforms"
        )]
        pub fn mode(&self) -> Option<u32> {
            let stat = statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some((Mode::from_raw_mode(stat.st_mode) & KEPT).bits().into())
        }

        /// Says who may use the directory.
        pub fn set_mode(&self, mode: u32) -> io::Result<()> {
            let folder = openat(&self.folder, self.name.as_str(), FOLDER, Mode::empty())?;
            Ok(fchmod(folder, Mode::from_raw_mode(mode as _) & KEPT)?)
        }

        /// Puts the file or the link also where `copy` is and nothing else.
        pub fn keep_at(&self, copy: &Self) -> io::Result<()> {
            let (from, to) = (self.name.as_str(), copy.name.as_str());
            let linked = linkat(&self.folder, from, &copy.folder, to, AtFlags::empty());
            // Not every file has two names: not on another disk, and not one of another user.
            match linked.map(|()| Item::Absent).or_else(|_| self.item())? {
                Item::Absent | Item::Directory => Ok(()),
                Item::Link(target) => copy.link(&target),
                Item::File => copy.put(&mut self.open()?, None),
            }
        }

        /// Makes a link. What is at its other end is not looked at.
        pub fn link(&self, target: &str) -> io::Result<()> {
            Ok(symlinkat(target, &self.folder, self.name.as_str())?)
        }

        /// Removes the file or the link, or the directory if it is empty.
        pub fn remove(&self) -> io::Result<()> {
            let flags = match self.item()? {
                Item::Directory => AtFlags::REMOVEDIR,
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

    use super::{Item, names, regular, unfinished};

    /// Where a file is or will be.
    #[derive(Debug)]
    pub struct Place {
        folder: PathBuf,
        path: PathBuf,
    }

    fn refuse_link(path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.file_type().is_symlink() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "there is a link on the way",
            ));
        }
        Ok(())
    }

    impl Place {
        /// Goes to `path` below `root`; makes the folders on the way if `make`.
        pub fn find(root: &Path, path: &str, make: bool) -> io::Result<Self> {
            let mut names = names(path)?;
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
            regular(File::open(&self.path)?)
        }

        /// Puts a file there, whole or not at all.
        pub fn put(&self, content: &mut dyn Read, _mode: Option<u32>) -> io::Result<()> {
            let unfinished = self.folder.join(unfinished());
            let done = File::create_new(&unfinished)
                .and_then(|mut file| io::copy(content, &mut file).and_then(|_| file.sync_all()))
                .and_then(|()| fs::rename(&unfinished, &self.path));
            if done.is_err() {
                let _ = fs::remove_file(&unfinished);
            }
            done
        }

        /// What is there.
        pub fn item(&self) -> io::Result<Item> {
            let meta = match fs::symlink_metadata(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Item::Absent),
                meta => meta?,
            };
            Ok(if meta.file_type().is_symlink() {
                Item::Link(fs::read_link(&self.path)?.to_string_lossy().into_owned())
            } else if meta.is_dir() {
                Item::Directory
            } else {
                Item::File
            })
        }

        /// Makes a directory.
        pub fn make_directory(&self) -> io::Result<()> {
            fs::create_dir(&self.path)
        }

        /// Permissions are the folder's here.
        pub fn mode(&self) -> Option<u32> {
            None
        }

        /// Permissions are the folder's here.
        pub fn set_mode(&self, _mode: u32) -> io::Result<()> {
            Ok(())
        }

        /// Puts the file also where `copy` is and nothing else.
        pub fn keep_at(&self, copy: &Self) -> io::Result<()> {
            copy.put(&mut self.open()?, None)
        }

        /// Links are not made here: a directory link and a file link are two things.
        pub fn link(&self, _target: &str) -> io::Result<()> {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "links cannot be restored on this platform",
            ))
        }

        /// Removes the file, or the directory if it is empty.
        pub fn remove(&self) -> io::Result<()> {
            match self.item()? {
                Item::Directory => fs::remove_dir(&self.path),
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
    fn files_come_and_go_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Place::find(dir.path(), "a/b/c.txt", false).is_err());
        let place = Place::find(dir.path(), "./a/b/c.txt", true).unwrap();
        assert_eq!(place.open().unwrap_err().kind(), io::ErrorKind::NotFound);
        place.put(&mut &b"one"[..], None).unwrap();
        place.put(&mut &b"two"[..], None).unwrap();
        let mut text = String::new();
        place.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "two");
        assert_eq!(
            fs::read_dir(dir.path().join("a/b")).unwrap().count(),
            1,
            "nothing unfinished stays"
        );
        place.remove().unwrap();
        assert!(place.open().is_err());
    }

    #[test]
    fn paths_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", ".", "..", "a/../../b", "/etc/passwd"] {
            assert!(Place::find(dir.path(), bad, true).is_err(), "{bad:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), "safe").unwrap();
        let dir = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("folder")).unwrap();
        symlink(outside.path().join("victim"), dir.path().join("file")).unwrap();
        assert!(Place::find(dir.path(), "folder/victim", true).is_err());
        let place = Place::find(dir.path(), "file", true).unwrap();
        assert!(place.open().is_err());
        place.put(&mut &b"new"[..], None).unwrap();
        assert_eq!(
            fs::read_to_string(outside.path().join("victim")).unwrap(),
            "safe"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("file")).unwrap(),
            "new",
            "the link itself is replaced"
        );
    }
}
