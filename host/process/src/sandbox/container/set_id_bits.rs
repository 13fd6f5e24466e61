//! Removal of set-user-ID and set-group-ID bits from files made by a command in a container. A container does not
//! prevent such files, and other users of a shared folder could run them with the rights of the owner. The files
//! themselves remain.
//!
//! Not needed for the sandbox `process`, whose system call filter refuses such modes.

use std::ffi::CStr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat, chmodat, fchmod, fstat, openat,
    statat,
};
use rustix::path::Arg;

use super::blueprint::ContainerBlueprint;

/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: RawMode = 0o6000;

/// Granularity of file system timestamps.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_millis(20);

/// Maximum search depth: more than any workspace has.
const MAX_DEPTH: usize = 500;

/// Folders that a command could write to, and the time of its start.
#[derive(Debug)]
pub(super) struct WritableFolders {
    folders: Vec<PathBuf>,
    since: SystemTime,
}

impl WritableFolders {
    /// Records the folders of a command that starts now in a container with this blueprint.
    pub(super) fn for_command_in(blueprint: &ContainerBlueprint) -> Self {
        let mut folders = blueprint.writable();
        folders.sort();
        // A folder below another one is searched with it.
        folders.dedup_by(|below, above| below.starts_with(above));
        Self {
            folders,
            since: SystemTime::now() - TIMESTAMP_GRANULARITY,
        }
    }

    /// Clears the bits of files changed since the command started. Call this after all of its processes have ended.
    pub(super) fn clear(&self) {
        for folder in &self.folders {
            match open_folder(CWD, folder.as_path()) {
                Ok(folder) => self.clear_below(folder),
                Err(error) => {
                    tracing::debug!(%error, "a folder cannot be checked for set-ID files")
                }
            }
        }
    }

    /// Searches a folder and its subfolders, without following links.
    fn clear_below(&self, folder: OwnedFd) {
        let mut stack: Vec<Dir> = Dir::new(folder).into_iter().collect();
        while let Some(folder) = stack.last_mut() {
            let Some(Ok(entry)) = folder.next() else {
                stack.pop();
                continue;
            };
            let Ok(at) = folder.fd() else { continue };
            let name = entry.file_name();
            let mut kind = entry.file_type();
            if matches!(kind, FileType::RegularFile | FileType::Unknown) {
                let Ok(stat) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                kind = FileType::from_raw_mode(stat.st_mode);
                if self.is_new(&stat) {
                    self.clear_bits(at, name);
                }
            }
            if kind == FileType::Directory && !matches!(name.to_bytes(), b"." | b"..") {
                match open_folder(at, name).and_then(Dir::new) {
                    Ok(_) if stack.len() >= MAX_DEPTH => {
                        tracing::warn!(
                            "folders nested deeper than the limit are not checked for set-ID files"
                        );
                    }
                    Ok(folder) => stack.push(folder),
                    Err(error) => {
                        tracing::debug!(%error, "a folder cannot be checked for set-ID files")
                    }
                }
            }
        }
    }

    fn is_new(&self, stat: &Stat) -> bool {
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_mode & SET_ID != 0
            && SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) >= self.since
    }

    /// Clears the bits through a file handle, since another file may have the name by now.
    fn clear_bits(&self, folder: BorrowedFd<'_>, name: &CStr) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        let flags = flags | OFlags::PATH;
        let Ok(file) = openat(folder, name, flags, Mode::empty()) else {
            return;
        };
        let Ok(stat) = fstat(&file) else { return };
        if !self.is_new(&stat) {
            return;
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o1777);
        let name = name.to_string_lossy();
        match change_mode(&file, mode) {
            Ok(()) => {
                tracing::warn!(%name, "removed the set-ID bits from a file that a command has made")
            }
            Err(error) => {
                tracing::warn!(%name, %error, "the set-ID bits of a file that a command has made cannot be removed")
            }
        }
    }
}

/// Changes a mode. On Linux, the path in `/proc` also works for an unreadable file.
fn change_mode(file: &OwnedFd, mode: Mode) -> rustix::io::Result<()> {
    if cfg!(target_os = "linux") {
        let at = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmodat(CWD, at, mode, AtFlags::empty())
    } else {
        fchmod(file, mode)
    }
}

fn open_folder(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::write(path, "x").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn set_id_bits_are_cleared_from_new_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::create_dir(at("elsewhere")).unwrap();
        set(&at("a/old"), 0o4755);
        std::thread::sleep(TIMESTAMP_GRANULARITY * 3);
        let folders = WritableFolders {
            folders: vec![at("a")],
            since: SystemTime::now() - TIMESTAMP_GRANULARITY,
        };
        for (name, mode) in [
            ("a/b/c/sh", 0o4755),
            ("a/group", 0o2711),
            ("a/none", 0o4000),
            ("elsewhere/sh", 0o4755),
        ] {
            set(&at(name), mode);
        }
        std::os::unix::fs::symlink(at("elsewhere"), at("a/link")).unwrap();
        folders.clear();
        for (name, expected) in [
            ("a/b/c/sh", 0o755),
            ("a/group", 0o711),
            ("a/none", 0),
            ("a/old", 0o4755),
            ("elsewhere/sh", 0o4755),
        ] {
            assert_eq!(mode(&at(name)), expected, "{name}");
        }
    }
}
