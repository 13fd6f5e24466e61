//! `add`, `commit` and `checkout`: the operations that change the repository.

use mimir_sdk::Code;
use mimir_sdk::prelude::*;

use crate::log;
use crate::moved::{self, Changed, FROM_STDIN, Filtered};
use crate::repository::Repository;
use crate::status;
use crate::tool::Report;
use crate::words::Words;

/// The state of the tree after a change, preceded by git's output.
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
    // Only the named files are staged: given a folder, git would look into each submodule in it.
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

/// Consequence of adding files without their filter.
const STORED: &str = "they would be stored as they are";

/// All arguments after the options are paths, before or after `--`.
fn all_paths(words: &Words) -> Vec<String> {
    words.names.iter().chain(&words.paths).cloned().collect()
}

/// Fails unless each path names a file that git tracks or could track.
fn there(repository: &Repository, paths: &[String], untracked: bool) -> Result<()> {
    // Staging an empty folder is valid and does nothing.
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
        // Exceeding the output limit means that there are files.
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
            "a commit needs a message: pass `-m` and the message",
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
    // Git would report this too, but would look into each submodule first.
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
        // The amended commit may end up without changes, which git refuses by default.
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

/// Returns true if a merge is waiting for its commit.
fn merges(repository: &Repository) -> Result<bool> {
    Ok(named(repository, "MERGE_HEAD")?.is_some())
}

/// The tree that a name resolves to, if git knows the name.
fn named(repository: &Repository, name: &str) -> Result<Option<String>> {
    let tree = format!("{name}^{{tree}}");
    match repository.run(&["rev-parse", "--verify", &tree], &[]) {
        Ok(said) => Ok(Some(String::from_utf8_lossy(&said).trim().to_owned())),
        Err(error) if matches!(error.code(), Code::Execution | Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if uncommitted changes may be lost.
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
    // Without this option git takes an unknown branch name for a path and restores that.
    let names_one = words.paths.is_empty() && !words.has(&["-b"]);
    // To list local changes, git would run in each submodule.
    let mut all = vec!["checkout", "--quiet", "--no-recurse-submodules"];
    all.extend(words.before_paths());
    if names_one {
        all.push("--");
    }
    let said = repository.run(&all, &words.paths)?;
    // Settings can depend on the branch, so the repository is opened again.
    after(&Repository::open()?, &said)
}

/// The files with a filter that a checkout would write.
fn filtered(repository: &Repository, words: &Words) -> Result<Vec<Filtered>> {
    let forced = words.has(&["-f", "--force"]);
    let name = match words.names.first().map(String::as_str) {
        Some("-") => Some("@{-1}"),
        None if forced && words.paths.is_empty() => Some("HEAD"),
        name => name,
    };
    let Some(name) = name else {
        return match words.paths.is_empty() {
            // A new branch at the current commit.
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
                // Deleted files are not written.
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

/// Trees of the remote branches with this name, which git may check out for a name that it does not know.
fn of_remotes(repository: &Repository, name: &str) -> Result<Vec<String>> {
    let pattern = format!("refs/remotes/*/{name}");
    let words = ["for-each-ref", "--format=%(tree)", "--", &pattern];
    let said = String::from_utf8_lossy(&repository.run(&words, &[])?).into_owned();
    let trees = said.lines().filter(|line| !line.is_empty());
    Ok(trees.map(str::to_owned).collect())
}
