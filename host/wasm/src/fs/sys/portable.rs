//! Other systems: `cap-std`, with one name at a time.

use super::{Kind, Name, Opened, Stamp, Stat, Wanted};
use cap_fs_ext::{
    DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsMaybeDirExt,
    SystemTimeSpec,
};
use cap_std::ambient_authority;
use cap_std::fs::{FileType, Metadata, OpenOptions, ReadDir};
use cap_std::time::SystemTime;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

/// A directory handle.
pub(in crate::fs) type Dir = cap_std::fs::Dir;

/// Opens a directory of the host by its path, which is trusted.
pub(in crate::fs) fn root(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Opens a directory for listing and traversal.
pub(in crate::fs) fn open_dir(at: &Dir, name: impl AsRef<OsStr>) -> io::Result<Dir> {
    at.open_dir_nofollow(name.as_ref())
}

/// Opens a directory for traversal.
pub(in crate::fs) fn pass(at: &Dir, name: impl AsRef<OsStr>) -> io::Result<Dir> {
    at.open_dir_nofollow(name.as_ref())
}

/// Opens the object `name`, unless it is a link.
pub(in crate::fs) fn open(at: &Dir, name: &str, wanted: Wanted) -> io::Result<Opened> {
    if wanted.directory || name == "." {
        return Ok(Opened::Dir(if name == "." {
            at.open_dir(".")?
        } else {
            at.open_dir_nofollow(name)?
        }));
    }
    let mut options = OpenOptions::new();
    options
        .read(wanted.read)
        .write(wanted.write || wanted.create)
        .truncate(wanted.truncate);
    if wanted.exclusive {
        options.create_new(wanted.create);
    } else {
        options.create(wanted.create);
    }
    options.follow(FollowSymlinks::No).maybe_dir(true);
    let file = at.open_with(name, &options)?;
    let kind = file.metadata()?.file_type();
    let file = file.into_std();
    Ok(if kind.is_dir() {
        Opened::Dir(Dir::from_std_file(file))
    } else if kind.is_file() {
        Opened::File(file)
    } else {
        Opened::Neither
    })
}

/// This platform has no such call.
pub(in crate::fs) fn direct(_: &Dir, _: &str, _: Wanted) -> Option<io::Result<Opened>> {
    None
}

/// This platform has no such call.
pub(in crate::fs) fn direct_pass(_: &Dir, _: &str) -> Option<io::Result<Dir>> {
    None
}

/// Returns true if an open failed because of a link where none is allowed, or because a directory was replaced. The
/// platform has several codes for it; a retry settles it.
pub(in crate::fs) fn met_a_link(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::AlreadyExists
    )
}

pub(in crate::fs) fn stat_at(at: &Dir, name: impl AsRef<OsStr>) -> io::Result<Stat> {
    let name = name.as_ref();
    if name == "." {
        return stat_dir(at);
    }
    Ok(convert(&at.symlink_metadata(name)?))
}

pub(in crate::fs) fn stat_file(file: &File) -> io::Result<Stat> {
    Ok(convert(
        &cap_std::fs::File::from_std(file.try_clone()?).metadata()?,
    ))
}

pub(in crate::fs) fn stat_dir(dir: &Dir) -> io::Result<Stat> {
    Ok(convert(&dir.dir_metadata()?))
}

fn convert(meta: &Metadata) -> Stat {
    let since = |time: io::Result<SystemTime>| {
        time.ok()?
            .into_std()
            .duration_since(std::time::UNIX_EPOCH)
            .ok()
    };
    Stat {
        kind: kind(meta.file_type()),
        links: meta.nlink(),
        size: meta.len(),
        accessed: since(meta.accessed()),
        modified: since(meta.modified()),
        changed: since(meta.created()),
        id: (meta.dev(), meta.ino()),
    }
}

fn kind(file_type: FileType) -> Kind {
    if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_file() {
        Kind::File
    } else if file_type.is_symlink() {
        Kind::Link
    } else {
        Kind::Other
    }
}

/// Returns the text of a link, with `/` between components.
pub(in crate::fs) fn link_text(at: &Dir, name: impl AsRef<OsStr>) -> io::Result<OsString> {
    let target = at.read_link_contents(name.as_ref())?.into_os_string();
    Ok(match target.into_string() {
        Ok(text) if cfg!(windows) => text.replace('\\', "/").into(),
        Ok(text) => text.into(),
        Err(odd) => odd,
    })
}

/// Returns the text of a link; an error if it is not Unicode.
pub(in crate::fs) fn read_link(at: &Dir, name: &str) -> io::Result<String> {
    let target = link_text(at, name)?.into_string();
    target.map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Access rights are inherited from the directory on this platform.
pub(in crate::fs) fn make_dir(at: &Dir, name: &str, _private: bool) -> io::Result<()> {
    at.create_dir(name)
}

pub(in crate::fs) fn remove_dir(at: &Dir, name: &str) -> io::Result<()> {
    at.remove_dir(name)
}

/// Permission to remove entries of a directory shows only when it is tried.
pub(in crate::fs) fn may_change_entries(_: &Dir) -> bool {
    true
}

pub(in crate::fs) fn remove_file(at: &Dir, name: &str) -> io::Result<()> {
    at.remove_file_or_symlink(name)
}

/// Access rights are inherited from the directory on this platform.
pub(in crate::fs) fn close_to_others(_: &File) {}

/// This platform has no permission bits.
pub(in crate::fs) enum Bits {}

/// This platform has no permission bits.
pub(in crate::fs) fn take_bits(_: &Dir, _: &str, _: &Dir, _: &str) -> Option<Bits> {
    None
}

impl Bits {
    /// This platform has no permission bits.
    pub(in crate::fs) fn give_back(self) {
        match self {}
    }
}

pub(in crate::fs) fn rename(at: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
    at.rename(name, to, new)
}

pub(in crate::fs) fn hard_link(at: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
    at.hard_link(name, to, new)
}

pub(in crate::fs) fn soft_link(target: &str, at: &Dir, name: &str) -> io::Result<()> {
    at.symlink(target, name)
}

pub(in crate::fs) fn set_times_at(
    at: &Dir,
    name: &str,
    accessed: Stamp,
    modified: Stamp,
) -> io::Result<()> {
    let spec = |stamp| match stamp {
        Stamp::Keep => None,
        Stamp::Now => Some(SystemTimeSpec::SymbolicNow),
        Stamp::At(since) => Some(SystemTimeSpec::Absolute(SystemTime::from_std(
            std::time::UNIX_EPOCH + since,
        ))),
    };
    at.set_symlink_times(name, spec(accessed), spec(modified))
}

pub(in crate::fs) fn set_times(
    file: &impl Timed,
    accessed: Stamp,
    modified: Stamp,
) -> io::Result<()> {
    file.set(accessed, modified)
}

/// A handle whose times can be set.
pub(in crate::fs) trait Timed {
    fn set(&self, accessed: Stamp, modified: Stamp) -> io::Result<()>;
}

impl Timed for File {
    fn set(&self, accessed: Stamp, modified: Stamp) -> io::Result<()> {
        let time = |stamp| match stamp {
            Stamp::Keep => None,
            Stamp::Now => Some(std::time::SystemTime::now()),
            Stamp::At(since) => Some(std::time::UNIX_EPOCH + since),
        };
        let mut times = std::fs::FileTimes::new();
        if let Some(accessed) = time(accessed) {
            times = times.set_accessed(accessed);
        }
        if let Some(modified) = time(modified) {
            times = times.set_modified(modified);
        }
        self.set_times(times)
    }
}

impl Timed for Dir {
    fn set(&self, accessed: Stamp, modified: Stamp) -> io::Result<()> {
        self.try_clone()?.into_std_file().set(accessed, modified)
    }
}

/// Directories need no flushing on this platform.
pub(in crate::fs) fn sync_dir(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Reads at most `len` bytes; none only at the end of the file.
pub(in crate::fs) fn read_at(file: &File, len: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let count = loop {
        match read_once(file, &mut bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => break done?,
        }
    };
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(windows)]
fn read_once(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(windows)]
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

#[cfg(unix)]
fn read_once(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(unix)]
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

/// Writes at the end as known now.
pub(in crate::fs) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    write_at(file, bytes, file.metadata()?.len())
}

/// This platform takes no advice.
pub(in crate::fs) fn advise(_: &File, _: u64, _: u64, _: crate::fs::Advice) -> io::Result<()> {
    Ok(())
}

/// A directory being listed.
pub(in crate::fs) struct List(ReadDir);

pub(in crate::fs) fn list(dir: &Dir) -> io::Result<List> {
    Ok(List(dir.entries()?))
}

impl List {
    /// Returns the next entry.
    pub(in crate::fs) fn next(&mut self) -> Option<io::Result<(Name, Kind)>> {
        Some(self.0.next()?.map(|entry| {
            let kind = entry.file_type().map_or(Kind::Other, kind);
            (entry.file_name().into_string(), kind)
        }))
    }
}
