//! Private files of this user: only read if other users cannot change them, changed by one process at a time, and
//! replaced atomically.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use mimir_core::files::{self, LinkPolicy};

/// Maximum size in bytes of a file that is read. The files that mimir writes are always shorter.
pub const MAX_FILE_SIZE: u64 = 16 << 20;

/// Access to a file that only its owner may have.
#[derive(Debug, Clone, Copy)]
pub enum OwnerOnly {
    /// Other users must not be able to write the file.
    Writing,
    /// Other users must not be able to read or write the file.
    Reading,
}

impl OwnerOnly {
    #[cfg(unix)]
    fn is_satisfied(self, meta: &Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let others = match self {
            OwnerOnly::Writing => 0o022,
            OwnerOnly::Reading => 0o077,
        };
        meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & others == 0
    }

    #[cfg(not(unix))]
    fn is_satisfied(self, _: &Metadata) -> bool {
        true
    }

    fn violation(self) -> &'static str {
        match self {
            OwnerOnly::Writing => {
                "other users can write it; make it private (chmod 600) or remove it"
            }
            OwnerOnly::Reading => {
                "other users can read it; make it private (chmod 600), and replace the values in it"
            }
        }
    }
}

/// Reads a file; `None` if it does not exist. Fails if the file is not protected from other users as required.
pub fn read(path: &Path, protection: OwnerOnly) -> io::Result<Option<String>> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !protection.is_satisfied(&meta) {
        return Err(io::Error::other(protection.violation()));
    }
    files::read_text(path, LinkPolicy::Follow, MAX_FILE_SIZE).map(Some)
}

/// Acquires the inter-process lock that is needed to change a file, and creates the file's folder. Waits until other
/// processes have released the lock. Dropping the returned handle releases it.
pub fn lock_for_change(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // The path may have come with a checkout: follow no link, and do not block on a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(path.with_extension("turn"))?;
    file.lock()?;
    Ok(file)
}

/// Creates a folder, and its missing parents, that only this user can access. An existing folder is not changed.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// Users who may read a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileReaders {
    /// Only this user.
    Owner,
    /// All users.
    Everybody,
}

/// Replaces a file atomically, by renaming a temporary file in the same folder.
pub fn replace(path: &Path, content: &[u8], readers: FileReaders) -> io::Result<()> {
    let finish = |file: &File| match readers {
        FileReaders::Owner => Ok(()),
        FileReaders::Everybody => make_readable(file),
    };
    write_and_rename(path, content, finish)
}

/// Replaces a file atomically and keeps its owner, group and permissions. A new file is readable by all users. Fails if
/// the file is read-only. `path` must not be a link.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(old) => {
            check_writable(path, &old)?;
            write_and_rename(path, content, |file| copy_permissions(&old, file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            write_and_rename(path, content, make_readable)
        }
        Err(error) => Err(error),
    }
}

fn write_and_rename(
    path: &Path,
    content: &[u8],
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    finish(file.as_file())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns an error for a read-only file, because a rename would replace it.
#[cfg(unix)]
fn check_writable(path: &Path, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let has_access = || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    if old.mode() & 0o200 != 0 && has_access() {
        return Ok(());
    }
    let shown = mimir_core::text::visible(&path.display().to_string());
    let message = format!("it is read-only; as its owner: chmod u+w '{shown}'");
    Err(io::Error::new(ErrorKind::PermissionDenied, message))
}

#[cfg(not(unix))]
fn check_writable(_: &Path, old: &Metadata) -> io::Result<()> {
    if old.permissions().readonly() {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is read-only; remove that attribute first",
        ));
    }
    Ok(())
}

/// Gives a new file the owner, the group and the permissions of the old one.
#[cfg(unix)]
fn copy_permissions(old: &Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // A different group gets no more permissions than all other users.
        mode = (mode & 0o707) | ((mode & 0o007) << 3);
    }
    if new.uid() != old.uid() {
        // Only root can change the owner. A file that another user replaces belongs to that user.
        let _ = fchown(file, Some(old.uid()), None);
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn copy_permissions(_: &Metadata, _: &File) -> io::Result<()> {
    Ok(())
}
