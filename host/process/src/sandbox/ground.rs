//! Folders in which the rules about paths hold, and how paths in them read to the rules.
//!
//! Of the workspace they read from its root on. A folder beside it that a command may change is named by a person, so no
//! rule closes it as a whole; what is in it is closed by where it stands on this machine: in `/srv/x/.git` the rule
//! `.git/hooks` holds for `hooks`.
//!
//! Never here: what is done about a rule.

use std::path::{Component, Path, PathBuf};

use mimir_core::paths::{PathRules, Verdict};

use super::{Mount, Spec};

/// A folder that rules hold in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Where paths begin that rules are asked about.
    pub(crate) base: PathBuf,
    /// The folder, below that: all of it is looked through, and nothing beside it.
    pub(crate) start: String,
    /// Whether it is the workspace.
    pub(crate) own: bool,
    /// True if it is known to be a repository and is not called `.git`, so that no rule names what is in it.
    pub(crate) repository: bool,
}

impl Ground {
    /// The workspace.
    pub(crate) fn workspace(workspace: &Path) -> Self {
        Self {
            base: workspace.to_owned(),
            start: String::new(),
            own: true,
            repository: false,
        }
    }

    /// A folder of a person's choice, canonical. As much of its path counts as no rule closes.
    fn beside(folder: &Path, rules: &PathRules) -> Self {
        for base in folder.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let below = folder.strip_prefix(base).ok().and_then(text);
            if let Some(start) = below
                && matches!(rules.check(&start), Verdict::Free)
            {
                return Self {
                    base: base.to_owned(),
                    start,
                    own: false,
                    repository: false,
                };
            }
        }
        Self {
            own: false,
            ..Self::workspace(folder)
        }
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> PathBuf {
        match self.start.as_str() {
            "" => self.base.clone(),
            start => self.base.join(start),
        }
    }
}

/// The folders beside the workspace that a command may change, each with the mount that shows it. A part of the
/// workspace that is shown where it is anyway is none of them, and neither is a folder of the command's own.
pub(crate) fn beside(spec: &Spec) -> Vec<(&Mount, Ground)> {
    let parts = spec.parts();
    let is_seen = |mount: &Mount| {
        mount.from == mount.at && parts.iter().any(|(part, _)| mount.from.starts_with(part))
    };
    let mounts = spec.mounts.iter();
    mounts
        .filter(|mount| mount.writable && mount.from.is_dir() && !is_seen(mount))
        .filter(|mount| !spec.private.contains(&mount.from))
        .map(|mount| {
            let known = spec.repositories.contains(&mount.from) && !mount.from.ends_with(".git");
            let ground = Ground {
                repository: known,
                ..Ground::beside(&mount.from, &spec.shield)
            };
            (mount, ground)
        })
        .collect()
}

/// The folders beside the workspace that a command sees where they are and may not change.
pub(crate) fn closed(spec: &Spec) -> Vec<PathBuf> {
    let mounts = spec.mounts.iter();
    mounts
        .filter(|mount| !mount.writable && mount.from == mount.at)
        .map(|mount| mount.from.clone())
        .collect()
}

/// A path with names alone in it, as rules read it.
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
    fn a_folder_that_a_person_names_is_open_and_what_stands_in_it_is_where_it_is() {
        let rules = PathRules::protected();
        for (folder, base, start) in [
            ("/srv/x/.git", "/", "srv/x/.git"),
            ("/srv/data", "/", "srv/data"),
            // Named although a rule closes it, and all that is above.
            ("/home/me/.claude", "/home/me/.claude", ""),
            ("/home/me/.claude/projects", "/home/me/.claude", "projects"),
            ("/srv/x/.git/hooks", "/srv/x/.git", "hooks"),
        ] {
            let ground = Ground::beside(Path::new(folder), &rules);
            assert_eq!(
                (ground.base.to_str().unwrap(), ground.start.as_str()),
                (base, start)
            );
            assert_eq!(ground.folder(), Path::new(folder));
        }
    }

    #[test]
    fn what_may_only_be_read_and_what_the_workspace_holds_is_no_ground() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for name in ["work/sub", "read", "write"] {
            std::fs::create_dir_all(real.join(name)).unwrap();
        }
        let program = mimir_core::command::Program::Vector(vec!["true".into()]);
        let mut spec = Spec::new(program, real.join("work"));
        let mount = |from: &str, at: &str, writable| Mount {
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
        let found: Vec<_> = beside(&spec)
            .into_iter()
            .map(|(mount, ground)| (mount.at.clone(), ground.folder()))
            .collect();
        assert_eq!(
            found,
            [
                (real.join("elsewhere"), real.join("write")),
                (real.join("alias"), real.join("work/sub"))
            ]
        );
        spec.private = vec![real.join("write")];
        assert_eq!(beside(&spec).len(), 1);
    }
}
