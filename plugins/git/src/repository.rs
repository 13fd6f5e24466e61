//! Runs git so that nothing which the repository brings along runs with it.
//!
//! Whoever can write to a repository can have git run programs: by hooks, and by settings for pagers, diffs, filters,
//! signatures, file watchers and transports. All of them are switched off for each run. Filters and the like have
//! names of the repository's choosing, so they are looked up first; reading settings runs nothing.

use std::time::Duration;

use mimir_sdk::Code;
use mimir_sdk::commands::{Command, Finished};
use mimir_sdk::prelude::*;
use mimir_sdk::text;

/// Settings that keep git from running other programs. Each only switches something off.
const QUIET: [&str; 17] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "credential.helper=",
    "diff.external=",
    "log.showSignature=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "color.ui=false",
];

/// The ends of names of settings that are programs, after a part that is anybody's choice, and what switches each off.
const PROGRAMS: [(&str, &str, &str); 6] = [
    ("filter.", ".clean", ""),
    ("filter.", ".smudge", ""),
    ("filter.", ".process", ""),
    ("diff.", ".command", ""),
    ("diff.", ".textconv", ""),
    ("merge.", ".driver", "false"),
];

/// A repository, with the settings under which git runs in it.
#[derive(Debug)]
pub struct Repository {
    settings: Vec<String>,
}

/// Enough for a large repository on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(50);

/// Most of git's own words in a message, in characters.
const WORDS_MAX: usize = 600;

impl Repository {
    /// The repository of the workspace.
    pub fn open() -> Result<Self> {
        let quiet: Vec<String> = QUIET.map(str::to_owned).into();
        let listed = git(&quiet, &["config", "--list", "--name-only", "-z"], &[])?;
        let mut settings = quiet;
        settings.extend(switched_off(&listed.stdout)?);
        Ok(Self { settings })
    }

    /// Runs a subcommand that must succeed, and gives what it wrote to stdout. What follows `paths` is taken for
    /// paths whatever it looks like.
    pub fn run(&self, words: &[&str], paths: &[String]) -> Result<Vec<u8>> {
        let finished = git(&self.settings, words, paths)?;
        match finished.truncated {
            true => Err(Error::new(
                Code::LimitExceeded,
                "git wrote more than a call may hold; name paths or a smaller range",
            )),
            false => Ok(finished.stdout),
        }
    }
}

/// Most files that a comparison leaves out one after the other: each costs a run of git.
const HIDDEN_MAX: usize = 50;

impl Repository {
    /// The same for a comparison with files that no tool may read, as `.env` where somebody has committed it: what it
    /// comes to without them, and which they are.
    pub fn compare(&self, words: &[&str], paths: &[String]) -> Result<(Vec<u8>, Vec<String>)> {
        let mut hidden = Vec::new();
        let mut wanted = paths.to_vec();
        loop {
            let error = match self.run(words, &wanted) {
                Ok(output) => return Ok((output, hidden)),
                Err(error) => error,
            };
            match unread(error.message()) {
                Some(path) if hidden.len() < HIDDEN_MAX && !hidden.contains(&path) => {
                    wanted.push(format!(":(top,exclude,literal){path}"));
                    hidden.push(path);
                }
                _ => return Err(error),
            }
        }
    }

    /// The files of the working tree that git cannot compare, since no tool may read them.
    pub fn hidden(&self, paths: &[String]) -> Result<Vec<String>> {
        // Names alone are told without a look into the files.
        let words = ["diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv"];
        Ok(self.compare(&words, paths)?.1)
    }
}

/// The file that git has found no way to read, in what it says.
fn unread(said: &str) -> Option<String> {
    let refused = said.contains("Permission denied");
    let mut lines = said.lines();
    let path = lines.find_map(|line| line.strip_prefix("fatal: cannot hash "))?;
    refused.then(|| path.trim_matches('"').to_owned())
}

/// The note on what a comparison leaves out.
pub fn left_out(hidden: &[String]) -> String {
    match hidden {
        [] => String::new(),
        hidden => {
            let names: Vec<String> = hidden
                .iter()
                .map(|path| text::name(path).into_owned())
                .collect();
            format!(
                "\nnot compared, for no tool may read it: {}",
                names.join(", ")
            )
        }
    }
}

/// Settings that switch off what the names of others say is a program.
fn switched_off(names: &[u8]) -> Result<Vec<String>> {
    let mut settings = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(Error::new(
                Code::PermissionDenied,
                "a setting of the repository has a name that is no UTF-8, so it cannot be switched off; look at .git/config",
            ));
        };
        let off = PROGRAMS.iter().find(|(begin, end, _)| {
            name.starts_with(begin) && name.ends_with(end) && name.len() >= begin.len() + end.len()
        });
        let Some((begin, end, off)) = off else {
            continue;
        };
        // `-c` takes the name up to the first `=`: such a one would stay in force.
        if name.contains(['=', '\n']) {
            return Err(Error::new(
                Code::PermissionDenied,
                format!(
                    "the setting `{}` of the repository runs a program and cannot be switched off; remove it from .git/config",
                    text::brief(name)
                ),
            ));
        }
        settings.push(format!("{name}={off}"));
        if *begin == "filter." {
            let driver = &name[..name.len() - end.len()];
            settings.push(format!("{driver}.required=false"));
        }
    }
    settings.sort();
    settings.dedup();
    Ok(settings)
}

fn git(settings: &[String], words: &[&str], paths: &[String]) -> Result<Finished> {
    let mut command = Command::new("git").args(["--no-pager"]);
    for setting in settings {
        command = command.args(["-c", setting]);
    }
    command = command.args(words.iter().copied());
    if !paths.is_empty() {
        command = command.arg("--").args(paths);
    }
    let finished = command.timeout(TIMEOUT).run()?;
    match finished.exit_code {
        0 => Ok(finished),
        code => Err(failure(code, &String::from_utf8_lossy(&finished.stderr))),
    }
}

/// What git says when it fails, as an error of the contract.
fn failure(code: i32, said: &str) -> Error {
    let said = said.trim();
    let end = said
        .char_indices()
        .nth(WORDS_MAX)
        .map_or(said.len(), |(at, _)| at);
    let said = &said[..end];
    let is = |words: &str| said.contains(words);
    let kind = if is("not a git repository") {
        return Error::not_found("the workspace is not a git repository; `git init` makes one");
    } else if is("did not match any file") || is("unknown revision") || is("not a commit") {
        Code::NotFound
    } else if is("already exists") {
        Code::AlreadyExists
    } else if is("Please tell me who you are") || is("unable to auto-detect email") {
        return Error::unavailable(
            "git does not know whose commit this is; set user.name and user.email with `git config --global`",
        );
    } else {
        Code::Execution
    };
    match said.is_empty() {
        true => Error::new(kind, format!("git ended with {code} and said nothing")),
        false => Error::new(kind, said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_repository_calls_a_program_is_switched_off() {
        let names = b"core.bare\0filter.lfs.clean\0filter.lfs.required\0diff.a.b.textconv\0merge.x.driver\0filter.clean\0";
        assert_eq!(
            switched_off(names).unwrap(),
            [
                "diff.a.b.textconv=",
                "filter.lfs.clean=",
                "filter.lfs.required=false",
                "merge.x.driver=false"
            ]
        );
        for odd in [
            &b"filter.a=b.clean\0"[..],
            b"filter.\xff.clean\0",
            b"diff.a\nb.command\0",
        ] {
            assert!(switched_off(odd).is_err());
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let said = "error: open(\".env\"): Permission denied\nfatal: cannot hash .env";
        assert_eq!(unread(said).as_deref(), Some(".env"));
        for other in [
            "fatal: cannot hash .env",
            "error: open(\"a\"): Permission denied",
            "",
        ] {
            assert_eq!(unread(other), None);
        }
    }

    #[test]
    fn failures_have_codes() {
        let code = |said: &str| failure(128, said).code().clone();
        assert_eq!(
            code("fatal: not a git repository (or any of …)"),
            Code::NotFound
        );
        assert_eq!(
            code("error: pathspec 'x' did not match any file(s)"),
            Code::NotFound
        );
        assert_eq!(
            code("fatal: a branch named 'x' already exists"),
            Code::AlreadyExists
        );
        assert_eq!(code("*** Please tell me who you are."), Code::Unavailable);
        assert_eq!(code("fatal: out of luck"), Code::Execution);
        assert!(failure(1, "").message().contains("said nothing"));
    }
}
