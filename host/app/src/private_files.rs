//! Private files of this user: only read if other users cannot change them, changed by one process at a time, and
//! replaced atomically.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use mimir_core::files::{self, LinkPolicy};
pub use mimir_core::platform::OwnerOnly;
use mimir_core::platform::{self, AccessFault, FileAccessRule};

/// Maximum size in bytes of a file that is read. The files that mimir writes are always shorter.
pub const MAX_FILE_SIZE: u64 = 16 << 20;

/// Describes why a file is not trusted, and how to change that.
fn violation(fault: AccessFault, path: &Path) -> String {
    let shown = mimir_core::text::visible(&path.display().to_string());
    let private = platform::privacy_command(&shown, false);
    match fault {
        AccessFault::OtherOwner => {
            "other users can write it, because it belongs to one; remove it".to_owned()
        }
        AccessFault::Writable => {
            format!("other users can write it; make it private ({private}) or remove it")
        }
        AccessFault::Readable => {
            format!(
                "other users can read it; make it private ({private}), and replace the values in it"
            )
        }
    }
}

/// Reads a file; `None` if it does not exist. Fails if the file is not protected from other users as required.
pub fn read(path: &Path, protection: OwnerOnly) -> io::Result<Option<String>> {
    read_bytes(path, protection)?.map(files::text).transpose()
}

/// Reads a file of any content, like [`read`].
pub fn read_bytes(path: &Path, protection: OwnerOnly) -> io::Result<Option<Vec<u8>>> {
    let file = match files::open(path, LinkPolicy::Follow) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if let Some(fault) = FileAccessRule::of_user(protection).check_file(&file)? {
        return Err(io::Error::other(violation(fault, path)));
    }
    files::read_open(&file, MAX_FILE_SIZE).map(Some)
}

/// Acquires the inter-process lock that is needed to change a file, and creates the file's folder. Waits until other
/// processes have released the lock. Dropping the returned handle releases it.
pub fn lock_for_change(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    // The path may have come with a checkout: a link is refused, and a pipe would block.
    let file = files::open_private(&path.with_extension("turn"), OpenOptions::new().write(true))?;
    file.lock()?;
    Ok(file)
}

/// Creates a folder, and its missing parents, that only this user can access. An existing folder is not changed.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    platform::create_private_folder(folder, true)
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
    write_and_rename(path, content, NewFileAccess::Of(readers))
}

/// Replaces a file atomically and keeps its owner, group and permissions. A new file is readable by all users. Fails if
/// the file is read-only. `path` must not be a link.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(old) => {
            check_writable(path, &old)?;
            write_and_rename(path, content, NewFileAccess::OfOldFile)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            write_and_rename(path, content, NewFileAccess::Of(FileReaders::Everybody))
        }
        Err(error) => Err(error),
    }
}

/// Access rights of a file that replaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewFileAccess {
    Of(FileReaders),
    /// Those of the replaced file.
    OfOldFile,
}

fn write_and_rename(path: &Path, content: &[u8], access: NewFileAccess) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut file = match access {
        NewFileAccess::Of(FileReaders::Everybody) => tempfile::NamedTempFile::new_in(folder)?,
        // The content must never be readable by others, not even in the temporary file.
        _ => tempfile::Builder::new().make_in(folder, platform::create_private_file)?,
    };
    file.write_all(content)?;
    file.as_file().sync_data()?;
    match access {
        NewFileAccess::Of(FileReaders::Owner) => {}
        NewFileAccess::Of(FileReaders::Everybody) => make_readable(file.as_file())?,
        NewFileAccess::OfOldFile => platform::copy_access(path, file.as_file(), file.path())?,
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Does nothing: the file has inherited the access rights of its folder.
#[cfg(windows)]
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

#[cfg(windows)]
fn check_writable(_: &Path, old: &Metadata) -> io::Result<()> {
    if old.permissions().readonly() {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is read-only; remove that attribute first",
        ));
    }
    Ok(())
}
