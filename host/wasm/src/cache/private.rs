//! Checks that other users cannot change cached files.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use mimir_core::platform::{
    AccessFault, FileAccessRule, OwnerOnly, create_private_folder, privacy_command,
};

fn refuse(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

#[cfg(unix)]
pub fn check_writable(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
}

/// Checks the type of the folder only: whether this user may write in it is known when the first entry is stored.
#[cfg(windows)]
pub fn check_writable(folder: &Path) -> io::Result<()> {
    if !std::fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(())
}

pub fn check_folder(folder: &Path) -> io::Result<()> {
    if !folder.symlink_metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    match FileAccessRule::of_user(OwnerOnly::Reading).check_path(folder)? {
        None => Ok(()),
        Some(AccessFault::OtherOwner) => Err(refuse("the cache folder belongs to another user")),
        Some(AccessFault::Writable | AccessFault::Readable) => {
            let command = privacy_command(&folder.display().to_string(), true);
            Err(refuse(&format!(
                "other users can access the cache folder: make it private with `{command}`"
            )))
        }
    }
}

pub fn check_file(file: &File) -> io::Result<()> {
    let fault = FileAccessRule::of_user(OwnerOnly::Writing).check_file(file)?;
    if fault.is_some() || !file.metadata()?.is_file() {
        return Err(refuse("another user could have written the cached file"));
    }
    Ok(())
}

/// Opens a file for reading. Does not follow a link, and does not wait for a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits() as i32);
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt as _;
        /// Opens the link itself, which is no file for [`check_file`].
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }
    options.read(true).open(path)
}

pub fn make_folder(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        create_private_folder(folder, true)?;
    }
    check_folder(folder)
}
