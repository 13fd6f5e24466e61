//! Unix: `*at` calls on directory handles.

use super::{EntryName, FileKind, FileStat, OpenMode, OpenedObject, TimeUpdate};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// A directory handle.
pub(in crate::fs) type DirHandle = OwnedFd;

/// Flags of every open: never blocks on a FIFO, never becomes a controlling terminal, is not inherited.
const SAFE_FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A handle for traversal only needs no permission to list the directory. `openat2` accepts no other flag with these.
#[cfg(any(target_os = "linux", target_os = "android"))]
const TRAVERSE_FLAGS: OFlags = OFlags::PATH
    .union(OFlags::NOFOLLOW)
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const TRAVERSE_FLAGS: OFlags = SAFE_FLAGS.union(OFlags::DIRECTORY);

/// Opens a directory of the host by its path, which is trusted.
pub(in crate::fs) fn root(path: &Path) -> io::Result<DirHandle> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        path,
        flags | OFlags::RDONLY,
        Mode::empty(),
    )?)
}

/// Opens a directory for listing and traversal.
pub(in crate::fs) fn open_dir(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<DirHandle> {
    let flags = SAFE_FLAGS | OFlags::DIRECTORY | OFlags::RDONLY;
    Ok(rustix::fs::openat(at, name.as_ref(), flags, Mode::empty())?)
}

/// Opens a directory for traversal.
pub(in crate::fs) fn open_dir_to_traverse(
    at: &DirHandle,
    name: impl AsRef<OsStr>,
) -> io::Result<DirHandle> {
    Ok(rustix::fs::openat(
        at,
        name.as_ref(),
        TRAVERSE_FLAGS,
        Mode::empty(),
    )?)
}

/// Opens the object `name`, unless it is a link.
pub(in crate::fs) fn open(
    at: &DirHandle,
    name: &str,
    open_mode: OpenMode,
) -> io::Result<OpenedObject> {
    opened_object(rustix::fs::openat(at, name, flags(open_mode), NEW_FILE)?)
}

/// Opens `path` below `at` in one call, if no part of it is a link. `None` if the kernel cannot guarantee that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(in crate::fs) fn open_beneath(
    at: &DirHandle,
    path: &str,
    open_mode: OpenMode,
) -> Option<io::Result<OpenedObject>> {
    // The call refuses a mode if nothing is created.
    let mode = if open_mode.create {
        NEW_FILE
    } else {
        Mode::empty()
    };
    Some(beneath(at, path, flags(open_mode), mode)?.and_then(opened_object))
}

/// Opens the directory `path` below `at` for traversal in one call, if no part of it is a link.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(in crate::fs) fn traverse_beneath(at: &DirHandle, path: &str) -> Option<io::Result<DirHandle>> {
    beneath(at, path, TRAVERSE_FLAGS, Mode::empty())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn beneath(at: &DirHandle, path: &str, flags: OFlags, mode: Mode) -> Option<io::Result<OwnedFd>> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(at, path, flags, mode, resolve) {
        Ok(fd) => Some(Ok(fd)),
        // Older kernels, and containers whose seccomp filter does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(in crate::fs) fn open_beneath(
    _: &DirHandle,
    _: &str,
    _: OpenMode,
) -> Option<io::Result<OpenedObject>> {
    None
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(in crate::fs) fn traverse_beneath(_: &DirHandle, _: &str) -> Option<io::Result<DirHandle>> {
    None
}

/// Returns true if an open failed because of a link where none is allowed, or because a directory was replaced.
pub(in crate::fs) fn is_link_error(error: &io::Error) -> bool {
    // FreeBSD returns EMLINK.
    matches!(
        Errno::from_io_error(error),
        Some(Errno::LOOP | Errno::MLINK | Errno::NOTDIR)
    )
}

/// The mode of a new file; the process's umask restricts it further.
const NEW_FILE: Mode = Mode::from_bits_truncate(0o666);

fn flags(open_mode: OpenMode) -> OFlags {
    let mut flags = SAFE_FLAGS
        | match (open_mode.read, open_mode.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
    flags.set(OFlags::CREATE, open_mode.create);
    flags.set(OFlags::EXCL, open_mode.exclusive);
    flags.set(OFlags::TRUNC, open_mode.truncate);
    flags.set(OFlags::DIRECTORY, open_mode.directory);
    flags
}

fn opened_object(fd: OwnedFd) -> io::Result<OpenedObject> {
    Ok(
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode as RawMode) {
            FileType::RegularFile => OpenedObject::File(fd.into()),
            FileType::Directory => OpenedObject::Dir(fd),
            _ => OpenedObject::Neither,
        },
    )
}

pub(in crate::fs) fn stat_at(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<FileStat> {
    Ok(convert(&rustix::fs::statat(
        at,
        name.as_ref(),
        AtFlags::SYMLINK_NOFOLLOW,
    )?))
}

pub(in crate::fs) fn stat_file(file: &File) -> io::Result<FileStat> {
    Ok(convert(&rustix::fs::fstat(file)?))
}

pub(in crate::fs) fn stat_dir(dir: &DirHandle) -> io::Result<FileStat> {
    Ok(convert(&rustix::fs::fstat(dir)?))
}

#[expect(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the fields have other widths on other platforms"
)]
fn convert(stat: &rustix::fs::Stat) -> FileStat {
    let since = |seconds: i64, nanos: u64| {
        let seconds = u64::try_from(seconds).ok()?;
        Some(Duration::new(seconds, u32::try_from(nanos).ok()?))
    };
    FileStat {
        kind: kind(FileType::from_raw_mode(stat.st_mode as RawMode)),
        links: u64::from(stat.st_nlink),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        accessed: since(stat.st_atime as i64, stat.st_atime_nsec as u64),
        modified: since(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        changed: since(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        mode: Some(u32::from(permission_bits(stat).bits())),
        id: (stat.st_dev as u64, stat.st_ino as u64),
    }
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::BlockDevice => FileKind::Block,
        FileType::CharacterDevice => FileKind::Character,
        _ => FileKind::Other,
    }
}

/// Returns the text of a link.
pub(in crate::fs) fn link_text(at: &DirHandle, name: impl AsRef<OsStr>) -> io::Result<OsString> {
    let target = rustix::fs::readlinkat(at, name.as_ref(), Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// Returns the text of a link; an error if it is not UTF-8.
pub(in crate::fs) fn read_link(at: &DirHandle, name: &str) -> io::Result<String> {
    let target = link_text(at, name)?.into_string();
    target.map_err(|_| Errno::ILSEQ.into())
}

pub(in crate::fs) fn make_dir(at: &DirHandle, name: &str) -> io::Result<()> {
    let mode = Mode::RWXU.union(GROUP_AND_OTHERS);
    Ok(rustix::fs::mkdirat(at, name, mode)?)
}

pub(in crate::fs) fn remove_dir(at: &DirHandle, name: &str) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
}

/// Returns true if this process may remove entries of a directory, according to its permissions.
pub(in crate::fs) fn may_change_entries(dir: &DirHandle) -> bool {
    use rustix::fs::Access;
    let access = Access::WRITE_OK | Access::EXEC_OK;
    !matches!(
        rustix::fs::accessat(dir, ".", access, AtFlags::EACCESS),
        Err(Errno::ACCESS | Errno::ROFS)
    )
}

pub(in crate::fs) fn remove_file(at: &DirHandle, name: &str) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::empty())?)
}

/// The permissions of the group and of others.
const GROUP_AND_OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// Returns the permission bits of a file, without setuid and the like, which other content must not inherit.
fn permission_bits(stat: &rustix::fs::Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode as RawMode) & Mode::RWXU.union(GROUP_AND_OTHERS)
}

/// The permission bits of a file before [`take_permission_bits`].
pub(in crate::fs) struct PermissionBits(OwnedFd, Mode);

/// Gives the regular file `name` the permission bits of the regular file `new` that it is about to replace: a guest
/// cannot set them itself. A file accessible to its owner only is not opened to others. `None` if nothing was changed,
/// for example because the file has another owner.
pub(in crate::fs) fn take_permission_bits(
    at: &DirHandle,
    name: &str,
    to: &DirHandle,
    new: &str,
) -> Option<PermissionBits> {
    let is_regular = |stat: &rustix::fs::Stat| {
        FileType::from_raw_mode(stat.st_mode as RawMode) == FileType::RegularFile
    };
    let replaced = rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if !is_regular(&replaced) {
        return None;
    }
    let file = rustix::fs::openat(at, name, SAFE_FLAGS | OFlags::RDONLY, Mode::empty()).ok()?;
    let current = rustix::fs::fstat(&file).ok()?;
    if !is_regular(&current) || current.st_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mut new_bits = permission_bits(&replaced);
    if !permission_bits(&current).intersects(GROUP_AND_OTHERS) {
        new_bits -= GROUP_AND_OTHERS;
    }
    if new_bits == permission_bits(&current) {
        return None;
    }
    rustix::fs::fchmod(&file, new_bits).ok()?;
    Some(PermissionBits(file, permission_bits(&current)))
}

impl PermissionBits {
    /// Restores the bits: the file did not replace the other after all.
    pub(in crate::fs) fn restore(self) {
        let _ = rustix::fs::fchmod(&self.0, self.1);
    }
}

pub(in crate::fs) fn rename(
    at: &DirHandle,
    name: &str,
    to: &DirHandle,
    new: &str,
) -> io::Result<()> {
    Ok(rustix::fs::renameat(at, name, to, new)?)
}

pub(in crate::fs) fn hard_link(
    at: &DirHandle,
    name: &str,
    to: &DirHandle,
    new: &str,
) -> io::Result<()> {
    Ok(rustix::fs::linkat(at, name, to, new, AtFlags::empty())?)
}

pub(in crate::fs) fn soft_link(target: &str, at: &DirHandle, name: &str) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, at, name)?)
}

pub(in crate::fs) fn set_times_at(
    at: &DirHandle,
    name: &str,
    accessed: TimeUpdate,
    modified: TimeUpdate,
) -> io::Result<()> {
    let times = times(accessed, modified);
    Ok(rustix::fs::utimensat(
        at,
        name,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

pub(in crate::fs) fn set_times(
    file: &impl AsFd,
    accessed: TimeUpdate,
    modified: TimeUpdate,
) -> io::Result<()> {
    Ok(rustix::fs::futimens(file, &times(accessed, modified))?)
}

fn times(accessed: TimeUpdate, modified: TimeUpdate) -> Timestamps {
    let stamp = |stamp| match stamp {
        TimeUpdate::Keep => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        TimeUpdate::Now => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        TimeUpdate::At(since) => Timespec {
            tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: since.subsec_nanos().into(),
        },
    };
    Timestamps {
        last_access: stamp(accessed),
        last_modification: stamp(modified),
    }
}

pub(in crate::fs) fn sync_dir(dir: &DirHandle) -> io::Result<()> {
    Ok(rustix::fs::fsync(dir)?)
}

/// Reads at most `len` bytes; returns none only at the end of the file.
pub(in crate::fs) fn read_at(file: &File, len: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len.max(1));
    rustix::io::retry_on_intr(|| {
        rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), offset)
    })?;
    bytes.truncate(len);
    Ok(bytes)
}

pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::io::pwrite(file, bytes, offset)
    })?)
}

/// Writes at the current end.
pub(in crate::fs) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::ReadWriteFlags;
        let slices = [io::IoSlice::new(bytes)];
        match rustix::io::retry_on_intr(|| {
            rustix::io::pwritev2(file, &slices, 0, ReadWriteFlags::APPEND)
        }) {
            Err(Errno::NOSYS | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    write_at(file, bytes, file.metadata()?.len())
}

/// Advises the kernel how a file is going to be read.
pub(in crate::fs) fn advise(
    file: &File,
    offset: u64,
    len: u64,
    advice: crate::fs::Advice,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use crate::fs::Advice;
        let advice = match advice {
            Advice::Normal => rustix::fs::Advice::Normal,
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::Random => rustix::fs::Advice::Random,
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
            Advice::DontNeed => rustix::fs::Advice::DontNeed,
            Advice::NoReuse => rustix::fs::Advice::NoReuse,
        };
        rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), advice)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len, advice);
    Ok(())
}

/// A directory being listed: the kernel returns a buffer of entries at a time.
pub(in crate::fs) struct DirEntries(rustix::fs::Dir);

pub(in crate::fs) fn list(dir: &DirHandle) -> io::Result<DirEntries> {
    // A separate handle, because the position of a listing belongs to the handle.
    Ok(DirEntries(rustix::fs::Dir::new(open_dir(dir, ".")?)?))
}

impl DirEntries {
    /// Returns the next entry, except for `.` and `..`.
    pub(in crate::fs) fn next(&mut self) -> Option<io::Result<(EntryName, FileKind)>> {
        loop {
            let entry = match self.0.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let name = OsStr::from_bytes(name).to_owned().into_string();
                return Some(Ok((name, kind(entry.file_type()))));
            }
        }
    }
}
