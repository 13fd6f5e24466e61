//! Other systems: `cap-std`, with one name at a time.

use super::{EntryName, FileKind, FileStat, OpenMode, OpenedObject, TimeUpdate, with_slashes};
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
pub(in crate::fs) type DirHandle = cap_std::fs::Dir;

/// Opens a directory of the host by its path, which is trusted.
pub(in crate::fs) fn root(path: &Path) -> io::Result<DirHandle> {
    DirHandle::open_ambient_dir(path, ambient_authority())
}

/// Opens a directory for listing and traversal.
pub(in crate::fs) fn open_dir(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<DirHandle> {
    at.open_dir_nofollow(name.as_ref())
}

/// Opens a directory for traversal.
pub(in crate::fs) fn open_dir_to_traverse(
    at: &DirHandle,
    name: impl AsRef<OsStr>,
) -> io::Result<DirHandle> {
    at.open_dir_nofollow(name.as_ref())
}

/// Opens the object `name`, unless it is a link.
pub(in crate::fs) fn open(
    at: &DirHandle,
    name: &str,
    open_mode: OpenMode,
) -> io::Result<OpenedObject> {
    if open_mode.directory || name == "." {
        return Ok(OpenedObject::Dir(if name == "." {
            at.open_dir(".")?
        } else {
            at.open_dir_nofollow(name)?
        }));
    }
    let mut options = OpenOptions::new();
    options
        .read(open_mode.read)
        .write(open_mode.write || open_mode.create)
        .truncate(open_mode.truncate);
    if open_mode.exclusive {
        options.create_new(open_mode.create);
    } else {
        options.create(open_mode.create);
    }
    options.follow(FollowSymlinks::No).maybe_dir(true);
    let file = at.open_with(name, &options)?;
    let kind = file.metadata()?.file_type();
    let file = file.into_std();
    Ok(if kind.is_dir() {
        OpenedObject::Dir(DirHandle::from_std_file(file))
    } else if kind.is_file() {
        OpenedObject::File(file)
    } else {
        OpenedObject::Neither
    })
}

/// This platform has no such call.
pub(in crate::fs) fn open_beneath(
    _: &DirHandle,
    _: &str,
    _: OpenMode,
) -> Option<io::Result<OpenedObject>> {
    None
}

/// This platform has no such call.
pub(in crate::fs) fn traverse_beneath(_: &DirHandle, _: &str) -> Option<io::Result<DirHandle>> {
    None
}

/// Returns true if an open failed because of a link where none is allowed, or because a directory was replaced. The
/// platform has several codes for it; a retry settles it.
pub(in crate::fs) fn is_link_error(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::AlreadyExists
    )
}

pub(in crate::fs) fn stat_at(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<FileStat> {
    let name = name.as_ref();
    if name == "." {
        return stat_dir(at);
    }
    Ok(convert(&at.symlink_metadata(name)?))
}

pub(in crate::fs) fn stat_file(file: &File) -> io::Result<FileStat> {
    Ok(convert(
        &cap_std::fs::File::from_std(file.try_clone()?).metadata()?,
    ))
}

pub(in crate::fs) fn stat_dir(dir: &DirHandle) -> io::Result<FileStat> {
    Ok(convert(&dir.dir_metadata()?))
}

fn convert(meta: &Metadata) -> FileStat {
    let since = |time: io::Result<SystemTime>| {
        time.ok()?
            .into_std()
            .duration_since(std::time::UNIX_EPOCH)
            .ok()
    };
    FileStat {
        kind: kind(meta.file_type()),
        links: meta.nlink(),
        size: meta.len(),
        accessed: since(meta.accessed()),
        modified: since(meta.modified()),
        changed: since(meta.created()),
        mode: None,
        id: (meta.dev(), meta.ino()),
    }
}

fn kind(file_type: FileType) -> FileKind {
    if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_file() {
        FileKind::File
    } else if file_type.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

/// Returns the text of a link, with `/` between components.
pub(in crate::fs) fn link_text(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<OsString> {
    let target = at.read_link_contents(name.as_ref())?.into_os_string();
    Ok(match target.into_string() {
        Ok(text) => with_slashes(&text).into_owned().into(),
        Err(raw) => raw,
    })
}

/// Returns the text of a link; an error if it is not Unicode.
pub(in crate::fs) fn read_link(at: &DirHandle, name: &str) -> io::Result<String> {
    let target = link_text(at, name)?.into_string();
    target.map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Access rights are inherited from the directory on this platform.
pub(in crate::fs) fn make_dir(at: &DirHandle, name: &str) -> io::Result<()> {
    at.create_dir(name)
}

pub(in crate::fs) fn remove_dir(at: &DirHandle, name: &str) -> io::Result<()> {
    at.remove_dir(name)
}

/// Permission to remove entries of a directory shows only when it is tried.
pub(in crate::fs) fn may_change_entries(_: &DirHandle) -> bool {
    true
}

pub(in crate::fs) fn remove_file(at: &DirHandle, name: &str) -> io::Result<()> {
    at.remove_file_or_symlink(name)
}

/// This platform has no permission bits.
pub(in crate::fs) enum PermissionBits {}

/// This platform has no permission bits.
pub(in crate::fs) fn take_permission_bits(
    _: &DirHandle,
    _: &str,
    _: &DirHandle,
    _: &str,
) -> Option<PermissionBits> {
    None
}

impl PermissionBits {
    /// This platform has no permission bits.
    pub(in crate::fs) fn restore(self) {
        match self {}
    }
}

pub(in crate::fs) fn rename(
    at: &DirHandle,
    name: &str,
    to: &DirHandle,
    new: &str,
) -> io::Result<()> {
    at.rename(name, to, new)
}

pub(in crate::fs) fn hard_link(
    at: &DirHandle,
    name: &str,
    to: &DirHandle,
    new: &str,
) -> io::Result<()> {
    at.hard_link(name, to, new)
}

pub(in crate::fs) fn soft_link(target: &str, at: &DirHandle, name: &str) -> io::Result<()> {
    at.symlink(target, name)
}

pub(in crate::fs) fn set_times_at(
    at: &DirHandle,
    name: &str,
    accessed: TimeUpdate,
    modified: TimeUpdate,
) -> io::Result<()> {
    let spec = |stamp| match stamp {
        TimeUpdate::Keep => None,
        TimeUpdate::Now => Some(SystemTimeSpec::SymbolicNow),
        TimeUpdate::At(since) => Some(SystemTimeSpec::Absolute(SystemTime::from_std(
            std::time::UNIX_EPOCH + since,
        ))),
    };
    at.set_symlink_times(name, spec(accessed), spec(modified))
}

pub(in crate::fs) fn set_times(
    file: &impl Timed,
    accessed: TimeUpdate,
    modified: TimeUpdate,
) -> io::Result<()> {
    file.set(accessed, modified)
}

/// A handle whose times can be set.
pub(in crate::fs) trait Timed {
    fn set(&self, accessed: TimeUpdate, modified: TimeUpdate) -> io::Result<()>;
}

impl Timed for File {
    fn set(&self, accessed: TimeUpdate, modified: TimeUpdate) -> io::Result<()> {
        let time = |stamp| match stamp {
            TimeUpdate::Keep => None,
            TimeUpdate::Now => Some(std::time::SystemTime::now()),
            TimeUpdate::At(since) => Some(std::time::UNIX_EPOCH + since),
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

impl Timed for DirHandle {
    fn set(&self, accessed: TimeUpdate, modified: TimeUpdate) -> io::Result<()> {
        self.try_clone()?.into_std_file().set(accessed, modified)
    }
}

/// Directories need no flushing on this platform.
pub(in crate::fs) fn sync_dir(_: &DirHandle) -> io::Result<()> {
    Ok(())
}

/// Reads at most `len` bytes; returns none only at the end of the file.
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
pub(in crate::fs) struct DirEntries(ReadDir);

pub(in crate::fs) fn list(dir: &DirHandle) -> io::Result<DirEntries> {
    Ok(DirEntries(dir.entries()?))
}

impl DirEntries {
    /// Returns the next entry.
    pub(in crate::fs) fn next(&mut self) -> Option<io::Result<(EntryName, FileKind)>> {
        Some(self.0.next()?.map(|entry| {
            let kind = entry.file_type().map_or(FileKind::Other, kind);
            (entry.file_name().into_string(), kind)
        }))
    }
}
