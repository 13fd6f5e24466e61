//! Folders with path rules, and the form in which their paths are checked.
//!
//! Paths in the workspace are checked relative to its root. A writable folder outside was named by the user, so no rule
//! blocks it as a whole; its content is checked by its host path: in `/srv/x/.git`, the rule `.git/hooks` applies to
//! `hooks`.
//!
//! Out of scope: the enforcement of the rules.

use std::path::{Component, Path, PathBuf};

use mimir_core::paths::{PathRules, PathVerdict};

use super::{CommandSpec, HostMount};

/// A folder that path rules apply to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuledFolder {
    /// Base folder of the checked paths.
    pub(crate) base: PathBuf,
    /// Path of the folder relative to `base`. Only this folder is searched.
    pub(crate) start: String,
    /// True for the workspace.
    pub(crate) is_workspace: bool,
    /// True for a known repository with another name than `.git`, whose content no rule matches.
    pub(crate) is_repository: bool,
}

impl RuledFolder {
    /// Returns the workspace.
    pub(crate) fn workspace(workspace: &Path) -> Self {
        Self {
            base: workspace.to_owned(),
            start: String::new(),
            is_workspace: true,
            is_repository: false,
        }
    }

    /// Returns a canonical folder mounted by the user. Its base is the topmost ancestor from which no rule blocks the
    /// folder itself.
    fn for_mount(folder: &Path, rules: &PathRules) -> Self {
        for base in folder.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let below = folder.strip_prefix(base).ok().and_then(text);
            if let Some(start) = below
                && matches!(rules.check(&start), PathVerdict::Free)
            {
                return Self {
                    base: base.to_owned(),
                    start,
                    is_workspace: false,
                    is_repository: false,
                };
            }
        }
        Self {
            is_workspace: false,
            ..Self::workspace(folder)
        }
    }

    /// Returns the full path of the folder.
    pub(crate) fn folder(&self) -> PathBuf {
        match self.start.as_str() {
            "" => self.base.clone(),
            start => self.base.join(start),
        }
    }
}

/// Lists the writable folders outside the workspace, each with its mount. Excludes the command's private folders, and
/// parts of the workspace that are visible at their own path anyway.
pub(crate) fn writable_outside_folders(spec: &CommandSpec) -> Vec<(&HostMount, RuledFolder)> {
    let parts = spec.parts();
    let is_seen = |mount: &HostMount| {
        mount.from == mount.at && parts.iter().any(|(part, _)| mount.from.starts_with(part))
    };
    let mounts = spec.mounts.iter();
    mounts
        .filter(|mount| mount.writable && mount.from.is_dir() && !is_seen(mount))
        .filter(|mount| !spec.private_mounts.contains(&mount.from))
        .map(|mount| {
            let known = spec.repositories.contains(&mount.from) && !mount.from.ends_with(".git");
            let folder = RuledFolder {
                is_repository: known,
                ..RuledFolder::for_mount(&mount.from, &spec.path_rules)
            };
            (mount, folder)
        })
        .collect()
}

/// Lists the folders that are mounted read-only at their own path.
pub(crate) fn read_only_mounts(spec: &CommandSpec) -> Vec<PathBuf> {
    let mounts = spec.mounts.iter();
    mounts
        .filter(|mount| !mount.writable && mount.from == mount.at)
        .map(|mount| mount.from.clone())
        .collect()
}

/// Joins the components of a path for the rules. Returns `None` if the path is empty, is not valid UTF-8, or has
/// components other than names.
fn text(path: &Path) -> Option<String> {
    let names = path.components().map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let names: Option<Vec<&str>> = names.collect();
    names
        .filter(|names| !names.is_empty())
        .map(|names| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ruled_folder_base_never_blocks_the_mounted_folder() {
        let rules = PathRules::protected();
        for (folder, base, start) in [
            ("/srv/x/.git", "/", "srv/x/.git"),
            ("/srv/data", "/", "srv/data"),
            // The user named this folder although a rule blocks it from every ancestor.
            ("/home/me/.claude", "/home/me/.claude", ""),
            ("/home/me/.claude/projects", "/home/me/.claude", "projects"),
            ("/srv/x/.git/hooks", "/srv/x/.git", "hooks"),
        ] {
            let ruled = RuledFolder::for_mount(Path::new(folder), &rules);
            assert_eq!(
                (ruled.base.to_str().unwrap(), ruled.start.as_str()),
                (base, start)
            );
            assert_eq!(ruled.folder(), Path::new(folder));
        }
    }

    #[test]
    fn ruled_folders_exclude_read_only_and_workspace_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for name in ["work/sub", "read", "write"] {
            std::fs::create_dir_all(real.join(name)).unwrap();
        }
        let program = mimir_core::command::CommandProgram::Vector(vec!["true".into()]);
        let mut spec = CommandSpec::new(program, real.join("work"));
        let mount = |from: &str, at: &str, writable| HostMount {
            from: real.join(from),
            at: real.join(at),
            writable,
        };
        spec.mounts = vec![
            mount("work/sub", "work/sub", true),
            mount("read", "read", false),
            mount("write", "elsewhere", true),
            mount("work/sub", "alias", true),
        ];
        let found: Vec<_> = writable_outside_folders(&spec)
            .into_iter()
            .map(|(mount, ruled)| (mount.at.clone(), ruled.folder()))
            .collect();
        assert_eq!(
            found,
            [
                (real.join("elsewhere"), real.join("write")),
                (real.join("alias"), real.join("work/sub"))
            ]
        );
        spec.private_mounts = vec![real.join("write")];
        assert_eq!(writable_outside_folders(&spec).len(), 1);
    }
}
