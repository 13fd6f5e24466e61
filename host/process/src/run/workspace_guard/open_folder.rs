//! Access to single files of a workspace without following links: a command may create links anywhere and at any time.

use std::ffi::OsStr;
use std::fs::ReadDir;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
#[cfg(not(target_os = "linux"))]
use std::path::PathBuf;

use super::REFUSED_SUFFIX;

/// Maximum number of new names to try for a renamed path; the first ones end with a small number.
const MAX_NAMES: u64 = 2_000;
const NUMBERED_NAMES: u64 = 1_000;

/// Renames a path, given relative to the workspace, so that no program obeys it. Returns the new path. Follows no link:
/// a command could make it lead anywhere.
pub(super) fn move_aside(workspace: &Path, path: &str) -> Option<String> {
    let path = Path::new(path);
    let (above, name) = (path.parent()?, path.file_name()?);
    let folder = OpenFolder::open(&workspace.join(above))?;
    for number in 0..MAX_NAMES {
        let mut aside = name.to_owned();
        aside.push(REFUSED_SUFFIX);
        match number {
            0 => {}
            1..NUMBERED_NAMES => aside.push(format!("-{number}")),
            // A command may have used all numbers.
            _ => aside.push(format!("-{:016x}", RandomState::new().hash_one(number))),
        }
        match folder.rename(name, &aside) {
            Ok(()) => return Some(above.join(aside).display().to_string()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Another name would fail as well.
            Err(_) => return None,
        }
    }
    None
}

/// Reads a folder. If permissions prevent that, gives its owner all permissions first: a command may have removed them,
/// while other programs can still open known files in the folder.
pub(super) fn read_folder(path: &Path) -> Option<ReadDir> {
    match path.read_dir() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            OpenFolder::open(path)?.grant_owner();
            path.read_dir().ok()
        }
        entries => entries.ok(),
    }
}

/// An open folder, which cannot be swapped between operations.
#[cfg(target_os = "linux")]
struct OpenFolder(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl OpenFolder {
    fn open(folder: &Path) -> Option<Self> {
        crate::sandbox::open_by_no_link(folder).ok().map(Self)
    }

    /// Renames an entry without replacing an existing file.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let no_replace = rustix::fs::RenameFlags::NOREPLACE;
        let rename = || rustix::fs::renameat_with(&self.0, from, &self.0, to, no_replace);
        let mut renamed = rename();
        if renamed == Err(rustix::io::Errno::ACCESS) {
            // A command may have made the folder read-only.
            self.grant_owner();
            renamed = rename();
        }
        Ok(renamed?)
    }

    /// Gives the owner all permissions for the folder. Has no effect on a folder of another user.
    fn grant_owner(&self) {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::PermissionsExt as _;

        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        if let Ok(metadata) = std::fs::metadata(&path) {
            let mode = metadata.permissions().mode() | 0o700;
            let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct OpenFolder(PathBuf);

#[cfg(not(target_os = "linux"))]
impl OpenFolder {
    fn open(folder: &Path) -> Option<Self> {
        folder
            .canonicalize()
            .ok()
            .filter(|real| real == folder)
            .map(Self)
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let to = self.0.join(to);
        match to.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(self.0.join(from), to),
        }
    }

    /// Gives the owner all permissions for the folder.
    #[cfg(unix)]
    fn grant_owner(&self) {
        use std::os::unix::fs::PermissionsExt as _;

        if let Ok(metadata) = self.0.metadata() {
            let mode = metadata.permissions().mode() | 0o700;
            let _ = std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(mode));
        }
    }

    #[cfg(not(unix))]
    fn grant_owner(&self) {}
}

/// Reads a regular file without following links. Returns `None` if it is larger than `limit` bytes.
pub(crate) fn read_regular_file(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = open(path)?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}

#[cfg(target_os = "linux")]
fn open(path: &Path) -> Option<std::fs::File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    // Without `NONBLOCK`, opening a pipe would wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    file.ok().map(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> Option<std::fs::File> {
    let plain = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    plain.then(|| std::fs::File::open(path).ok()).flatten()
}
