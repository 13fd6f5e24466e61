//! Rules of `.ignore` and `.gitignore` files.

use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Rules;
use crate::start::join;
use crate::tree::{Content, Entries, Folder};

/// Maximum size in bytes of a rules file: larger than any that a person writes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The rules that a folder adds to those above it.
pub struct Level {
    parent: Rules,
    /// `.ignore`, which has precedence over git's files.
    ignore: Option<Gitignore>,
    /// `.gitignore`.
    git: Option<Gitignore>,
    /// `.git/info/exclude`.
    exclude: Option<Gitignore>,
    /// True if a repository begins here, where git's rules from above end.
    repository: bool,
}

impl Level {
    /// Reads the rules in a folder whose entries are known.
    pub fn read(folder: &Folder, path: &str, entries: &Entries, parent: Rules) -> Rules {
        let has = |name: &str| {
            entries
                .files
                .binary_search_by(|file| file.as_str().cmp(name))
                .is_ok()
        };
        let repository = entries
            .folders
            .binary_search_by(|folder| folder.as_str().cmp(".git"))
            .is_ok();
        let (ignore, git) = (has(".ignore"), has(".gitignore"));
        if !ignore && !git && !repository {
            return parent;
        }
        Some(Rc::new(Self {
            parent,
            ignore: ignore
                .then(|| read_rules(folder, ".ignore", path))
                .flatten(),
            git: git
                .then(|| read_rules(folder, ".gitignore", path))
                .flatten(),
            exclude: repository
                .then(|| read_rules(folder, ".git/info/exclude", path))
                .flatten(),
            repository,
        }))
    }

    /// Returns true if the rules exclude a path. The deepest rule that matches it decides.
    pub fn ignores(&self, path: &str, is_dir: bool) -> bool {
        let verdict = |rules: &Option<Gitignore>| match rules
            .as_ref()
            .map(|rules| rules.matched(path, is_dir))
        {
            Some(Match::Ignore(_)) => Some(true),
            Some(Match::Whitelist(_)) => Some(false),
            Some(Match::None) | None => None,
        };
        if let Some(ignored) = self.chain().find_map(|level| verdict(&level.ignore)) {
            return ignored;
        }
        for level in self.chain() {
            if let Some(ignored) = verdict(&level.git).or_else(|| verdict(&level.exclude)) {
                return ignored;
            }
            if level.repository {
                break;
            }
        }
        false
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.parent.as_deref())
    }
}

/// Reads the rules above the folder in which a search begins.
pub fn rules_above(root: &Folder, path: &str) -> Rules {
    let mut rules = None;
    if path.is_empty() {
        return rules;
    }
    let mut folder_path = String::new();
    for name in path.split('/') {
        let folder = root.folder(if folder_path.is_empty() {
            "."
        } else {
            &folder_path
        });
        if let Ok(folder) = folder
            && let Ok(entries) = folder.entries()
        {
            rules = Level::read(&folder, &folder_path, &entries, rules);
        }
        folder_path = join(&folder_path, name);
    }
    rules
}

/// Reads a rules file of the folder at `path`. Invalid lines are skipped, as in git.
fn read_rules(folder: &Folder, name: &str, path: &str) -> Option<Gitignore> {
    let Ok(Content::Whole(content)) = folder
        .file(name)
        .and_then(|file| Content::read(file, MAX_FILE_BYTES))
    else {
        return None;
    };
    let text = String::from_utf8_lossy(&content);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
