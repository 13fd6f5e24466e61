//! `add`, `commit` and `checkout`: what changes the repository.

use mimir_sdk::prelude::*;

use crate::log;
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
    let mut paths = words.names.clone();
    paths.extend(words.paths.iter().cloned());
    if paths.is_empty() && words.options.is_empty() {
        return Err(Error::invalid_input(
            "name the files to stage, or `-A` for all",
        ));
    }
    let mut all = vec!["add"];
    all.extend(words.options.iter().map(String::as_str));
    let said = repository.run(&all, &paths)?;
    after(repository, &said)
}

pub fn commit(repository: &Repository, words: &Words) -> Result<Worded<Report>> {
    let keeps = words.has(&["--amend"]) && words.has(&["--no-edit"]);
    if !words.has(&["-m", "--message"]) && !keeps {
        return Err(Error::invalid_input(
            "a commit wants a message: `-m`, and what it says",
        ));
    }
    let mut paths = words.names.clone();
    paths.extend(words.paths.iter().cloned());
    let mut all = vec![
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--no-status",
    ];
    all.extend(words.options.iter().map(String::as_str));
    let committed = repository.run(&all, &paths);
    if let Err(error) = committed {
        // It says why on stdout, which is nothing that failed.
        let status = status::read(repository, &[])?;
        return match status.files.iter().any(|file| file.staged.is_some()) {
            true => Err(error),
            false => Err(Error::invalid_input(format_args!(
                "there is nothing staged to commit; `add` stages, and `-a` takes all changes of known files\n{}",
                status.text()
            ))),
        };
    }
    let plain = Words {
        options: vec!["--stat".to_owned()],
        ..Words::default()
    };
    log::shown(repository, "HEAD", &plain, "")
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
    // Without it git takes a name that is no branch for a path, and takes that back.
    let names_one = words.paths.is_empty() && !words.has(&["-b"]);
    let mut all = vec!["checkout", "--no-progress", "--no-recurse-submodules"];
    all.extend(words.before_paths());
    if names_one {
        all.push("--");
    }
    let said = repository.run(&all, &words.paths)?;
    after(repository, &said)
}
