//! Checks of a repository that a command has created: whether git, run by a person, would run a program because of it.
//!
//! The files that `git init` and `git clone` write are allowed: settings that name no program and no other file, and
//! hooks that are samples. The settings are an allow list, since each release of git adds more that run programs.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::REFUSED_SUFFIX;
use super::open_folder::read_regular_file;
use crate::sandbox::OBEYED;

/// Maximum number of bytes of a settings file: git writes none that is longer.
const MAX_CONFIG_BYTES: u64 = 64 << 10;

/// Maximum number of bytes of a file that contains a path.
const MAX_LINK_BYTES: u64 = 8192;

/// Settings that `git init`, `git clone` and people's usual `git config` write, by section. `*` is any key.
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

/// Returns the paths in the repository at `git`, a folder `.git`, that may not stay, each with the reason.
pub(super) fn find_forbidden_parts(workspace: &Path, git: &str) -> Vec<(String, String)> {
    let mut forbidden = Vec::new();
    // They lead git to settings elsewhere, and only worktrees have them.
    for name in ["commondir", "gitdir"] {
        let path = format!("{git}/{name}");
        if workspace.join(&path).symlink_metadata().is_ok() {
            forbidden.push((path, "leads git to other settings".to_owned()));
        }
    }
    check_git_folder(workspace, git, false, &mut forbidden);
    // Also for its submodules, at any depth, and its worktrees.
    let mut pending = vec![format!("{git}/modules"), format!("{git}/worktrees")];
    while let Some(at) = pending.pop() {
        for (name, path) in subfolders(workspace, &at) {
            if matches!(name.as_str(), "objects" | "refs" | "hooks" | "logs") {
                continue;
            }
            check_git_folder(workspace, &path, true, &mut forbidden);
            for name in ["commondir", "gitdir"] {
                forbidden.extend(find_forbidden_worktree_part(
                    workspace,
                    format!("{path}/{name}"),
                ));
            }
            pending.push(path);
        }
    }
    forbidden
}

/// Returns the path of a file in the folder of a worktree, such as `.git/worktrees/NAME/commondir`, with the reason if
/// it may not stay. The files that `git worktree add` writes may: they lead to the repository around that folder, and
/// to a folder of this workspace.
pub(super) fn find_forbidden_worktree_part(
    workspace: &Path,
    path: String,
) -> Option<(String, String)> {
    let file = workspace.join(&path);
    if file.symlink_metadata().is_err() {
        return None;
    }
    let (folder, name) = path.rsplit_once('/')?;
    if !matches!(name, "commondir" | "gitdir") {
        let mut forbidden = Vec::new();
        check_git_folder(workspace, folder, true, &mut forbidden);
        let below = format!("{path}/");
        let is_part = |(part, _): &(String, String)| *part == path || part.starts_with(&below);
        return forbidden.into_iter().find(is_part);
    }
    let text = read_regular_file(&file, MAX_LINK_BYTES);
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let is_unchanged_link = text.is_some_and(|text| match text.trim_end_matches('\n') {
        // In a deeper folder, it would lead to a folder that is not a repository.
        "../.." => name == "commondir" && is_worktree_folder(folder),
        to => name == "gitdir" && is_git_link_in(workspace, &workspace.join(folder).join(to)),
    });
    (!is_unchanged_link).then(|| (path, "leads git to other settings".to_owned()))
}

/// Returns true for `…/.git/worktrees/NAME`.
fn is_worktree_folder(folder: &str) -> bool {
    let parent = folder.rsplit_once('/').map(|(parent, _)| parent);
    parent.is_some_and(|parent| parent == ".git/worktrees" || parent.ends_with("/.git/worktrees"))
}

/// Returns true for a path `.git` in a folder of the workspace, which need not exist yet.
fn is_git_link_in(workspace: &Path, path: &Path) -> bool {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normalized.pop()),
            part => normalized.push(part),
        }
    }
    normalized.starts_with(workspace) && normalized.ends_with(".git")
}

/// Returns true if all that git obeys in the folder of a worktree is as `git worktree add` writes it, and the worktree
/// is in this workspace.
pub(crate) fn is_plain_worktree(workspace: &Path, folder: &str) -> bool {
    let exists = |name: &str| workspace.join(folder).join(name).is_file();
    let is_allowed =
        |name: &str| find_forbidden_worktree_part(workspace, format!("{folder}/{name}")).is_none();
    exists("commondir") && exists("gitdir") && OBEYED.into_iter().all(is_allowed)
}

/// Returns true if a file `HEAD` makes its folder a repository for which git would run a program.
pub(super) fn is_repository_head(workspace: &Path, head: &str) -> bool {
    let folder = head.rsplit_once('/').map_or("", |(folder, _)| folder);
    let at = workspace.join(folder);
    let mut forbidden = Vec::new();
    if at.join("objects").is_dir() && at.join("refs").is_dir() {
        check_git_folder(workspace, folder, false, &mut forbidden);
    }
    !forbidden.is_empty()
}

/// Returns true if a file `.git` leads to the folder of a submodule or a worktree in a repository of this workspace.
pub(super) fn links_to_repository(workspace: &Path, file: &str) -> bool {
    let target = || {
        let text =
            String::from_utf8(read_regular_file(&workspace.join(file), MAX_LINK_BYTES)?).ok()?;
        let to = text.trim_end().strip_prefix("gitdir: ")?.to_owned();
        let real = workspace
            .join(file)
            .parent()?
            .join(to)
            .canonicalize()
            .ok()?;
        let below = real.strip_prefix(workspace).ok()?.to_str()?.to_owned();
        Some(below)
    };
    target().is_some_and(|below| {
        let below = format!("/{below}/");
        below.contains("/.git/modules/") || below.contains("/.git/worktrees/")
    })
}

/// Checks the settings and the hooks in one folder of git, and adds those that may not stay to `forbidden`.
fn check_git_folder(
    workspace: &Path,
    folder: &str,
    inner: bool,
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
        match text.map(|text| find_unusual_setting(&text, inner)) {
            Some(None) => {}
            Some(Some(setting)) => {
                let why = format!("has git run or obey something by `{setting}`");
                forbidden.push((path, why));
            }
            None => forbidden.push((path, "is not a settings file as git writes it".to_owned())),
        }
    }
    let hooks = path_in_folder("hooks");
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    if is_link(&workspace.join(&hooks)) {
        forbidden.push((hooks, "leads git to hooks".to_owned()));
        return;
    }
    for entry in workspace
        .join(&hooks)
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
    {
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

fn subfolders(workspace: &Path, at: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(workspace.join(at))
        .into_iter()
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| (name.clone(), format!("{at}/{name}")))
        .collect()
}

/// Returns the first setting that is not on the list, or the first line that cannot be parsed.
fn find_unusual_setting(text: &str, inner: bool) -> Option<String> {
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            // Git ends a name with a `]` in it elsewhere, and then reads the rest differently.
            let Some((head, after)) = rest.split_once(']') else {
                return Some(line.to_owned());
            };
            let name = head.split([' ', '\t', '.', '"']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = after.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if !is_allowed_setting(&section, &key, value, inner) {
            return Some(format!("{section}.{key}"));
        }
    }
    None
}

fn is_allowed_setting(section: &str, key: &str, value: &str, inner: bool) -> bool {
    // The next line would be a part of this value, and an escaped one has another meaning than its text.
    if value.contains('\\')
        || value.contains("::")
        || value.trim_start_matches('"').starts_with(['!', '-'])
    {
        return false;
    }
    match (section, key) {
        ("core", "fsmonitor") => value == "false",
        // A submodule's own files are next to the `.git` folder that it is in.
        ("core", "worktree") => inner && value.starts_with("../"),
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
        assert_eq!(find_unusual_setting(plain, false), None);
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
        ] {
            assert!(find_unusual_setting(bad, false).is_some(), "{bad}");
        }
        assert_eq!(
            find_unusual_setting("[core]\nworktree = ../../../sub", true),
            None
        );
    }
}
