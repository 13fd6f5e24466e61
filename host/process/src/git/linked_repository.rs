//! Workspaces with a repository elsewhere: linked worktrees and submodules, in which `.git` is a file with its path.
//!
//! Such a file may come from an untrusted source, and its target is mounted writable for commands. So it is followed
//! only if the repository itself lists this workspace as its worktree, belongs entirely to this user, and has the name
//! of a repository: an unpacked archive can make any folder look like one. In all other cases, the user decides with
//! `sandbox.bindMounts`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::config::GitConfig;
use crate::run::workspace_guard::read_regular_file;
use crate::sandbox::{CommandSpec, HostMount};

/// Maximum size in bytes of a `.git` file, which contains a path.
const MAX_LINK_BYTES: u64 = 8192;

/// Mounts the repository of the workspace for a command, if it is elsewhere. Does nothing if the command sees only a
/// part of the workspace, or if the user has configured an overlapping mount.
pub(crate) fn show_repository(spec: &mut CommandSpec) {
    let whole = spec
        .visible_parts
        .iter()
        .find(|part| part.below == Path::new(""));
    let Some(writable) = whole.map(|part| part.writable) else {
        return;
    };
    let Some(repository) = LinkedRepository::find(&spec.workspace) else {
        return;
    };
    let overlaps = |mount: &HostMount| {
        [&mount.from, &mount.at].into_iter().any(|path| {
            path.starts_with(repository.outermost()) || repository.outermost().starts_with(path)
        })
    };
    if spec.mounts.iter().any(overlaps) {
        return;
    }
    let mounts = repository.mounts(writable);
    let writable_mounts = mounts.iter().filter(|mount| mount.writable);
    spec.repositories
        .extend(writable_mounts.map(|mount| mount.from.clone()));
    spec.mounts.extend(mounts);
}

/// Returns the target of a `.git` file.
pub(super) fn link_target(file: &Path) -> Option<PathBuf> {
    let bytes = read_regular_file(file, MAX_LINK_BYTES)?;
    let text = String::from_utf8(bytes).ok()?;
    let to = text
        .trim_end_matches(['\n', '\r'])
        .strip_prefix("gitdir: ")?;
    file.parent()?.join(to).canonicalize().ok()
}

/// A repository elsewhere that lists the workspace as its worktree.
#[derive(Debug, PartialEq, Eq)]
enum LinkedRepository {
    /// The common folder of all worktrees, and the folder of this worktree in it.
    Worktree { common: PathBuf, own: PathBuf },
    /// The folder of a submodule.
    Submodule { own: PathBuf },
}

impl LinkedRepository {
    fn find(workspace: &Path) -> Option<Self> {
        let file = workspace.join(".git");
        if !is_own(&file, false) {
            return None;
        }
        let own = link_target(&file)?;
        if own.starts_with(workspace) || !is_own(&own, true) || !is_own(&own.join("HEAD"), false) {
            return None;
        }
        let repository =
            Self::worktree(workspace, &own).or_else(|| Self::submodule(workspace, &own))?;
        (!workspace.starts_with(repository.outermost())).then_some(repository)
    }

    fn worktree(workspace: &Path, own: &Path) -> Option<Self> {
        let worktrees = own
            .parent()
            .filter(|worktrees| worktrees.ends_with("worktrees"))?;
        let common = worktrees.parent()?.to_owned();
        if !is_own(worktrees, true) || !is_repository(&common) {
            return None;
        }
        let read_path = |name: &str| {
            let path = own.join(name);
            let bytes =
                is_own(&path, false).then(|| read_regular_file(&path, MAX_LINK_BYTES))??;
            let text = String::from_utf8(bytes).ok()?;
            Some(own.join(text.trim_end_matches(['\n', '\r'])))
        };
        let is_common = read_path("commondir")?.canonicalize().ok()? == common;
        let worktree_file = read_path("gitdir")?;
        let points_back = worktree_file.file_name()? == ".git"
            && worktree_file.parent()?.canonicalize().ok()? == workspace;
        (is_common && points_back).then(|| Self::Worktree {
            common,
            own: own.to_owned(),
        })
    }

    fn submodule(workspace: &Path, own: &Path) -> Option<Self> {
        let mut parts = own.iter().skip_while(|part| *part != ".git");
        parts.next()?;
        if !parts.any(|part| part == "modules") || !has_repository_files(own) {
            return None;
        }
        let config =
            is_own(&own.join("config"), false).then(|| GitConfig::read_repository(own, own))?;
        let worktree = own.join(config.value("core", "worktree")?);
        (worktree.canonicalize().ok()? == workspace).then(|| Self::Submodule {
            own: own.to_owned(),
        })
    }

    fn outermost(&self) -> &Path {
        match self {
            Self::Worktree { common, .. } => common,
            Self::Submodule { own } => own,
        }
    }

    /// Returns the mounts of the repository. The folders of other worktrees are read-only: a command that changes them,
    /// such as `git worktree prune` without access to these worktrees, would break them.
    fn mounts(&self, writable: bool) -> Vec<HostMount> {
        let mount = |path: &Path, writable| HostMount {
            writable,
            ..HostMount::read_only(path)
        };
        match self {
            Self::Submodule { own } => vec![mount(own, writable)],
            Self::Worktree { common, own } => {
                let mut mounts = vec![mount(common, writable)];
                for name in ["modules", "worktrees"] {
                    let path = common.join(name);
                    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                        mounts.push(mount(&path, false));
                    }
                }
                mounts.push(mount(own, writable));
                mounts
            }
        }
    }
}

/// Returns true if a path is a repository by its name and its content.
fn is_repository(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let has_repository_name = name.is_some_and(|name| name.ends_with(".git") || name == ".bare");
    has_repository_name && is_own(path, true) && has_repository_files(path)
}

fn has_repository_files(path: &Path) -> bool {
    let folders = ["objects", "refs"];
    is_own(&path.join("HEAD"), false)
        && is_own(&path.join("config"), false)
        && folders.iter().all(|name| is_own(&path.join(name), true))
}

/// Returns true for a file or folder that belongs to this user, is not a link, and is not writable by everyone.
fn is_own(path: &Path, folder: bool) -> bool {
    path.symlink_metadata().is_ok_and(|meta| {
        let kind = if folder {
            meta.is_dir()
        } else {
            meta.is_file()
        };
        kind && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o002 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::command::CommandProgram;
    use std::fs;

    use crate::git::run_git as git;

    /// Creates a repository with a worktree and a submodule.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        for name in ["main", "lib"] {
            fs::create_dir(at.join(name)).unwrap();
            git(&at.join(name), &["init", "-q"]);
            git(
                &at.join(name),
                &["commit", "-q", "--allow-empty", "-m", "1"],
            );
        }
        git(
            &at.join("main"),
            &["submodule", "add", "-q", "../lib", "sub"],
        );
        git(&at.join("main"), &["worktree", "add", "-q", "../tree"]);
        (folder, at)
    }

    fn mounts_of(workspace: &Path) -> Vec<(PathBuf, bool)> {
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace);
        show_repository(&mut spec);
        let mounts = spec.mounts.into_iter();
        mounts.map(|mount| (mount.at, mount.writable)).collect()
    }

    #[test]
    fn worktree_and_submodule_show_their_repository() {
        let (_folder, at) = repository();
        let common = at.join("main/.git");
        let expected = [
            (common.clone(), true),
            (common.join("modules"), false),
            (common.join("worktrees"), false),
            (common.join("worktrees/tree"), true),
        ];
        assert_eq!(mounts_of(&at.join("tree")), expected);
        assert_eq!(
            mounts_of(&at.join("main/sub")),
            [(common.join("modules/sub"), true)]
        );
        assert!(mounts_of(&at.join("main")).is_empty());
        // A configured mount takes precedence.
        let mut spec =
            CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), at.join("tree"));
        spec.mounts.push(HostMount::read_only(&common));
        show_repository(&mut spec);
        assert_eq!(spec.mounts.len(), 1);
    }

    #[test]
    fn worktree_of_a_bare_repository_shows_it() {
        let (_folder, at) = repository();
        git(&at, &["clone", "-q", "--bare", "main", "bare.git"]);
        git(
            &at.join("bare.git"),
            &["worktree", "add", "-q", "../of-bare"],
        );
        assert_eq!(mounts_of(&at.join("of-bare")).len(), 3);
    }

    #[test]
    fn gitdir_link_without_a_back_reference_shows_nothing() {
        let (_folder, at) = repository();
        let common = at.join("main/.git");
        let mounts_for_link_to = |to: &Path| {
            let work = at.join("work");
            let _ = fs::remove_dir_all(&work);
            fs::create_dir(&work).unwrap();
            fs::write(work.join(".git"), format!("gitdir: {}\n", to.display())).unwrap();
            mounts_of(&work)
        };
        // The repository does not list this workspace.
        assert!(mounts_for_link_to(&common.join("worktrees/tree")).is_empty());
        assert!(mounts_for_link_to(&common.join("modules/sub")).is_empty());
        assert!(mounts_for_link_to(&common).is_empty());
        assert!(mounts_for_link_to(Path::new("/etc")).is_empty());
        // An unpacked archive that refers to this workspace.
        let home = at.join("home");
        fs::create_dir_all(home.join("worktrees/x")).unwrap();
        for name in ["objects", "refs"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for (name, text) in [
            ("HEAD", "ref: refs/heads/main\n"),
            ("config", ""),
            ("worktrees/x/HEAD", "ref: refs/heads/main\n"),
            ("worktrees/x/commondir", "../..\n"),
        ] {
            fs::write(home.join(name), text).unwrap();
        }
        let back = format!("{}\n", at.join("work/.git").display());
        fs::write(home.join("worktrees/x/gitdir"), back).unwrap();
        assert!(mounts_for_link_to(&home.join("worktrees/x")).is_empty());
        // With this name, the folder is a repository.
        fs::rename(&home, at.join("home.git")).unwrap();
        assert_eq!(
            mounts_for_link_to(&at.join("home.git/worktrees/x")).len(),
            3
        );
        // The `.git` file is a symbolic link.
        let work = at.join("work");
        fs::rename(work.join(".git"), at.join("file")).unwrap();
        std::os::unix::fs::symlink("../file", work.join(".git")).unwrap();
        assert!(mounts_of(&work).is_empty());
    }
}
