//! Files and processes on Windows: security descriptors, volume serial numbers and file indexes.
//!
//! Wine keeps owners and access control lists only as far as Unix modes express them, so a test under wine shows that
//! the calls work, not that a list of an arbitrary shape is judged correctly. The judgement is tested on lists in
//! memory.

mod calls;
mod descriptor;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

use windows_sys::Win32::Foundation::ERROR_INVALID_PARAMETER;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_READ_ATTRIBUTES, READ_CONTROL,
    WRITE_DAC,
};

use super::Enforcement;
use super::file_access::{AccessFault, FileAccessRule, TrustedOwner};
use descriptor::SecurityDescriptor;

/// Identity of a file while it exists: the serial number of its volume and its index there. On ReFS, where an index has
/// 128 bits, these are 64 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlatformFileId {
    volume: u32,
    index: u64,
}

impl PlatformFileId {
    /// Identifies an open file.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let (volume, index) = calls::volume_and_index(file)?;
        Ok(Self { volume, index })
    }

    /// Identifies the file at a path, or the link itself.
    pub fn at_path_without_link(path: &Path) -> io::Result<Self> {
        let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
        Self::of_file(&open(path, FILE_READ_ATTRIBUTES, flags)?)
    }

    /// Identifies the file at a path. A link is followed.
    pub fn at_path(path: &Path) -> io::Result<Self> {
        Self::of_file(&open(
            path,
            FILE_READ_ATTRIBUTES,
            FILE_FLAG_BACKUP_SEMANTICS,
        )?)
    }
}

/// Opens a file or a folder.
fn open(path: &Path, access: u32, flags: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.access_mode(access).custom_flags(flags).open(path)
}

/// Reads the security descriptor of a file or a folder. A link is followed.
fn descriptor_at(path: &Path) -> io::Result<SecurityDescriptor> {
    SecurityDescriptor::of_file(&open(path, READ_CONTROL, FILE_FLAG_BACKUP_SEMANTICS)?)
}

pub(super) fn has_owner(path: &Path, _: TrustedOwner) -> io::Result<bool> {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    let own = SecurityDescriptor::of_file(&open(path, READ_CONTROL, flags)?)?;
    Ok(own.has_trusted_owner()? && descriptor_at(path)?.has_trusted_owner()?)
}

pub(super) fn check_file(file: &File, rule: FileAccessRule) -> io::Result<Option<AccessFault>> {
    SecurityDescriptor::of_file(file)?.check(rule.owner_only)
}

pub(super) fn check_path(path: &Path, rule: FileAccessRule) -> io::Result<Option<AccessFault>> {
    descriptor_at(path)?.check(rule.owner_only)
}

pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    calls::create_file(path, &SecurityDescriptor::private()?)
}

pub(super) fn create_private_folder(folder: &Path, parents: bool) -> io::Result<()> {
    let descriptor = SecurityDescriptor::private()?;
    if !parents {
        return calls::create_folder(folder, &descriptor);
    }
    let above = folder.ancestors().filter(|it| !it.as_os_str().is_empty());
    let missing: Vec<&Path> = above.take_while(|it| !it.is_dir()).collect();
    for folder in missing.into_iter().rev() {
        match calls::create_folder(folder, &descriptor) {
            // Another process has created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            created => created?,
        }
    }
    Ok(())
}

pub(super) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    let file = open(path, READ_CONTROL | WRITE_DAC, FILE_FLAG_BACKUP_SEMANTICS)?;
    calls::set_list(&file, &SecurityDescriptor::private()?)
}

/// The command names the user by the SID, because each shell writes a variable in another way.
pub(super) fn privacy_command(shown: &str, is_folder: bool) -> String {
    let rights = if is_folder { "(OI)(CI)F" } else { "F" };
    // Without its own SID, a process still knows that it is the owner.
    let user = calls::current_user().unwrap_or("S-1-3-4");
    format!("icacls \"{shown}\" /inheritance:r /grant:r \"*{user}:{rights}\"")
}

pub(super) fn refuse_links_and_waiting(_: &mut OpenOptions) {}

pub(super) fn open_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    File::open(path_below(root, folders, name)?)
}

pub(super) fn create_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    let path = path_below(root, folders, name)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::create(path)
}

/// Returns the path. Fails if one of its parts is a link now.
fn path_below(root: &Path, folders: &[&str], name: &str) -> io::Result<std::path::PathBuf> {
    let mut path = root.to_owned();
    for part in folders.iter().chain([&name]) {
        path.push(part);
        if path.is_symlink() {
            let message = "a link is in the way";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    }
    Ok(path)
}

pub(super) fn copy_access(old: &Path, _: &File, new: &Path) -> io::Result<()> {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    let old = SecurityDescriptor::of_file(&open(old, READ_CONTROL, flags)?)?;
    calls::set_list(&open(new, READ_CONTROL | WRITE_DAC, flags)?, &old)
}

pub(super) fn process_may_run(process: u32) -> bool {
    match calls::process_runs(process) {
        Ok(runs) => runs,
        // No process has this id. Any other error means that a process has it and is not accessible.
        Err(error) => error.raw_os_error() != Some(ERROR_INVALID_PARAMETER.cast_signed()),
    }
}

pub(super) fn discard_typed_input() {
    calls::flush_console_input();
}

pub(super) fn free_space(path: &Path) -> io::Result<u64> {
    // The call takes a folder.
    let folder = if path.is_dir() {
        Some(path)
    } else {
        path.parent()
    };
    calls::free_space(folder.unwrap_or(path))
}

/// Limits the committed memory of the process.
pub(super) fn limit_own_memory(bytes: u64) -> io::Result<Enforcement> {
    calls::limit_own_memory(bytes).map(|()| Enforcement::Enforced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_access::OwnerOnly;

    #[test]
    fn open_list_of_a_file_is_a_fault_until_it_is_restricted() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        for path in [&old, &new] {
            create_private_file(path).unwrap();
        }
        let rule = FileAccessRule::of_user(OwnerOnly::Writing);
        let open_list = SecurityDescriptor::parse("D:P(A;;FA;;;WD)").unwrap();
        let access = READ_CONTROL | WRITE_DAC;
        calls::set_list(&open(&old, access, 0).unwrap(), &open_list).unwrap();
        assert_eq!(rule.check_path(&old).unwrap(), Some(AccessFault::Writable));
        assert_eq!(rule.check_path(&new).unwrap(), None);
        copy_access(&old, &File::open(&new).unwrap(), &new).unwrap();
        assert_eq!(rule.check_path(&new).unwrap(), Some(AccessFault::Writable));
        for path in [&old, &new] {
            restrict_to_owner(path).unwrap();
            assert_eq!(rule.check_path(path).unwrap(), None);
        }
    }

    #[test]
    fn file_id_is_that_of_the_file_and_not_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let file = create_private_file(&path).unwrap();
        create_private_file(&other).unwrap();
        let id = PlatformFileId::of_file(&file).unwrap();
        assert_eq!(PlatformFileId::at_path(&path).unwrap(), id);
        assert_eq!(PlatformFileId::at_path_without_link(&path).unwrap(), id);
        assert_ne!(PlatformFileId::at_path(&other).unwrap(), id);
        assert_ne!(PlatformFileId::at_path(folder.path()).unwrap(), id);
    }

    #[test]
    fn free_space_is_that_of_the_disk_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        create_private_file(&path).unwrap();
        assert!(free_space(&path).unwrap() > 0);
        discard_typed_input();
    }

    #[test]
    fn process_runs_until_it_has_ended() {
        let mut child = std::process::Command::new("cmd");
        let mut child = child.args(["/c", "exit"]).spawn().unwrap();
        child.wait().unwrap();
        // The handle of the child keeps the id.
        assert!(!process_may_run(child.id()));
        assert!(process_may_run(std::process::id()));
        assert!(!process_may_run(u32::MAX - 3));
    }
}
