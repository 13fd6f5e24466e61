//! `add`, `commit` and `checkout`: the operations that change the repository.

use mimir_sdk::Code;
use mimir_sdk::prelude::*;

use crate::args::Args;
use crate::filters::{self, FilteredFile, PATHSPECS_FROM_STDIN, WorkTreeChanges};
use crate::log;
use crate::repository::Repository;
use crate::status;
use crate::tool::Report;

/// Reports the state of the working tree after a change, preceded by git's output.
fn report_after(repository: &Repository, output: &[u8]) -> Result<Worded<Report>> {
    let status = status::read(repository, &[])?;
    let output = String::from_utf8_lossy(output);
    let text = match output.trim() {
        "" => status.text(),
        output => format!("{output}\n{}", status.text()),
    };
    Ok(Json(Report {
        status: Some(status),
        ..Report::default()
    })
    .worded(text))
}

pub fn add(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    let paths = all_paths(args);
    if paths.is_empty() && args.options.is_empty() {
        return Err(Error::invalid_input(
            "name the files to stage, or `-A` for all",
        ));
    }
    let untracked = !args.has(&["-u", "--update"]);
    check_paths_exist(repository, &paths, untracked)?;
    let filtered = filters::filtered_for_staging(repository, &paths, untracked)?;
    filters::refuse_filtered(&filtered, "add", UNFILTERED_CONSEQUENCE)?;
    // Folders are replaced by the changed files in them: given a folder, git would look into each submodule in it.
    let changed = WorkTreeChanges::query(repository, &paths, untracked)?.unstaged;
    if changed.is_empty() {
        return report_after(repository, &[]);
    }
    let mut command = vec!["add"];
    command.extend(args.options.iter().map(String::as_str));
    command.extend(PATHSPECS_FROM_STDIN);
    let output = repository.run_with_stdin(&command, &filters::pathspecs(&changed))?;
    report_after(repository, &output)
}

/// Consequence of staging files without running their filter.
const UNFILTERED_CONSEQUENCE: &str = "they would be stored as they are";

/// Returns all paths of operations without revisions: they may be before or after `--`.
fn all_paths(args: &Args) -> Vec<String> {
    args.names.iter().chain(&args.paths).cloned().collect()
}

/// Fails unless each path names a file that git tracks or, with `untracked`, could track.
fn check_paths_exist(repository: &Repository, paths: &[String], untracked: bool) -> Result<()> {
    // Staging an empty folder is valid and does nothing.
    let is_whole_tree = |path: &&String| matches!(path.as_str(), "." | "./" | ":/");
    let paths: Vec<String> = paths
        .iter()
        .filter(|path| !is_whole_tree(path))
        .cloned()
        .collect();
    if paths.is_empty() {
        return Ok(());
    }
    let mut args = vec!["ls-files", "-z", "--error-unmatch", "--cached"];
    if untracked {
        args.extend(["--others", "--exclude-standard"]);
    }
    match repository.run(&args, &paths) {
        // Output over the limit means that the files exist.
        Err(error) if *error.code() == Code::LimitExceeded => Ok(()),
        Err(error) if untracked && *error.code() == Code::NotFound => {
            let message = error.message().lines().next().unwrap_or_default();
            Err(Error::not_found(format_args!(
                "{message}, nor any untracked file: the file does not exist, or .gitignore excludes it (`git add -f` with `exec` adds it)"
            )))
        }
        other => other.map(drop),
    }
}

pub fn commit(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    let amends = args.has(&["--amend"]);
    let keeps_message = amends && args.has(&["--no-edit"]);
    if !keeps_message && !args.has(&["-m", "--message"]) {
        return Err(Error::invalid_input(
            "a commit needs a message: pass `-m` and the message",
        ));
    }
    let paths = all_paths(args);
    let all = args.has(&["-a", "--all"]);
    if all && !paths.is_empty() {
        return Err(Error::invalid_input(
            "`-a` commits all changes of tracked files, so it takes no paths",
        ));
    }
    check_paths_exist(repository, &paths, false)?;
    let stages = all || !paths.is_empty();
    if stages {
        let filtered = filters::filtered_for_staging(repository, &paths, false)?;
        filters::refuse_filtered(&filtered, "commit", UNFILTERED_CONSEQUENCE)?;
    }
    let changed = WorkTreeChanges::query(repository, &paths, false)?;
    let has_changes = changed.staged || stages && !changed.unstaged.is_empty();
    // Git would report this as well, but only after looking into each submodule.
    if !has_changes && !amends && !args.has(&["--allow-empty"]) && !is_merging(repository)? {
        return Err(Error::invalid_input(format_args!(
            "nothing is staged to commit; `add` stages files, and `-a` commits all changes of tracked files\n{}",
            status::read(repository, &[])?.text()
        )));
    }
    let mut command = vec![
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--no-status",
    ];
    let options = args.options.iter().map(String::as_str);
    command.extend(options.filter(|option| !matches!(*option, "-a" | "--all")));
    if amends {
        // The amended commit may end up without changes, which git refuses by default.
        command.push("--allow-empty");
    }
    if all && !changed.unstaged.is_empty() {
        command.push("--include");
        command.extend(PATHSPECS_FROM_STDIN);
        repository.run_with_stdin(&command, &filters::pathspecs(&changed.unstaged))?;
    } else {
        repository.run(&command, &paths)?;
    }
    let stat = Args {
        options: vec!["--stat".to_owned()],
        ..Args::default()
    };
    log::show_commit(repository, "HEAD", &stat)
}

/// Returns true if a merge is waiting for its commit.
fn is_merging(repository: &Repository) -> Result<bool> {
    Ok(resolve_tree(repository, "MERGE_HEAD")?.is_some())
}

/// Returns the hash of the tree that a name resolves to. `None` if git does not know the name.
fn resolve_tree(repository: &Repository, name: &str) -> Result<Option<String>> {
    let tree = format!("{name}^{{tree}}");
    match repository.run(&["rev-parse", "--verify", &tree], &[]) {
        Ok(output) => Ok(Some(String::from_utf8_lossy(&output).trim().to_owned())),
        Err(error) if matches!(error.code(), Code::Execution | Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if a checkout may discard uncommitted changes.
pub fn may_discard(args: &Args) -> bool {
    !args.paths.is_empty() || args.has(&["-f", "--force", "--ours", "--theirs"])
}

pub fn checkout(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    if args.names.is_empty() && args.paths.is_empty() && !args.has(&["-b"]) {
        return Err(Error::invalid_input(
            "name a branch or a commit, or the files to restore after `--`",
        ));
    }
    let filtered = filtered_by_checkout(repository, args)?;
    let consequence = "they would be written as they are stored";
    filters::refuse_filtered(&filtered, "checkout", consequence)?;
    // Without a final `--`, git takes an unknown branch name for a path and restores that file.
    let names_revision = args.paths.is_empty() && !args.has(&["-b"]);
    // Without `--quiet`, git would run in each submodule to list local changes.
    let mut command = vec!["checkout", "--quiet", "--no-recurse-submodules"];
    command.extend(args.options_and_names());
    if names_revision {
        command.push("--");
    }
    let output = repository.run(&command, &args.paths)?;
    // Settings can depend on the branch, so the repository is opened again.
    report_after(&Repository::open()?, &output)
}

/// Returns the files with a filter that a checkout would write.
fn filtered_by_checkout(repository: &Repository, args: &Args) -> Result<Vec<FilteredFile>> {
    let forced = args.has(&["-f", "--force"]);
    let name = match args.names.first().map(String::as_str) {
        Some("-") => Some("@{-1}"),
        None if forced && args.paths.is_empty() => Some("HEAD"),
        name => name,
    };
    let Some(name) = name else {
        return if args.paths.is_empty() {
            // A new branch at the current commit.
            Ok(Vec::new())
        } else {
            filters::filtered_for_checkout(repository, &[], &args.paths, None)
        };
    };
    let trees = match resolve_tree(repository, name)? {
        Some(tree) => vec![tree],
        None => remote_branch_trees(repository, name)?,
    };
    let head = resolve_tree(repository, "HEAD")?;
    let mut filtered = Vec::new();
    for tree in &trees {
        let between = match &head {
            Some(head) if args.paths.is_empty() && !forced => {
                // Deleted files are not written.
                vec!["--diff-filter=d", head.as_str(), tree.as_str()]
            }
            _ => vec![tree.as_str()],
        };
        filtered.extend(filters::filtered_for_checkout(
            repository,
            &between,
            &args.paths,
            Some(tree),
        )?);
    }
    Ok(filtered)
}

/// Returns the trees of the remote branches with this name: if no local branch has the name, git may check out one of
/// them.
fn remote_branch_trees(repository: &Repository, name: &str) -> Result<Vec<String>> {
    let pattern = format!("refs/remotes/*/{name}");
    let args = ["for-each-ref", "--format=%(tree)", "--", &pattern];
    let output = repository.run(&args, &[])?;
    let output = String::from_utf8_lossy(&output);
    let trees = output.lines().filter(|command| !command.is_empty());
    Ok(trees.map(str::to_owned).collect())
}
