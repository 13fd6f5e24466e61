//! Support for git in a sandbox: the repositories that a command works with, their hidden files that are tracked, and
//! their settings that would run a program for a command that only reads.
//!
//! Everything here is read from files that a command may have written: nothing of it is run, links are not followed,
//! and content that cannot be parsed counts as absent.
//!
//! Out of scope: the work of git itself, which runs only in the sandbox.

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

/// The merge of git itself, in place of the driver that a repository names.
const MERGE: &str = "git merge-file -q --marker-size=%L %A %O %B";

/// Maximum number of hidden tracked files that are named to git.
const MAX_NAMED_PATHS: usize = 50;

/// Prepares a command for the repositories of its workspace: `repositories` are their `.git` folders and files, below
/// the workspace.
///
/// A hidden file that a repository tracks gets a stand-in with the size and time that the index has of it, so that git
/// takes it for unchanged without reading it: with `core.checkStat=minimal` it compares nothing else.
pub(crate) fn prepare(spec: &mut CommandSpec, hidden: &[HiddenPath], repositories: &[String]) {
    let repositories: Vec<GitRepository> = repositories
        .iter()
        .filter_map(|path| GitRepository::find(spec, path))
        .collect();
    for repository in &repositories {
        spec.git.extend(repository.programs_off());
    }
    spec.git.sort();
    spec.git.dedup();
    // On other systems hidden files are not covered by mounts.
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
    if tracked.is_any() {
        spec.git.push(("core.checkStat".into(), "minimal".into()));
        spec.git.push(("core.trustctime".into(), "false".into()));
        // For the tool `git`, which reports the files that it has not compared.
        let named = tracked.found.keys().take(MAX_NAMED_PATHS);
        spec.git
            .extend(named.map(|path| ("mimir.hidden".into(), (*path).to_owned())));
    }
    exclude(spec, &store, &repositories, hidden, &tracked);
    hide_content(spec, &store, &repositories, hidden);
    for one in hidden {
        let stand_in = match (one.kind, tracked.found.get(one.path.as_str())) {
            (Kind::File, Some(files)) => files.first().and_then(|(_, stat)| store.file(*stat)),
            (Kind::File, None) => store.socket(),
            (Kind::Folder, Some(files)) => store.folder(files),
            (Kind::Folder, None) | (Kind::Other, _) => None,
        };
        if let Some(stand_in) = stand_in {
            spec.stand_ins
                .insert(spec.workspace.join(&one.path), stand_in);
        }
    }
}

/// The file of ignored paths that git reads in a sandbox.
const EXCLUDES: &str = "/etc/git-exclude";

/// Makes git ignore hidden files that are not tracked: it would fail at the first that it may not read. A repository
/// that has its own `core.excludesFile` is left alone.
fn exclude(
    spec: &mut CommandSpec,
    store: &StandInStore,
    repositories: &[GitRepository],
    hidden: &[HiddenPath],
    tracked: &TrackedPaths<'_>,
) {
    let own = |one: &GitRepository| one.config.value("core", "excludesfile").is_some();
    if repositories.iter().any(own) {
        return;
    }
    let mut lines = String::new();
    for root in roots(repositories) {
        for one in hidden.iter().filter(|one| one.kind == Kind::File) {
            let below = one.path.strip_prefix(root);
            let below = below.filter(|_| !tracked.found.contains_key(one.path.as_str()));
            if let Some(path) = below.filter(|path| !path.contains('\n')) {
                lines.push_str(&pattern(path));
                lines.push('\n');
            }
        }
    }
    add_settings_file(spec, store, &lines, ("core.excludesFile", EXCLUDES));
}

/// Mounts a file with these lines, if there are any, and makes a setting of git name it.
fn add_settings_file(
    spec: &mut CommandSpec,
    store: &StandInStore,
    lines: &str,
    (key, at): (&str, &str),
) {
    if let Some(from) = (!lines.is_empty()).then(|| store.text(lines)).flatten() {
        spec.mounts.push(HostMount::read_only_at(from, at));
        spec.git.push((key.into(), at.into()));
    }
}

/// The file of attributes that git reads in a sandbox.
const ATTRIBUTES: &str = "/etc/git-attributes";

/// Makes git treat hidden files as binary, also those that were tracked once: `show`, `log -p`, `diff` and `grep` then
/// name them without their content, which is in the objects of the repository.
///
/// This keeps secrets out of output that did not ask for them. It is not a boundary: attributes of the repository and
/// options such as `--text` take precedence. A repository that has its own `core.attributesFile` is left alone.
fn hide_content(
    spec: &mut CommandSpec,
    store: &StandInStore,
    repositories: &[GitRepository],
    hidden: &[HiddenPath],
) {
    let own = |one: &GitRepository| one.config.value("core", "attributesfile").is_some();
    if repositories.iter().any(own) {
        return;
    }
    let mut lines = String::new();
    for root in roots(repositories) {
        for one in hidden {
            let Some(path) = one.path.strip_prefix(root) else {
                continue;
            };
            let below = match one.kind {
                Kind::File => "",
                Kind::Folder => "/**",
                Kind::Other => continue,
            };
            // Quoted as in C, because a space would end the pattern.
            let pattern = pattern(path).replace('\\', "\\\\").replace('"', "\\\"");
            if !path.contains('\n') {
                lines.push_str(&format!("\"{pattern}{below}\" -diff\n"));
            }
        }
    }
    add_settings_file(spec, store, &lines, ("core.attributesFile", ATTRIBUTES));
}

/// The working trees of repositories, and the workspace itself, where a command may create one.
fn roots(repositories: &[GitRepository]) -> BTreeSet<&str> {
    let roots = repositories.iter().map(|one| one.root.as_str());
    roots.chain([""]).collect()
}

/// Returns the pattern that matches only this path of a working tree.
fn pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for letter in path.chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ' ') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// The tracked hidden paths, with the index entry of each file, relative to the hidden path (`""` for the path
/// itself).
struct TrackedPaths<'a> {
    files: BTreeSet<&'a str>,
    folders: Vec<&'a str>,
    found: BTreeMap<&'a str, Vec<(String, IndexStat)>>,
}

impl<'a> TrackedPaths<'a> {
    fn new(hidden: &'a [HiddenPath]) -> Self {
        let of = |kind: Kind| {
            let paths = hidden.iter().filter(move |one| one.kind == kind);
            paths.map(|one| one.path.as_str())
        };
        Self {
            files: of(Kind::File).collect(),
            folders: of(Kind::Folder).collect(),
            found: BTreeMap::new(),
        }
    }

    fn is_any(&self) -> bool {
        !self.found.is_empty()
    }

    /// Returns the hidden path that equals or contains a path, with the rest of the path.
    fn hides<'p>(&self, path: &'p str) -> Option<(&'a str, &'p str)> {
        if let Some(file) = self.files.get(path) {
            return Some((*file, ""));
        }
        self.folders.iter().find_map(|folder| {
            let rest = path.strip_prefix(*folder)?.strip_prefix('/')?;
            Some((*folder, rest))
        })
    }

    fn is_below(&self, root: &str) -> bool {
        let is = |path: &str| root.is_empty() || path.starts_with(root);
        self.files.iter().any(|path| is(path)) || self.folders.iter().any(|path| is(path))
    }
}

/// A repository that a command works with.
struct GitRepository {
    /// Its working tree, below the workspace; empty or with `/` at the end.
    root: String,
    /// The folder of its index.
    git: PathBuf,
    config: GitConfig,
}

impl GitRepository {
    fn find(spec: &CommandSpec, path: &str) -> Option<Self> {
        let workspace = &spec.workspace;
        let at = workspace.join(path);
        let kind = at.symlink_metadata().ok()?.file_type();
        let git = match kind.is_dir() {
            true => at.clone(),
            false => linked_repository::target(&at)?,
        };
        // Outside of the workspace, only folders that have been checked and mounted.
        let shown = |mount: &crate::sandbox::HostMount| git.starts_with(&mount.from);
        if !git.starts_with(workspace) && !spec.mounts.iter().any(shown) {
            return None;
        }
        let root = path.strip_suffix(".git")?.to_owned();
        let config = GitConfig::read_repository(&git, &workspace.join(&root));
        Some(Self { root, git, config })
    }

    /// Settings that switch off the repository's own programs that display manuals, list archives and merge: each has
    /// a name that the repository chooses.
    fn programs_off(&self) -> Vec<(String, String)> {
        let mut off = Vec::new();
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
                // `git log --diff-merges=remerge` merges as well.
                ("merge", "driver") => {
                    off.push((format!("merge.{name}.driver"), MERGE.to_owned()));
                    continue;
                }
                _ => continue,
            };
            off.push((key, "false".to_owned()));
        }
        off
    }

    /// Adds the index entries of hidden files.
    fn read_index(&self, tracked: &mut TrackedPaths<'_>) {
        if !tracked.is_below(&self.root) {
            return;
        }
        let hash = self.config.object_hash();
        let path = |name: &str| match self.root.is_empty() {
            true => name.to_owned(),
            false => format!("{}{name}", self.root),
        };
        let is_hidden = |name: &str| tracked.hides(&path(name)).is_some();
        let Some(index) = GitIndex::read(&self.git, hash, &is_hidden) else {
            return;
        };
        for (name, stat) in index.into_stats() {
            let path = path(&name);
            if let Some((hidden, rest)) = tracked.hides(&path) {
                let rest = rest.to_owned();
                tracked.found.entry(hidden).or_default().push((rest, stat));
            }
        }
    }
}

/// Runs git for a test, and returns what it prints.
#[cfg(test)]
fn run_git(folder: &std::path::Path, words: &[&str]) -> String {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@e"])
        .args(["-c", "protocol.file.allow=always"])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}
