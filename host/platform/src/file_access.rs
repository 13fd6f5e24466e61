//! Protection of files from other users of the machine.
//!
//! On Unix, a file is protected by its owner and mode. On Windows, by its owner and access control list: the user,
//! SYSTEM, Administrators and TrustedInstaller count as the owner, because nothing protects a file from them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::system;

/// Access to a file that only its owner may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerOnly {
    /// Other users must not be able to write the file.
    Writing,
    /// Other users must not be able to read or write the file.
    Reading,
}

/// Owner that a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedOwner {
    /// The user who runs this process. On Windows also an administrator, who owns the files that an elevated process
    /// creates.
    User,
    /// The user who runs this process, or the administrator.
    UserOrAdministrator,
}

impl TrustedOwner {
    /// Returns true if the file or folder at `path` has such an owner. Both a link and its target must have one: anyone
    /// can create a link to a file of another user.
    pub fn owns(self, path: &Path) -> io::Result<bool> {
        system::has_owner(path, self)
    }
}

/// Reason why a file is not protected from other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFault {
    /// It belongs to another user.
    OtherOwner,
    /// Other users can write it.
    Writable,
    /// Other users can read it.
    Readable,
}

impl AccessFault {
    /// Describes the fault: "it …".
    pub fn describe(self) -> &'static str {
        match self {
            Self::OtherOwner => "belongs to another user",
            Self::Writable => "can be written by others",
            Self::Readable => "can be read by others",
        }
    }
}

/// Protection that a file or folder must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAccessRule {
    /// Owner that it must have.
    pub owner: TrustedOwner,
    /// Access that other users must not have.
    pub owner_only: OwnerOnly,
}

impl FileAccessRule {
    /// Requires that the file belongs to this user.
    pub const fn of_user(owner_only: OwnerOnly) -> Self {
        let owner = TrustedOwner::User;
        Self { owner, owner_only }
    }

    /// Requires that the file belongs to this user or the administrator.
    pub const fn of_user_or_administrator(owner_only: OwnerOnly) -> Self {
        let owner = TrustedOwner::UserOrAdministrator;
        Self { owner, owner_only }
    }

    /// Checks an open file. Returns `None` if it is protected.
    pub fn check_file(self, file: &File) -> io::Result<Option<AccessFault>> {
        system::check_file(file, self)
    }

    /// Checks the file or folder at a path. A link is followed.
    pub fn check_path(self, path: &Path) -> io::Result<Option<AccessFault>> {
        system::check_path(path, self)
    }
}

/// Creates a file that only this user can access, for reading and writing. Fails if anything exists at the path.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    system::create_private_file(path)
}

/// Creates a folder that only this user can access, with `parents` also the missing folders above it. Fails without
/// `parents` if it exists; an existing folder is not changed.
pub fn create_private_folder(folder: &Path, parents: bool) -> io::Result<()> {
    system::create_private_folder(folder, parents)
}

/// Restricts an existing file or folder to its owner.
pub fn restrict_to_owner(path: &Path) -> io::Result<()> {
    system::restrict_to_owner(path)
}

/// Returns the shell command with which the owner of a file or folder makes it private. `shown` is its path as the user
/// sees it.
pub fn privacy_command(shown: &str, is_folder: bool) -> String {
    system::privacy_command(shown, is_folder)
}

/// Makes opening fail for a symbolic link, and not wait for the other end of a pipe. Does nothing on Windows, where
/// callers compare the identity of the opened file.
pub fn refuse_links_and_waiting(options: &mut OpenOptions) {
    system::refuse_links_and_waiting(options);
}

/// Opens a file below `root` for reading, without following a link on the way or at its end, and without waiting for the
/// other end of a pipe. On Windows, something may take the place of a folder between the check and the opening.
pub fn open_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    system::open_below(root, folders, name)
}

/// Creates a file below `root` for writing, with the folders on the way, and replaces an existing one. Follows links as
/// little as [`open_below`] does.
pub fn create_below(root: &Path, folders: &[&str], name: &str) -> io::Result<File> {
    system::create_below(root, folders, name)
}

/// Gives a new file the owner, the group and the permissions of the file at `old`, as far as this user may. The new file
/// is never accessible to more users than the old one. Unix changes the open file; Windows needs its path, because the
/// handle of a file that was opened for writing does not include the right to change its access list.
pub fn copy_access(old: &Path, new: &File, new_path: &Path) -> io::Result<()> {
    system::copy_access(old, new, new_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_and_folders_pass_the_strictest_check() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        create_private_folder(&deep, true).unwrap();
        create_private_folder(&deep, true).unwrap();
        assert!(create_private_folder(&deep, false).is_err());
        let path = deep.join("file");
        let file = create_private_file(&path).unwrap();
        assert!(create_private_file(&path).is_err());
        let rule = FileAccessRule::of_user(OwnerOnly::Reading);
        assert_eq!(rule.check_file(&file).unwrap(), None);
        for path in [&deep, deep.parent().unwrap(), &path] {
            assert_eq!(rule.check_path(path).unwrap(), None, "{path:?}");
            assert!(TrustedOwner::User.owns(path).unwrap());
        }
        assert!(rule.check_path(&deep.join("none")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_access_are_faulty_until_restricted() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = create_private_file(&path).unwrap();
        let [writing, reading] =
            [OwnerOnly::Writing, OwnerOnly::Reading].map(FileAccessRule::of_user);
        for (mode, written, read) in [
            (0o600, None, None),
            (0o644, None, Some(AccessFault::Readable)),
            (
                0o620,
                Some(AccessFault::Writable),
                Some(AccessFault::Writable),
            ),
            (
                0o602,
                Some(AccessFault::Writable),
                Some(AccessFault::Writable),
            ),
            (0o610, None, Some(AccessFault::Readable)),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(writing.check_file(&file).unwrap(), written, "{mode:o}");
            assert_eq!(reading.check_path(&path).unwrap(), read, "{mode:o}");
        }
        restrict_to_owner(&path).unwrap();
        assert_eq!(reading.check_path(&path).unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn opening_refuses_links_and_does_not_wait_for_pipes() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        create_private_file(&file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut options = OpenOptions::new();
        refuse_links_and_waiting(options.read(true));
        assert!(options.open(&file).is_ok());
        assert!(options.open(&link).is_err());
        // A blocking call would wait for a writer.
        assert!(options.open(&pipe).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn access_is_copied_to_the_open_file_and_not_to_its_path() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let [old, new, moved, other] =
            ["old", "new", "moved", "other"].map(|name| folder.path().join(name));
        for path in [&old, &other] {
            create_private_file(path).unwrap();
        }
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
        let file = create_private_file(&new).unwrap();
        std::fs::rename(&new, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &new).unwrap();
        copy_access(&old, &file, &new).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&moved), mode(&other)), (0o640, 0o600));
    }

    #[cfg(unix)]
    #[test]
    fn owner_of_a_link_and_of_its_target_must_be_trusted() {
        use std::os::unix::fs::{lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [own, link, planted, foreign, link_to_foreign] =
            ["own", "link", "planted", "foreign", "link-to-foreign"]
                .map(|name| folder.path().join(name));
        for folder in [&own, &foreign] {
            create_private_folder(folder, false).unwrap();
        }
        for (target, link) in [
            (&own, &link),
            (&own, &planted),
            (&foreign, &link_to_foreign),
        ] {
            symlink(target, link).unwrap();
        }
        assert!(TrustedOwner::User.owns(&link).unwrap());
        assert!(
            TrustedOwner::User
                .owns(&folder.path().join("none"))
                .is_err()
        );
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a link to another user");
            return;
        }
        let nobody = Some(65534);
        for path in [&planted, &foreign] {
            lchown(path, nobody, nobody).unwrap();
        }
        for path in [&planted, &foreign, &link_to_foreign] {
            assert!(
                !TrustedOwner::UserOrAdministrator.owns(path).unwrap(),
                "{path:?}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_of_other_users_are_faulty() {
        use std::os::unix::fs::MetadataExt as _;
        // With the rights of root, this test cannot create a file of somebody else everywhere.
        let root = Path::new("/");
        if root.metadata().unwrap().uid() != 0 {
            eprintln!("skipped: `/` does not belong to root here, as in some containers");
            return;
        }
        let rule = FileAccessRule::of_user_or_administrator(OwnerOnly::Writing);
        assert_eq!(rule.check_path(root).unwrap(), None);
        let is_root = rustix::process::geteuid().is_root();
        let fault = FileAccessRule::of_user(OwnerOnly::Writing).check_path(root);
        let expected = (!is_root).then_some(AccessFault::OtherOwner);
        assert_eq!(fault.unwrap(), expected);
    }
}
