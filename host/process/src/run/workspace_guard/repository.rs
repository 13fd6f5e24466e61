//! Checks of a repository that a command has created: it must not make git run a program for the user.
//!
//! Files as written by `git init` and `git clone` are allowed: settings that name no program and no other file, and
//! sample hooks. Settings are checked against an allow list, since each release of git adds more that run programs.

use std::path::Path;

use super::REFUSED_SUFFIX;
use super::open_folder::{read_folder, read_regular_file};
use crate::launch_folder::normalize_path;
use crate::sandbox::{INNER, OBJECTS, inner_repositories};

/// Maximum size in bytes of a settings file; git writes smaller ones.
const MAX_CONFIG_BYTES: u64 = 64 << 10;

/// Folder of the linked worktrees in a repository.
const WORKTREES: &str = "worktrees";

/// Maximum size in bytes of a file that contains a path.
const MAX_LINK_BYTES: u64 = 8192;

/// Allowed keys by section: those that `git init`, `git clone` and common uses of `git config` write. `*` is any key.
const ALLOWED_SETTINGS: [(&str, &[&str]); 24] = [
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "eol",
            "filemode",
            "hidedotfiles",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "untrackedcache",
        ],
    ),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "push",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("branch", &["merge", "pushremote", "rebase", "remote"]),
    (
        "submodule",
        &[
            "active",
            "branch",
            "fetchrecursesubmodules",
            "ignore",
            "recurse",
            "url",
        ],
    ),
    ("extensions", &["*"]),
    ("user", &["email", "name", "useconfigonly"]),
    ("advice", &["*"]),
    ("clone", &["*"]),
    ("color", &["*"]),
    ("column", &["*"]),
    ("commit", &["gpgsign", "verbose"]),
    ("feature", &["*"]),
    ("fetch", &["*"]),
    ("gc", &["auto"]),
    ("index", &["*"]),
    ("init", &["defaultbranch"]),
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
    ("merge", &["conflictstyle", "ff"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("rebase", &["autosquash", "autostash"]),
    ("rerere", &["autoupdate", "enabled"]),
    ("status", &["*"]),
    ("tag", &["gpgsign", "sort"]),
];

/// Returns the forbidden paths in the repository at `git`, a `.git` folder, each with the reason.
pub(super) fn find_forbidden_parts(workspace: &Path, git: &str) -> Vec<(String, String)> {
    let mut forbidden = Vec::new();
    check_links(workspace, git, false, &mut forbidden);
    check_git_folder(workspace, git, None, &mut forbidden);
    // Includes its submodules, at any depth, and its worktrees.
    for inner in INNER {
        let at = workspace.join(git).join(inner);
        for folder in inner_repositories(&at, read_folder) {
            let Some(below) = folder.strip_prefix(workspace).ok().and_then(Path::to_str) else {
                continue;
            };
            let is_worktree = inner == WORKTREES && folder.parent() == Some(at.as_path());
            check_links(workspace, below, is_worktree, &mut forbidden);
            let submodule = SubmoduleFolder {
                workspace,
                folder: &folder,
            };
            check_git_folder(workspace, below, Some(&submodule), &mut forbidden);
        }
    }
    forbidden
}

/// Checks the files that redirect git to other settings. Only worktrees may have them.
fn check_links(
    workspace: &Path,
    folder: &str,
    is_worktree: bool,
    forbidden: &mut Vec<(String, String)>,
) {
    for name in ["commondir", "gitdir"] {
        let path = format!("{folder}/{name}");
        let file = workspace.join(&path);
        if file.symlink_metadata().is_err() {
            continue;
        }
        let text = read_regular_file(&file, MAX_LINK_BYTES);
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        let is_own = text.is_some_and(|text| match text.trim_end_matches('\n') {
            "../.." => name == "commondir",
            to => name == "gitdir" && is_inside(workspace, &workspace.join(folder).join(to)),
        });
        if !(is_worktree && is_own) {
            forbidden.push((path, "redirects git to other settings".to_owned()));
        }
    }
}

/// Returns true if a path is in the workspace, both as written and with links resolved. The path need not exist.
fn is_inside(workspace: &Path, path: &Path) -> bool {
    let normalized = normalize_path(path);
    let mut existing = normalized.ancestors();
    let real = existing.find_map(|above| above.canonicalize().ok());
    normalized.starts_with(workspace) && real.is_some_and(|real| real.starts_with(workspace))
}

/// Returns true if this `HEAD` file makes its folder a repository for which git would run a program.
pub(super) fn is_repository_head(workspace: &Path, head: &str) -> bool {
    let folder = head.rsplit_once('/').map_or("", |(folder, _)| folder);
    let at = workspace.join(folder);
    // `commondir` redirects git to the settings of another folder.
    if at.join("commondir").symlink_metadata().is_ok() {
        return true;
    }
    let mut forbidden = Vec::new();
    if at.join(OBJECTS).is_dir() && at.join("refs").is_dir() {
        check_git_folder(workspace, folder, None, &mut forbidden);
    }
    !forbidden.is_empty()
}

/// Returns true if a `.git` file leads to a submodule or worktree in one of these repositories, which is checked
/// separately.
pub(super) fn links_to_repository<'r>(
    workspace: &Path,
    file: &str,
    mut repositories: impl Iterator<Item = &'r str>,
) -> bool {
    let target = || {
        let file = workspace.join(file);
        let text = String::from_utf8(read_regular_file(&file, MAX_LINK_BYTES)?).ok()?;
        // Trailing spaces are part of the path.
        let text = text.trim_end_matches(['\n', '\r']);
        let path = normalize_path(&file.parent()?.join(text.strip_prefix("gitdir: ")?));
        // A link in the path could be changed later.
        (path.canonicalize().ok()? == path).then_some(path)
    };
    target().is_some_and(|target| {
        repositories.any(|repository| {
            let repository = workspace.join(repository);
            INNER.iter().any(|inner| {
                let below = target.strip_prefix(repository.join(inner));
                below.is_ok_and(|below| {
                    below != Path::new("") && below.iter().all(|part| part != OBJECTS)
                })
            })
        })
    })
}

/// Folder of a submodule, inside a `.git` folder.
struct SubmoduleFolder<'a> {
    workspace: &'a Path,
    folder: &'a Path,
}

impl SubmoduleFolder<'_> {
    /// Returns true if a `core.worktree` value leads to a folder of the workspace: the files of a submodule are next to
    /// the `.git` folder that contains it.
    fn allows_worktree(&self, value: &str) -> bool {
        value.starts_with("../")
            && !value.contains(['"', '#', ';'])
            && is_inside(self.workspace, &self.folder.join(value))
    }
}

/// Checks the settings and hooks in a git folder, and adds the forbidden ones to `forbidden`.
fn check_git_folder(
    workspace: &Path,
    folder: &str,
    submodule: Option<&SubmoduleFolder<'_>>,
    forbidden: &mut Vec<(String, String)>,
) {
    let path_in_folder = |name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    for name in ["config", "config.worktree"] {
        let path = path_in_folder(name);
        if workspace.join(&path).symlink_metadata().is_err() {
            continue;
        }
        let text = read_regular_file(&workspace.join(&path), MAX_CONFIG_BYTES);
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        match text.map(|text| find_unusual_setting(&text, submodule)) {
            Some(None) => {}
            Some(Some(setting)) => {
                let why = format!("makes git run a program or read other files: `{setting}`");
                forbidden.push((path, why));
            }
            None => forbidden.push((path, "is not a settings file as git writes it".to_owned())),
        }
    }
    let hooks = path_in_folder("hooks");
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    if is_link(&workspace.join(&hooks)) {
        forbidden.push((hooks, "redirects git to other hooks".to_owned()));
        return;
    }
    let entries = read_folder(&workspace.join(&hooks));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_allowed = name.ends_with(".sample") || name.contains(REFUSED_SUFFIX);
        if !is_allowed && !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            forbidden.push((
                format!("{hooks}/{name}"),
                "is a hook, which git runs".to_owned(),
            ));
        }
    }
}

/// Returns the first setting that is not on the allow list, or the first line that cannot be parsed.
fn find_unusual_setting(text: &str, submodule: Option<&SubmoduleFolder<'_>>) -> Option<String> {
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            // Git ends a name that contains `]` at another position, and reads the rest differently.
            let Some((head, after)) = rest.split_once(']') else {
                return Some(line.to_owned());
            };
            let name = head.split([' ', '\t', '.', '"']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = after.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            // Git accepts a second section on the line.
            if line.starts_with('[') {
                return Some(line.to_owned());
            }
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if !is_allowed_setting(&section, &key, value, submodule) {
            return Some(format!("{section}.{key}"));
        }
    }
    None
}

fn is_allowed_setting(
    section: &str,
    key: &str,
    value: &str,
    submodule: Option<&SubmoduleFolder<'_>>,
) -> bool {
    // A `\` may continue the value on the next line, or give it another meaning than its text.
    if value.contains('\\')
        || value.contains("::")
        || value.trim_start_matches('"').starts_with(['!', '-'])
    {
        return false;
    }
    match (section, key) {
        ("core", "fsmonitor") => value == "false",
        ("core", "worktree") => submodule.is_some_and(|folder| folder.allows_worktree(value)),
        ("submodule", "update") => matches!(value, "checkout" | "rebase" | "merge" | "none"),
        _ => ALLOWED_SETTINGS
            .iter()
            .any(|(name, keys)| *name == section && (keys.contains(&"*") || keys.contains(&key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_config_that_names_a_program_is_unusual() {
        let plain = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://a.example/b.git\n\
                     \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n# x\n[extensions] objectformat = sha256\n";
        assert_eq!(find_unusual_setting(plain, None), None);
        for bad in [
            "[core]\nhooksPath = x",
            "[core] fsmonitor = ./evil",
            "[CORE]\n\tPager = sh",
            "[core \"x\"]\nsshCommand = x",
            "[include]\npath = x",
            "[includeIf \"gitdir:x\"]\npath = x",
            "[alias]\nst = !sh",
            "[filter \"x\"]\nclean = sh",
            "[diff \"x\"]\ntextconv = sh",
            "[remote \"x\"]\nuploadpack = sh",
            "[remote \"x\"]\nurl = ext::sh -c x",
            "[remote \"a]b\"]\n[core]\npager = x",
            "[core]\nbare = false\\\n[core]\npager=x",
            "[user]\nname = x\\\n",
            "[submodule \"x\"]\nupdate = !sh",
            "[core]\nworktree = /home",
            "[credential]\nhelper = !sh",
            "nothing",
            "[advice][core]\nfsmonitor = ./evil",
            "[status] [include]path = x",
        ] {
            assert!(find_unusual_setting(bad, None).is_some(), "{bad}");
        }
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let inner = workspace.join(".git/modules/sub");
        let submodule = SubmoduleFolder {
            workspace: &workspace,
            folder: &inner,
        };
        for (worktree, expected) in [
            ("../../../sub", true),
            ("../../../../sub", false),
            ("../../../sub ;/x", false),
            ("/home", false),
        ] {
            let text = format!("[core]\nworktree = {worktree}");
            let unusual = find_unusual_setting(&text, Some(&submodule));
            assert_eq!(unusual.is_none(), expected, "{worktree}");
        }
    }
}
