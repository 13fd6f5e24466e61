//! Support for git in a sandbox: the repositories of a command, their tracked hidden files, and the repository settings
//! that would run programs in a read-only command.
//!
//! All input comes from files that a command may have written. None of it is run, links are not followed, and content
//! that cannot be parsed is ignored.
//!
//! Out of scope: running git, which happens only in the sandbox.

mod config;
mod index;
mod linked_repository;
mod stand_in;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::run::{HiddenKind as Kind, HiddenPath};
use crate::sandbox::{CommandSpec, HostMount};
pub(crate) use config::GitConfig;
use index::{GitIndex, IndexStat};
pub(crate) use linked_repository::show_repository;
use stand_in::StandInStore;

/// Git's own merge command. Replaces the merge drivers of a repository.
const MERGE: &str = "git merge-file -q --marker-size=%L %A %O %B";

/// Maximum number of hidden tracked files reported through git settings.
const MAX_NAMED_PATHS: usize = 50;

/// Prepares a command for the repositories of its workspace. `repositories` are the paths of their `.git` folders and
/// files, relative to the workspace.
///
/// Each hidden tracked file gets a stand-in with the size and time stored in the index. With `core.checkStat=minimal`,
/// git compares nothing else, and treats the file as unchanged without reading it. `hidden` is empty if the sandbox
/// cannot put another file in the place of a hidden one.
pub(crate) fn prepare(spec: &mut CommandSpec, hidden: &[HiddenPath], repositories: &[String]) {
    let repositories: Vec<GitRepository> = repositories
        .iter()
        .filter_map(|path| GitRepository::find(spec, path))
        .collect();
    for repository in &repositories {
        spec.git.extend(repository.program_overrides());
    }
    spec.git.sort();
    spec.git.dedup();
    // Containers on other systems do not either.
    if !cfg!(target_os = "linux") || hidden.iter().all(|one| one.kind == Kind::Other) {
        return;
    }
    let Some(store) = StandInStore::open() else {
        return;
    };
    let mut tracked = TrackedPaths::new(hidden);
    for repository in &repositories {
        repository.read_index(&mut tracked);
    }
    if tracked.has_entries() {
        spec.git.push(("core.checkStat".into(), "minimal".into()));
        spec.git.push(("core.trustctime".into(), "false".into()));
        // The tool `git` reports these files as not compared.
        let named = tracked.entries.keys().take(MAX_NAMED_PATHS);
        spec.git
            .extend(named.map(|path| ("mimir.hidden".into(), (*path).to_owned())));
    }
    ignore_hidden_files(spec, &store, &repositories, hidden, &tracked);
    hide_content(spec, &store, &repositories, hidden);
    for hidden_path in hidden {
        let path = hidden_path.path.as_str();
        let stand_in = match (hidden_path.kind, tracked.entries.get(path)) {
            (Kind::File, Some(files)) => files.first().and_then(|(_, stat)| store.file(*stat)),
            (Kind::File, None) => store.socket(),
            (Kind::Folder, Some(files)) => store.folder(files),
            (Kind::Folder, None) | (Kind::Other, _) => None,
        };
        if let Some(stand_in) = stand_in {
            spec.stand_ins.insert(spec.workspace.join(path), stand_in);
        }
    }
}

/// Path of the ignore file for git in a sandbox.
const EXCLUDES: &str = "/etc/git-exclude";

/// Makes git ignore untracked hidden files, since it would fail at the first unreadable one. Does nothing if a
/// repository has its own `core.excludesFile`.
fn ignore_hidden_files(
    spec: &mut CommandSpec,
    store: &StandInStore,
    repositories: &[GitRepository],
    hidden: &[HiddenPath],
    tracked: &TrackedPaths<'_>,
) {
    let has_own_excludes = |one: &GitRepository| one.config.value("core", "excludesfile").is_some();
    if repositories.iter().any(has_own_excludes) {
        return;
    }
    let mut lines = String::new();
    for root in roots(repositories) {
        for file in hidden.iter().filter(|file| file.kind == Kind::File) {
            let path = file.path.strip_prefix(root);
            let path = path.filter(|_| !tracked.entries.contains_key(file.path.as_str()));
            if let Some(path) = path.filter(|path| !path.contains('\n')) {
                lines.push_str(&exact_pattern(path));
                lines.push('\n');
            }
        }
    }
    add_settings_file(spec, store, &lines, ("core.excludesFile", EXCLUDES));
}

/// Mounts a file with these lines, and sets the git setting `key` to its path. Does nothing without lines.
fn add_settings_file(
    spec: &mut CommandSpec,
    store: &StandInStore,
    lines: &str,
    (key, mount_path): (&str, &str),
) {
    if let Some(file) = (!lines.is_empty()).then(|| store.text(lines)).flatten() {
        spec.mounts.push(HostMount::read_only_at(file, mount_path));
        spec.git.push((key.into(), mount_path.into()));
    }
}

/// Path of the attributes file for git in a sandbox.
const ATTRIBUTES: &str = "/etc/git-attributes";

/// Makes git treat hidden files as binary, including files that are no longer tracked: `show`, `log -p`, `diff` and
/// `grep` then print their names without the content, which is still in the repository's objects.
///
/// This only keeps secrets out of ordinary output. It is not a security boundary: the repository's own attributes take
/// precedence. Commands with options such as `--text`, which do so as well, need an approval. Does nothing if a repository has its own `core.attributesFile`.
fn hide_content(
    spec: &mut CommandSpec,
    store: &StandInStore,
    repositories: &[GitRepository],
    hidden: &[HiddenPath],
) {
    let has_own_attributes =
        |one: &GitRepository| one.config.value("core", "attributesfile").is_some();
    if repositories.iter().any(has_own_attributes) {
        return;
    }
    let mut lines = String::new();
    for root in roots(repositories) {
        for hidden_path in hidden {
            let Some(path) = hidden_path.path.strip_prefix(root) else {
                continue;
            };
            let suffix = match hidden_path.kind {
                Kind::File => "",
                Kind::Folder => "/**",
                Kind::Other => continue,
            };
            // Quoted as in C, since a space would end the pattern.
            let pattern = exact_pattern(path)
                .replace('\\', "\\\\")
                .replace('"', "\\\"");
            if !path.contains('\n') {
                lines.push_str(&format!("\"{pattern}{suffix}\" -diff\n"));
            }
        }
    }
    add_settings_file(spec, store, &lines, ("core.attributesFile", ATTRIBUTES));
}

/// Returns the working trees of the repositories, and the workspace itself, where a command may create a repository.
fn roots(repositories: &[GitRepository]) -> BTreeSet<&str> {
    let roots = repositories.iter().map(|one| one.root.as_str());
    roots.chain([""]).collect()
}

/// Returns a pattern that matches exactly this path of a working tree.
fn exact_pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for letter in path.chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ' ') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Tracked hidden paths, each with the index entries of its files. Entries are named relative to the hidden path (`""`
/// for the path itself).
struct TrackedPaths<'a> {
    files: BTreeSet<&'a str>,
    folders: Vec<&'a str>,
    entries: BTreeMap<&'a str, Vec<(String, IndexStat)>>,
}

impl<'a> TrackedPaths<'a> {
    fn new(hidden: &'a [HiddenPath]) -> Self {
        let of_kind = |kind: Kind| {
            let paths = hidden.iter().filter(move |one| one.kind == kind);
            paths.map(|one| one.path.as_str())
        };
        Self {
            files: of_kind(Kind::File).collect(),
            folders: of_kind(Kind::Folder).collect(),
            entries: BTreeMap::new(),
        }
    }

    fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Returns the hidden path that equals or contains `path`, and the rest of `path`.
    fn find_hidden<'p>(&self, path: &'p str) -> Option<(&'a str, &'p str)> {
        if let Some(file) = self.files.get(path) {
            return Some((*file, ""));
        }
        self.folders.iter().find_map(|folder| {
            let rest = path.strip_prefix(*folder)?.strip_prefix('/')?;
            Some((*folder, rest))
        })
    }

    fn has_path_below(&self, root: &str) -> bool {
        let is_inside = |path: &str| root.is_empty() || path.starts_with(root);
        self.files.iter().any(|path| is_inside(path))
            || self.folders.iter().any(|path| is_inside(path))
    }
}

/// A repository in the workspace of a command.
struct GitRepository {
    /// Path of the working tree, relative to the workspace; empty or with `/` at the end.
    root: String,
    /// Folder of the index.
    git: PathBuf,
    config: GitConfig,
}

impl GitRepository {
    fn find(spec: &CommandSpec, path: &str) -> Option<Self> {
        let workspace = &spec.workspace;
        let dot_git = workspace.join(path);
        let kind = dot_git.symlink_metadata().ok()?.file_type();
        let git = if kind.is_dir() {
            dot_git
        } else {
            linked_repository::link_target(&dot_git)?
        };
        // A repository outside of the workspace must have been checked and mounted.
        let contains_git = |mount: &crate::sandbox::HostMount| git.starts_with(&mount.from);
        if !git.starts_with(workspace) && !spec.mounts.iter().any(contains_git) {
            return None;
        }
        let root = path.strip_suffix(".git")?.to_owned();
        let config = GitConfig::read_repository(&git, &workspace.join(&root));
        Some(Self { root, git, config })
    }

    /// Returns the git settings that disable the repository's own programs for manuals, archives and merges. The
    /// repository chooses the names of these settings, so each is overridden separately.
    fn program_overrides(&self) -> Vec<(String, String)> {
        let mut overrides = Vec::new();
        for entry in self.config.entries() {
            let Some(name) = entry.subsection.as_deref() else {
                continue;
            };
            let key = match (entry.section.as_str(), entry.key.as_str()) {
                ("man", key @ ("cmd" | "path")) => format!("man.{name}.{key}"),
                ("browser", key @ ("cmd" | "path")) => format!("browser.{name}.{key}"),
                ("tar", "command") if !matches!(name, "tgz" | "tar.gz") => {
                    format!("tar.{name}.command")
                }
                // `git log --diff-merges=remerge` also runs merge drivers.
                ("merge", "driver") => {
                    overrides.push((format!("merge.{name}.driver"), MERGE.to_owned()));
                    continue;
                }
                _ => continue,
            };
            overrides.push((key, "false".to_owned()));
        }
        overrides
    }

    /// Adds the index entries of this repository's hidden files.
    fn read_index(&self, tracked: &mut TrackedPaths<'_>) {
        if !tracked.has_path_below(&self.root) {
            return;
        }
        let hash = self.config.object_hash();
        let workspace_path = |name: &str| format!("{}{name}", self.root);
        let is_hidden = |name: &str| tracked.find_hidden(&workspace_path(name)).is_some();
        let Some(index) = GitIndex::read(&self.git, hash, &is_hidden) else {
            return;
        };
        for (name, stat) in index.into_stats() {
            let path = workspace_path(&name);
            if let Some((hidden, rest)) = tracked.find_hidden(&path) {
                let rest = rest.to_owned();
                tracked
                    .entries
                    .entry(hidden)
                    .or_default()
                    .push((rest, stat));
            }
        }
    }
}

/// Runs git for a test, and returns its standard output.
#[cfg(test)]
fn run_git(folder: &std::path::Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@e"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
