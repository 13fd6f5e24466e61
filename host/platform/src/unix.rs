//! Files and processes on Unix: owners and modes, device and inode numbers.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};
use rustix::io::Errno;

use super::Enforcement;
use super::file_access::{AccessFault, FileAccessRule, OwnerOnly, TrustedOwner};

/// Identity of a file while it exists: its device and inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlatformFileId(u64, u64);

impl PlatformFileId {
    /// Identifies an open file.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|meta| Self::of_metadata(&meta))
    }

    /// Identifies the file at a path, or the link itself.
    pub fn at_path_without_link(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|meta| Self::of_metadata(&meta))
    }

    /// Identifies the file at a path. A link is followed.
    pub fn at_path(path: &Path) -> io::Result<Self> {
        path.metadata().map(|meta| Self::of_metadata(&meta))
    }

    /// Identifies the file that the metadata belong to.
    pub fn of_metadata(meta: &Metadata) -> Self {
        Self(meta.dev(), meta.ino())
    }
}

fn is_owner(meta: &Metadata, owner: TrustedOwner) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
        || (owner == TrustedOwner::UserOrAdministrator && meta.uid() == 0)
}

fn check_metadata(meta: &Metadata, rule: FileAccessRule) -> Option<AccessFault> {
    if !is_owner(meta, rule.owner) {
        Some(AccessFault::OtherOwner)
    } else if meta.mode() & 0o022 != 0 {
        Some(AccessFault::Writable)
    } else if rule.owner_only == OwnerOnly::Reading && meta.mode() & 0o077 != 0 {
        Some(AccessFault::Readable)
    } else {
        None
    }
}

pub(super) fn has_owner(path: &Path, owner: TrustedOwner) -> io::Result<bool> {
    Ok(is_owner(&path.symlink_metadata()?, owner) && is_owner(&path.metadata()?, owner))
}

pub(super) fn check_file(file: &File, rule: FileAccessRule) -> io::Result<Option<AccessFault>> {
    file.metadata().map(|meta| check_metadata(&meta, rule))
}

pub(super) fn check_path(path: &Path, rule: FileAccessRule) -> io::Result<Option<AccessFault>> {
    path.metadata().map(|meta| check_metadata(&meta, rule))
}

pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

pub(super) fn create_private_folder(folder: &Path, parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(parents).mode(0o700).create(folder)
}

pub(super) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    let mode = path.metadata()?.mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & 0o700))
}

pub(super) fn privacy_command(shown: &str, is_folder: bool) -> String {
    let mode = if is_folder { "700" } else { "600" };
    format!("chmod {mode} '{shown}'")
}

pub(super) fn refuse_links_and_waiting(options: &mut OpenOptions) {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
}

pub(super) fn open_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    let folder = folder_below(root, folders, false)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::empty())?))
}

pub(super) fn create_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    let folder = folder_below(root, folders, true)?;
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(File::from(openat(&folder, name, flags, 0o666.into())?))
}

/// Opens the innermost of these folders, each relative to the one before, so that no link is followed.
fn folder_below(root: &Path, folders: &[&str], create: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = open(root, flags, Mode::empty())?;
    for name in folders {
        if create {
            match mkdirat(&folder, *name, 0o777.into()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = openat(&folder, *name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

pub(super) fn copy_access(old: &Path, file: &File, _: &Path) -> io::Result<()> {
    let old = old.symlink_metadata()?;
    let meta = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if meta.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // A different group gets no more permissions than all other users.
        mode = (mode & 0o707) | ((mode & 0o007) << 3);
    }
    if meta.uid() != old.uid() {
        // Only root can change the owner. A file that another user replaces belongs to that user.
        let _ = fchown(file, Some(old.uid()), None);
    }
    file.set_permissions(Permissions::from_mode(mode))
}

pub(super) fn process_may_run(process: u32) -> bool {
    let id = i32::try_from(process).ok();
    let Some(pid) = id.and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    // EPERM means that a process of another user has this id.
    !matches!(
        rustix::process::test_kill_process(pid),
        Err(rustix::io::Errno::SRCH)
    )
}

pub(super) fn discard_typed_input() {
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

pub(super) fn free_space(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Limits the memory that the process can write to. Reserved address space does not count.
#[cfg(target_os = "linux")]
pub(super) fn limit_own_memory(bytes: u64) -> io::Result<Enforcement> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // A process that runs out of memory writes no core dump.
    setrlimit(Resource::Core, limit(0))?;
    setrlimit(Resource::Data, limit(bytes))?;
    Ok(Enforcement::Enforced)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn limit_own_memory(_: u64) -> io::Result<Enforcement> {
    let because = super::NO_MEMORY_LIMIT.into();
    Ok(Enforcement::Weaker { because })
}
