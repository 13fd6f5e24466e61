//! Rules of `.ignore` and `.gitignore` files, as `file_search` has them.

use std::io::{self, Read as _};
use std::sync::Arc;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::source_file::{SourceStamp, is_out_of_handles, open_folder};

/// Maximum size in bytes of a rules file: larger than any that a person writes.
const MAX_RULES_FILE: u64 = 1 << 20;

/// The rules of a folder, shared by all folders below that have no rules of their own.
pub(crate) type IgnoreRules = Option<Arc<IgnoreLevel>>;

/// The rules that a folder adds to those above it.
#[derive(Debug)]
pub(crate) struct IgnoreLevel {
    parent: IgnoreRules,
    /// `.ignore`, which has precedence over git's files.
    ignore: Option<Gitignore>,
    /// `.gitignore`.
    git: Option<Gitignore>,
    /// `.git/info/exclude`.
    exclude: Option<Gitignore>,
    /// True if a repository begins here, where git's rules from above end.
    repository: bool,
}

/// The states of the files with rules in a folder, by which a change is recognized.
pub(crate) type RulesStamp = [Option<SourceStamp>; 3];

/// Returns the states of the files with rules in a folder.
pub(crate) fn rules_stamp(folder: &Dir, repository: bool) -> RulesStamp {
    let stamp = |folder: &Dir, name: &str| {
        let metadata = folder.symlink_metadata(name).ok()?;
        metadata.is_file().then(|| SourceStamp::of(&metadata))
    };
    let exclude = || stamp(&open_folder(folder, ".git/info").ok()?, "exclude");
    [
        stamp(folder, ".ignore"),
        stamp(folder, ".gitignore"),
        if repository { exclude() } else { None },
    ]
}

impl IgnoreLevel {
    /// Reads the rules in a folder. Fails if too many files are open: without its rules, ignored files would be found.
    pub(crate) fn read(
        folder: &Dir,
        path: &str,
        repository: bool,
        parent: IgnoreRules,
    ) -> io::Result<Arc<Self>> {
        let exclude = || {
            let git_info = if_possible(open_folder(folder, ".git/info"))?;
            git_info.map_or(Ok(None), |folder| read_rules(&folder, "exclude", path))
        };
        Ok(Arc::new(Self {
            parent,
            ignore: read_rules(folder, ".ignore", path)?,
            git: read_rules(folder, ".gitignore", path)?,
            exclude: if repository { exclude()? } else { None },
            repository,
        }))
    }

    /// Returns true if the rules exclude a path. The deepest rule that matches it decides.
    pub(crate) fn ignores(&self, path: &str, is_dir: bool) -> bool {
        let verdict = |rules: &Option<Gitignore>| match rules.as_ref()?.matched(path, is_dir) {
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
            Match::None => None,
        };
        let chain = || std::iter::successors(Some(self), |level| level.parent.as_deref());
        if let Some(ignored) = chain().find_map(|level| verdict(&level.ignore)) {
            return ignored;
        }
        for level in chain() {
            if let Some(ignored) = verdict(&level.git).or_else(|| verdict(&level.exclude)) {
                return ignored;
            }
            if level.repository {
                break;
            }
        }
        false
    }
}

/// Returns `None` instead of an error, except if too many files are open.
fn if_possible<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_out_of_handles(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Reads a rules file of the folder at `path`. `None` without one. Invalid lines are skipped, as in git.
fn read_rules(folder: &Dir, name: &str, path: &str) -> io::Result<Option<Gitignore>> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let bytes = folder.open_with(name, &options).and_then(|file| {
        let mut bytes = Vec::new();
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        file.take(MAX_RULES_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let Some(bytes) = if_possible(bytes)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    Ok(builder.build().ok().filter(|rules| !rules.is_empty()))
}
