//! Files of this user's own: read only if nobody else could have had a hand in them, changed by one process at a
//! time, and written whole or not at all.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use mimir_core::files::{self, Links};

/// A file that is longer has been written by something else.
pub const LONGEST: u64 = 16 << 20;

/// Who else may not do what with a file.
#[derive(Debug, Clone, Copy)]
pub enum Closed {
    /// Nobody else may write it.
    Writing,
    /// Nobody else may even read it.
    Reading,
}

impl Closed {
    #[cfg(unix)]
    fn holds(self, meta: &Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let others = match self {
            Closed::Writing => 0o022,
            Closed::Reading => 0o077,
        };
        meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & others == 0
    }

    #[cfg(not(unix))]
    fn holds(self, _: &Metadata) -> bool {
        true
    }

    fn broken(self) -> &'static str {
        match self {
            Closed::Writing => {
                "somebody else can write it; make it yours alone (chmod 600) or remove it"
            }
            Closed::Reading => {
                "somebody else can read it; make it yours alone (chmod 600), and change the values in it"
            }
        }
    }
}

/// The text of a file that is closed to others; nothing if there is no file.
pub fn read(path: &Path, closed: Closed) -> io::Result<Option<String>> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !closed.holds(&meta) {
        return Err(io::Error::other(closed.broken()));
    }
    files::read_text(path, Links::Followed, LONGEST).map(Some)
}

/// Waits until no other process changes the file; the turn ends when what is returned is dropped.
pub fn turn(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // What stands there may have come with a checkout: no link is followed, no pipe is waited for.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(path.with_extension("turn"))?;
    file.lock()?;
    Ok(file)
}

/// Makes a folder that nobody else can look into.
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

/// Who reads a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// This user.
    Owner,
    /// Whoever reads the project.
    Everybody,
}

/// Writes a whole file, or leaves the old one: to a temporary name beside it first.
pub fn replace(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    let shown = |file: &File| match readers {
        Readers::Owner => Ok(()),
        Readers::Everybody => show(file),
    };
    put(path, content, shown)
}

/// The same of a file that a person keeps: whoever could read and write the old one can do so with the new one, and one
/// that is read-only stays as it is. A new one is for everybody. `path` is no link.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(old) => {
            writable(path, &old)?;
            put(path, content, |file| keep(&old, file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => put(path, content, show),
        Err(error) => Err(error),
    }
}

fn put(
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
fn show(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn show(_: &File) -> io::Result<()> {
    Ok(())
}

/// Refuses a file that nothing may be written into: a new one in its place would go round that.
#[cfg(unix)]
fn writable(path: &Path, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let ours = || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    match old.mode() & 0o200 != 0 && ours() {
        true => Ok(()),
        false => {
            let place = mimir_core::text::visible(&path.display().to_string());
            let way = format!("it is read-only; as its owner: chmod u+w '{place}'");
            Err(io::Error::new(ErrorKind::PermissionDenied, way))
        }
    }
}

#[cfg(not(unix))]
fn writable(_: &Path, old: &Metadata) -> io::Result<()> {
    match old.permissions().readonly() {
        true => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is read-only; take that from it first",
        )),
        false => Ok(()),
    }
}

/// Gives a new file the owner, the group and the permissions of the old one.
#[cfg(unix)]
fn keep(old: &Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // Another group may do no more than everybody.
        mode = (mode & 0o707) | ((mode & 0o007) << 3);
    }
    if new.uid() != old.uid() {
        // Only root can. For anybody else who may write both the file and its folder, it is theirs from now on.
        let _ = fchown(file, Some(old.uid()), None);
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep(_: &Metadata, _: &File) -> io::Result<()> {
    Ok(())
}
