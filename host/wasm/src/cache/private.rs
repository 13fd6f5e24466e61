//! Checks that other users cannot change cached files.

#[cfg(unix)]
pub use unix::*;

#[cfg(not(unix))]
pub use other::*;

#[cfg(unix)]
mod unix {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// Write permission of the group and of others.
    const WRITABLE_BY_OTHERS: u32 = 0o022;

    fn refuse(why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
    }

    pub fn check_writable(folder: &Path) -> io::Result<()> {
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
    }

    pub fn check_folder(folder: &Path) -> io::Result<()> {
        let meta = folder.symlink_metadata()?;
        if !meta.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse("the cache folder belongs to another user"));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(refuse(
                "other users can access the cache folder: make it private with `chmod 700`",
            ));
        }
        Ok(())
    }

    pub fn check_file(file: &File) -> io::Result<()> {
        let meta = file.metadata()?;
        if !meta.is_file()
            || meta.uid() != rustix::process::geteuid().as_raw()
            || meta.mode() & WRITABLE_BY_OTHERS != 0
        {
            return Err(refuse("another user could have written the cached file"));
        }
        Ok(())
    }

    pub fn open(path: &Path) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
    }

    pub fn make_folder(folder: &Path) -> io::Result<()> {
        if !folder.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        check_folder(folder)
    }
}

/// On other platforms the user's cache folder is private by default.
#[cfg(not(unix))]
mod other {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub fn check_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub fn check_writable(folder: &Path) -> io::Result<()> {
        let meta = std::fs::metadata(folder)?;
        if !meta.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if meta.permissions().readonly() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    pub fn check_file(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub fn make_folder(folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)
    }
}
