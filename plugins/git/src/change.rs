//! `add`, `commit` and `checkout`: what changes the repository.

use mimir_sdk::Code;
use mimir_sdk::prelude::*;

use crate::log;
use crate::moved::{self, Changed, FROM_STDIN, Filtered};
use crate::repository::Repository;
use crate::status;
use crate::tool::Report;
use crate::words::Words;

/// The state of the tree after a change, after what git said of it.
fn after(repository: &Repository, said: &[u8]) -> Result<Worded<Report>> {
    let status = status::read(repository, &[])?;
    let said = String::from_utf8_lossy(said);
    let text = match said.trim() {
        "" => status.text(),
        said => format!("{said}\n{}", status.text()),
    };
    Ok(Json(Report {
        status: Some(status),
        ..Report::default()
    })
    .worded(text))
}

pub fn add(repository: &Repository, words: &Words) -> Result<Worded<Report>> {
    let paths = all_paths(words);
    if paths.is_empty() && words.options.is_empty() {
        return Err(Error::invalid_input(
            "name the files to stage, or `-A` for all",
        ));
    }
    let untracked = !words.has(&["-u", "--update"]);
    there(repository, &paths, untracked)?;
    let filtered = moved::taken(repository, &paths, untracked)?;
    moved::refuse(&filtered, "add", STORED)?;
    // By name, and no other: git looks into each submodule that the paths cover.
    let changed = Changed::of(repository, &paths, untracked)?.unstaged;
    if changed.is_empty() {
        return after(repository, &[]);
    }
    let mut all = vec!["add"];
    all.extend(words.options.iter().map(String::as_str));
    all.extend(FROM_STDIN);
    let said = repository.tell(&all, &moved::pathspecs(&changed))?;
    after(repository, &said)
}

/// What would become of a file without its filter.
const STORED: &str = "they would be stored as they are";

/// What follows the options is paths, on either side of `--`.
fn all_paths(words: &Words) -> Vec<String> {
    words.names.iter().chain(&words.paths).cloned().collect()
}

/// Whether each of the paths names a file that git knows, or could know.
fn there(repository: &Repository, paths: &[String], untracked: bool) -> Result<()> {
    // All of an empty folder is nothing, and no error.
    let whole = |path: &&String| matches!(path.as_str(), "." | "./" | ":/");
    let paths: Vec<String> = paths.iter().filter(|path| !whole(path)).cloned().collect();
    if paths.is_empty() {
        return Ok(());
    }
    let mut words = vec!["ls-files", "-z", "--error-unmatch", "--cached"];
    if untracked {
        words.extend(["--others", "--exclude-standard"]);
    }
    match repository.run(&words, &paths) {
        // There are many.
        Err(error) if *error.code() == Code::LimitExceeded => Ok(()),
        Err(error) if untracked && *error.code() == Code::NotFound => {
            let said = error.message().lines().next().unwrap_or_default();
            Err(Error::not_found(format_args!(
                "{said}, nor anything that it could: it is not there, or .gitignore leaves it out (`git add -f` with `exec`)"
            )))
        }
        other => other.map(drop),
    }
}

pub fn commit(repository: &Repository, words: &Words) -> Result<Worded<Report>> {
    let amends = words.has(&["--amend"]);
    let keeps = amends && words.has(&["--no-edit"]);
    if !keeps && !words.has(&["-m", "--message"]) {
        return Err(Error::invalid_input(
            "a commit wants a message: `-m`, and what it says",
        ));
    }
    let paths = all_paths(words);
    let all = words.has(&["-a", "--all"]);
    if all && !paths.is_empty() {
        return Err(Error::invalid_input(
            "`-a` takes all changes of known files, so no paths go with it",
        ));
    }
    there(repository, &paths, false)?;
    let takes = all || !paths.is_empty();
    if takes {
        let filtered = moved::taken(repository, &paths, false)?;
        moved::refuse(&filtered, "commit", STORED)?;
    }
    let changed = Changed::of(repository, &paths, false)?;
    let something = changed.staged || takes && !changed.unstaged.is_empty();
    // Git would say so itself, and look into each submodule for that.
    if !something && !amends && !words.has(&["--allow-empty"]) && !merges(repository)? {
        return Err(Error::invalid_input(format_args!(
            "there is nothing staged to commit; `add` stages, and `-a` takes all changes of known files\n{}",
            status::read(repository, &[])?.text()
        )));
    }
    let mut line = vec![
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--no-status",
    ];
    let options = words.options.iter().map(String::as_str);
    line.extend(options.filter(|option| !matches!(*option, "-a" | "--all")));
    if amends {
        // Where nothing is left of it: see above.
        line.push("--allow-empty");
    }
    if all && !changed.unstaged.is_empty() {
        line.push("--include");
        line.extend(FROM_STDIN);
        repository.tell(&line, &moved::pathspecs(&changed.unstaged))?;
    } else {
        repository.run(&line, &paths)?;
    }
    let plain = Words {
        options: vec!["--stat".to_owned()],
        ..Words::default()
    };
    log::shown(repository, "HEAD", &plain, "")
}

/// Whether a merge waits for its commit.
fn merges(repository: &Repository) -> Result<bool> {
    Ok(named(repository, "MERGE_HEAD")?.is_some())
}

/// The tree of what a name stands for, if git knows it.
fn named(repository: &Repository, name: &str) -> Result<Option<String>> {
    let tree = format!("{name}^{{tree}}");
    match repository.run(&["rev-parse", "--verify", &tree], &[]) {
        Ok(said) => Ok(Some(String::from_utf8_lossy(&said).trim().to_owned())),
        Err(error) if matches!(error.code(), Code::Execution | Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether changes that were not committed may be lost.
pub fn discards(words: &Words) -> bool {
    !words.paths.is_empty() || words.has(&["-f", "--force", "--ours", "--theirs"])
}

pub fn checkout(repository: &Repository, words: &Words) -> Result<Worded<Report>> {
    if words.names.is_empty() && words.paths.is_empty() && !words.has(&["-b"]) {
        return Err(Error::invalid_input(
            "name a branch or a commit, or the files to take back after `--`",
        ));
    }
    let filtered = filtered(repository, words)?;
    let without = "they would be written as they are stored";
    moved::refuse(&filtered, "checkout", without)?;
    // Without it git takes a name that is no branch for a path, and takes that back.
    let names_one = words.paths.is_empty() && !words.has(&["-b"]);
    // What it would say of changes here, it would ask each submodule for.
    let mut all = vec!["checkout", "--quiet", "--no-recurse-submodules"];
    all.extend(words.before_paths());
    if names_one {
        all.push("--");
    }
    let said = repository.run(&all, &words.paths)?;
    // Settings may be of a branch alone.
    after(&Repository::open()?, &said)
}

/// The files that a checkout would write, and a filter goes through.
fn filtered(repository: &Repository, words: &Words) -> Result<Vec<Filtered>> {
    let forced = words.has(&["-f", "--force"]);
    let name = match words.names.first().map(String::as_str) {
        Some("-") => Some("@{-1}"),
        None if forced && words.paths.is_empty() => Some("HEAD"),
        name => name,
    };
    let Some(name) = name else {
        return match words.paths.is_empty() {
            // A new branch of what is checked out.
            true => Ok(Vec::new()),
            false => moved::written(repository, &[], &words.paths, None),
        };
    };
    let trees = match named(repository, name)? {
        Some(tree) => vec![tree],
        None => of_remotes(repository, name)?,
    };
    let from = named(repository, "HEAD")?;
    let mut all = Vec::new();
    for tree in &trees {
        let between = match &from {
            Some(from) if words.paths.is_empty() && !forced => {
                // What is not there any more is not written.
                vec!["--diff-filter=d", from.as_str(), tree.as_str()]
            }
            _ => vec![tree.as_str()],
        };
        all.extend(moved::written(
            repository,
            &between,
            &words.paths,
            Some(tree),
        )?);
    }
    Ok(all)
}

/// What git may take for a name that it does not know: branches of remotes that are called so.
fn of_remotes(repository: &Repository, name: &str) -> Result<Vec<String>> {
    let pattern = format!("refs/remotes/*/{name}");
    let words = ["for-each-ref", "--format=%(tree)", "--", &pattern];
    let said = String::from_utf8_lossy(&repository.run(&words, &[])?).into_owned();
    let trees = said.lines().filter(|line| !line.is_empty());
    Ok(trees.map(str::to_owned).collect())
}
