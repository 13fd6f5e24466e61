//! Covers for repositories: the files that git obeys become read-only and cannot be moved.

use std::fs;
use std::io;
use std::path::Path;

use super::{MaskCollector, MountMask};
use crate::sandbox::special_folders::{INNER, OBEYED, OBJECTS, inner_repositories};

/// Hooks folder. It is created empty in every repository that lacks it, as git does for new repositories.
pub(super) const HOOKS: &str = "hooks";

/// Folder of the submodules in a repository.
pub(super) const MODULES: &str = "modules";

pub(super) fn is_inner(name: &str) -> bool {
    INNER.iter().any(|inner| name.eq_ignore_ascii_case(inner))
}

impl MaskCollector<'_> {
    /// Creates a missing protected folder, so that a command cannot create it with contents.
    pub(super) fn make_empty_folder(&self, path: &str) {
        if self.writes && self.rules.check(path).against_writing().is_some() {
            // It usually exists. If it cannot be created here, the command cannot create it either.
            let _ = create_folder(&self.canonical_path(path));
        }
    }

    pub(super) fn keeps_hooks(&self) -> bool {
        self.rules.check(".git/hooks").against_writing().is_some()
    }

    /// Covers the files that git obeys in a repository outside the workspace with another name than `.git`.
    pub(super) fn mask_repository(&mut self, at: &str) {
        let folder = self.canonical_path(at);
        if !folder.join("commondir").exists() {
            let _ = create_folder(&folder.join(HOOKS));
        }
        for name in OBEYED {
            let is_link = |meta: fs::Metadata| meta.is_symlink();
            if folder
                .join(name)
                .symlink_metadata()
                .is_ok_and(|meta| !is_link(meta))
            {
                self.covers
                    .insert(Path::new(at).join(name), MountMask::ReadOnly);
            }
        }
        for name in INNER {
            let path = Path::new(at).join(name).display().to_string();
            if self.canonical_path(&path).is_dir() {
                self.mask_inner_repositories(&path);
            }
        }
    }

    /// Covers the files that git obeys in the repositories below a folder, and pins those repositories.
    pub(super) fn mask_inner_repositories(&mut self, at: &str) {
        if self.skipped.contains(&self.canonical_path(at)) {
            return;
        }
        self.covers.insert(at.into(), MountMask::Pin);
        let read = |folder: &Path| folder.read_dir().ok();
        for folder in inner_repositories(&self.canonical_path(at), read) {
            if folder.join(OBJECTS).is_dir() && !folder.join("commondir").exists() {
                let _ = create_folder(&folder.join(HOOKS));
            }
            let Ok(below) = folder
                .strip_prefix(&self.ruled_folder.base)
                .map(Path::to_owned)
            else {
                continue;
            };
            for name in OBEYED {
                let is_there =
                    |path: &Path| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
                if is_there(&folder.join(name)) {
                    self.covers.insert(below.join(name), MountMask::ReadOnly);
                }
            }
            let above = below
                .ancestors()
                .take_while(|above| *above != Path::new(at));
            for above in above {
                self.covers.insert(above.to_owned(), MountMask::Pin);
            }
        }
    }

    /// Covers the files that git obeys in a bare repository, which is not inside a `.git` folder.
    pub(super) fn mask_bare_repository(&mut self, at: &str, folder: &Path) {
        let is_repository = ["objects", "refs"]
            .iter()
            .all(|name| folder.join(name).is_dir());
        if !is_repository || !self.keeps_hooks() {
            return;
        }
        if self.writes {
            let _ = create_folder(&folder.join(HOOKS));
        }
        for name in OBEYED {
            if let Ok(meta) = folder.join(name).symlink_metadata() {
                let path = Path::new(at).join(name);
                self.cover(
                    &path.to_string_lossy(),
                    meta.file_type(),
                    MountMask::ReadOnly,
                );
            }
        }
        if !at.is_empty() && at != self.ruled_folder.start {
            self.covers.entry(at.into()).or_insert(MountMask::Pin);
        }
    }
}

/// Creates a folder without following symbolic links: a command that is already running may have put one in the path.
#[cfg(target_os = "linux")]
fn create_folder(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2};

    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    Ok(mkdirat(above, name, Mode::from_raw_mode(0o777))?)
}

#[cfg(not(target_os = "linux"))]
fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn hooks_folder_is_not_created_through_a_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("home")).unwrap();
        std::os::unix::fs::symlink("home", real.join("link")).unwrap();
        assert!(create_folder(&real.join("link/hooks")).is_err());
        assert!(!real.join("home/hooks").exists());
        create_folder(&real.join("home/hooks")).unwrap();
        assert!(real.join("home/hooks").is_dir());
    }
}
