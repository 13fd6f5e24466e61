//! Facts about the content of a workspace, so that workers of a cluster with different content are not mixed up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};

/// Maximum size of a file of git that is read.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Length of a commit id in hex: SHA-1, or SHA-256.
const COMMIT_LENGTHS: [usize; 2] = [40, 64];

/// Returns the facts about a workspace in the git repository at `repository`: the address of the repository that it was
/// cloned from, without credentials, and the commit that is checked out now. Without a repository, there are no facts.
pub fn workspace_facts(repository: Option<&Path>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let Some(git) = repository.and_then(git_folder) else {
        return facts;
    };
    let common = common_folder(&git);
    if let Some(origin) = read(&common.join("config")).and_then(|config| origin_url(&config)) {
        facts.insert("repository".to_owned(), origin);
    }
    if let Some(commit) = head_commit(&git, &common) {
        facts.insert("commit".to_owned(), commit);
    }
    facts
}

fn read(file: &Path) -> Option<String> {
    files::read_text(file, LinkPolicy::Follow, MAX_FILE_SIZE).ok()
}

/// Returns the folder of git: `.git`, or the one that the file `.git` of a worktree names.
fn git_folder(repository: &Path) -> Option<PathBuf> {
    let git = repository.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = read(&git)?;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(repository.join(named))
}

/// Returns the folder with the config and the branches, which all worktrees share.
fn common_folder(git: &Path) -> PathBuf {
    match read(&git.join("commondir")) {
        Some(common) => git.join(common.trim()),
        None => git.to_owned(),
    }
}

fn head_commit(git: &Path, common: &Path) -> Option<String> {
    let head = read(&git.join("HEAD"))?;
    let head = head.trim();
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else {
        return commit_id(head);
    };
    // A name of a branch cannot contain it, so this file was not written by git.
    if branch.split('/').any(|part| part == "..") || branch.starts_with('/') {
        return None;
    }
    let loose = [git, common]
        .into_iter()
        .find_map(|folder| read(&folder.join(branch)));
    if let Some(loose) = loose {
        return commit_id(loose.trim());
    }
    let packed = read(&common.join("packed-refs"))?;
    packed.lines().find_map(|line| {
        let (commit, name) = line.split_once(' ')?;
        (name == branch).then(|| commit_id(commit))?
    })
}

fn commit_id(text: &str) -> Option<String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && COMMIT_LENGTHS.contains(&text.len())).then(|| text.to_owned())
}

/// Returns the address of `origin` in a config file of git, without user name and password.
fn origin_url(config: &str) -> Option<String> {
    let mut is_origin = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_origin = line == "[remote \"origin\"]";
        } else if is_origin
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(without_credentials(value.trim()));
        }
    }
    None
}

fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return mimir_core::text::visible(url);
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    mimir_core::text::visible(&format!("{scheme}://{host}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        folder
    }

    #[test]
    fn workspace_facts_name_the_origin_and_the_commit() {
        let config = "[core]\n\turl = no\n[remote \"origin\"]\n\turl = https://me:secret@git.example/a.git\n";
        for (name, text) in [
            (".git/refs/heads/main", format!("{COMMIT}\n")),
            (
                ".git/packed-refs",
                format!("# pack\n{COMMIT} refs/heads/main\n"),
            ),
        ] {
            let head = (".git/HEAD", "ref: refs/heads/main\n");
            let folder = repository(&[head, (".git/config", config), (name, &text)]);
            let facts = workspace_facts(Some(folder.path()));
            assert_eq!(facts["repository"], "https://git.example/a.git");
            assert_eq!(facts["commit"], COMMIT, "{name}");
        }
    }

    #[test]
    fn workspace_facts_of_worktrees_are_those_of_the_repository() {
        let folder = repository(&[
            (
                "main/.git/config",
                "[remote \"origin\"]\nurl = git@git.example:a.git\n",
            ),
            ("main/.git/worktrees/w/HEAD", COMMIT),
            ("main/.git/worktrees/w/commondir", "../..\n"),
            ("w/.git", "gitdir: ../main/.git/worktrees/w\n"),
        ]);
        let facts = workspace_facts(Some(&folder.path().join("w")));
        assert_eq!(facts["repository"], "git@git.example:a.git");
        assert_eq!(facts["commit"], COMMIT);
    }

    #[test]
    fn workspace_facts_ignore_what_git_has_not_written() {
        for head in ["ref: ../../secret", "ref: /etc/passwd", "short", ""] {
            let folder = repository(&[(".git/HEAD", head), ("secret", COMMIT)]);
            assert!(workspace_facts(Some(folder.path())).is_empty(), "{head}");
        }
        assert!(workspace_facts(None).is_empty());
    }
}
