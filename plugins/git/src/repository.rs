//! Runs git such that no program of the repository runs with it.
//!
//! Anyone with write access to a repository can make git run programs: through hooks, and through settings for pagers,
//! diffs, filters, signatures, file watchers and transports. All of them are switched off for each run. Filters and
//! some others have names that the repository chooses, so they are looked up first; reading settings runs no program.
//!
//! A submodule has its own settings, which are not looked up, so git never runs inside one. No operation here may
//! query the changed files of a submodule (see [`moved`](crate::moved) and [`PLAIN`](crate::diff::PLAIN)).
//!
//! Git must not fetch either. It fetches missing objects of a partial clone on demand, with a program that the
//! repository names. So the transports are switched off one by one, since each has precedence over the general rule,
//! and `GIT_NO_LAZY_FETCH` is set.

use std::time::Duration;

use mimir_sdk::Code;
use mimir_sdk::commands::Command;
use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::diff::Changes;

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

/// Settings that name programs and have a part that the repository chooses: suffix, and how to switch each off.
const PROGRAMS: [Program; 9] = [
    Program("filter.", ".clean", ".clean="),
    Program("filter.", ".smudge", ".smudge="),
    Program("filter.", ".process", ".process="),
    Program("diff.", ".command", ".command="),
    Program("diff.", ".textconv", ".textconv="),
    Program("merge.", ".driver", ".driver=false"),
    Program("protocol.", ".allow", ".allow=never"),
    // A hook defined in the settings is not in the hooks folder.
    Program("hook.", ".command", ".enabled=false"),
    Program("hook.", ".event", ".enabled=false"),
];

/// Prefix and suffix of a setting's name, then the suffix and value of the setting that switches it off.
struct Program(&'static str, &'static str, &'static str);

/// Prefixes and suffixes of settings that mark a partial clone, from which git may fetch missing objects.
const PARTIAL: [(&str, &str); 3] = [
    ("extensions.", "partialclone"),
    ("remote.", ".promisor"),
    ("remote.", ".partialclonefilter"),
];

/// Environment variable that prevents fetching.
const NO_FETCH: (&str, &str) = ("GIT_NO_LAZY_FETCH", "1");

/// A repository, with the settings under which git runs in it.
#[derive(Debug)]
pub struct Repository {
    settings: Vec<String>,
    /// True for a partial clone.
    partial: bool,
    /// Tracked files that no tool may read. In the sandbox git sees an unchanged file in their place.
    hidden: Vec<String>,
}

/// Setting that lists these files, one each.
const HIDDEN: &str = "mimir.hidden";

/// Time limit of a run: enough for a large repository on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(50);

/// Maximum number of characters of git's output in a message.
const MAX_WORDS: usize = 600;

impl Repository {
    /// Opens the repository of the workspace.
    pub fn open() -> Result<Self> {
        let mut all = Self {
            settings: QUIET.map(str::to_owned).into(),
            partial: false,
            hidden: Vec::new(),
        };
        let names = all.run(&["config", "--list", "--name-only", "-z"], &[])?;
        all.settings.extend(switched_off(&names)?);
        all.partial = is_partial(&names);
        let has = |wanted: &str| {
            let mut names = names.split(|byte| *byte == 0);
            names.any(|name| name == wanted.as_bytes())
        };
        if has(HIDDEN) {
            let said = all.run(&["config", "-z", "--get-all", HIDDEN], &[])?;
            all.hidden = texts(&said);
        }
        if has("core.worktree") {
            all.works_here()?;
        }
        Ok(all)
    }

    /// Refuses a repository whose settings make git work in another folder.
    fn works_here(&self) -> Result<()> {
        let words = ["rev-parse", "--is-inside-work-tree", "--show-prefix"];
        let said = self.run(&words, &[])?;
        let said = String::from_utf8_lossy(&said);
        match said.trim() == "true" {
            true => Ok(()),
            false => Err(Error::new(
                Code::PermissionDenied,
                "the setting core.worktree of the repository has git work in another folder than the workspace; \
                 remove it by hand: `git config --unset core.worktree`",
            )),
        }
    }

    /// Paths of the submodules. Git never runs inside one, so changes in them are unknown.
    pub fn submodules(&self) -> Vec<String> {
        let words = [
            "config",
            "--file",
            ".gitmodules",
            "-z",
            "--get-regexp",
            "\\.path$",
        ];
        // Git fails if the file does not exist.
        let said = self.run(&words, &[]).unwrap_or_default();
        let paths = texts(&said).into_iter();
        paths
            .filter_map(|pair| Some(pair.split_once('\n')?.1.to_owned()))
            .collect()
    }

    /// Runs a subcommand that must succeed and returns its stdout. `paths` are never taken for options.
    pub fn run(&self, words: &[&str], paths: &[String]) -> Result<Vec<u8>> {
        let mut command = self.command(words);
        if !paths.is_empty() {
            command = command.arg("--").args(paths);
        }
        self.said(command)
    }

    /// Runs a subcommand as [`run`](Self::run) does, with data on stdin.
    pub fn tell(&self, words: &[&str], stdin: &[u8]) -> Result<Vec<u8>> {
        self.said(self.command(words).stdin(stdin))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("git").args(["--no-pager"]);
        for setting in &self.settings {
            command = command.args(["-c", setting]);
        }
        if self.partial {
            command = command.env(NO_FETCH.0, NO_FETCH.1);
        }
        command.args(words.iter().copied()).timeout(TIMEOUT)
    }

    /// The stdout of a command that must succeed.
    fn said(&self, command: Command) -> Result<Vec<u8>> {
        let finished = command.run()?;
        let said = || String::from_utf8_lossy(&finished.stderr);
        match finished.exit_code {
            0 if finished.truncated => Err(Error::new(
                Code::LimitExceeded,
                "git wrote more than a call may hold; name paths or a smaller range",
            )),
            0 => Ok(finished.stdout),
            _ if self.partial && is_left_out(&said()) => Err(Error::unavailable(
                "the repository is a partial clone, and what this needs has not been fetched; this tool fetches nothing: \
                 run the same git command with `exec`, if commands have network access, or by hand",
            )),
            code => Err(failure(code, &said())),
        }
    }
}

/// Maximum number of files that a comparison excludes one by one: each costs a run of git.
const MAX_HIDDEN: usize = 50;

impl Repository {
    /// Runs a comparison that skips tracked files that no tool may read, such as a committed `.env`. Returns the
    /// output without them, and their paths.
    pub fn compare(&self, words: &[&str], paths: &[String]) -> Result<(Vec<u8>, Vec<String>)> {
        let mut hidden = Vec::new();
        let mut wanted = paths.to_vec();
        loop {
            let error = match self.run(words, &wanted) {
                Ok(output) => return Ok((output, hidden)),
                Err(error) => error,
            };
            match unread(error.message()) {
                Some(path) if hidden.len() < MAX_HIDDEN && !hidden.contains(&path) => {
                    wanted.push(format!(":(top,exclude,literal){path}"));
                    hidden.push(path);
                }
                _ => return Err(error),
            }
        }
    }

    /// The tracked files among these paths that no tool may read. Without paths, all of them.
    pub fn unread(&self, paths: &[String]) -> Vec<String> {
        let is_in = |file: &&String| {
            let mut paths = paths.iter().map(|path| path.trim_end_matches('/'));
            paths.any(|path| {
                let rest = file.strip_prefix(path);
                path == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let files = self.hidden.iter();
        let files = files.filter(|file| paths.is_empty() || is_in(file));
        files.cloned().collect()
    }

    /// The changed files that no tool may read, and whose lines are not shown.
    pub fn unread_in(&self, changes: &Changes) -> Vec<String> {
        let files = changes.files.iter().filter(|file| file.added.is_none());
        let files = files.map(|file| &file.path);
        files
            .filter(|path| self.hidden.contains(path))
            .cloned()
            .collect()
    }

    /// The files of the working tree that git cannot compare, since no tool may read them.
    pub fn hidden(&self, paths: &[String]) -> Result<Vec<String>> {
        // This lists names without reading the files.
        let words = ["diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv"];
        Ok(self.compare(&words, paths)?.1)
    }
}

/// The file that git could not read, from its error message.
fn unread(said: &str) -> Option<String> {
    let refused = said.contains("Permission denied");
    let mut lines = said.lines();
    let path = lines.find_map(|line| line.strip_prefix("fatal: cannot hash "))?;
    refused.then(|| path.trim_matches('"').to_owned())
}

/// Splits output of git at zero bytes.
fn texts(said: &[u8]) -> Vec<String> {
    let all = said.split(|byte| *byte == 0).filter(|one| !one.is_empty());
    all.map(|one| String::from_utf8_lossy(one).into_owned())
        .collect()
}

/// Note on submodules, whose files were not compared.
pub fn not_entered(submodules: &[String]) -> String {
    let Some(first) = submodules.first() else {
        return String::new();
    };
    let names: Vec<_> = submodules.iter().map(|path| text::name(path)).collect();
    format!(
        "\nchanged files in submodules are not shown ({}): `git -C {} status` with `exec` shows them",
        names.join(", "),
        text::name(first),
    )
}

/// Note on files left out of a comparison.
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

/// Settings that switch off every configured program among these names.
fn switched_off(names: &[u8]) -> Result<Vec<String>> {
    let mut settings = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(Error::new(
                Code::PermissionDenied,
                "the name of a setting of the repository is not UTF-8, so it cannot be switched off; remove it from .git/config",
            ));
        };
        let matching = PROGRAMS.iter().find(|Program(begin, end, _)| {
            name.starts_with(begin) && name.ends_with(end) && name.len() >= begin.len() + end.len()
        });
        let Some(Program(begin, end, off)) = matching else {
            continue;
        };
        // `-c` ends the name at the first `=`, so a name that contains one could not be switched off.
        if name.contains(['=', '\n']) {
            return Err(Error::new(
                Code::PermissionDenied,
                format!(
                    "the setting `{}` of the repository runs a program and cannot be switched off; remove it from .git/config",
                    text::brief(name)
                ),
            ));
        }
        let chosen = &name[..name.len() - end.len()];
        settings.push(format!("{chosen}{off}"));
        if *begin == "filter." {
            settings.push(format!("{chosen}.required=false"));
        }
    }
    settings.sort();
    settings.dedup();
    Ok(settings)
}

/// Returns true if these setting names belong to a partial clone.
fn is_partial(names: &[u8]) -> bool {
    names.split(|byte| *byte == 0).any(|name| {
        let name = name.to_ascii_lowercase();
        let is = |(begin, end): &(&str, &str)| {
            name.starts_with(begin.as_bytes()) && name.ends_with(end.as_bytes())
        };
        PARTIAL.iter().any(is)
    })
}

/// Returns true if git reports a missing object that a partial clone may leave out.
fn is_left_out(said: &str) -> bool {
    let signs = ["lazy fetching disabled", "' not allowed", "unable to read"];
    signs.iter().any(|sign| said.contains(sign))
}

/// Converts a failure of git to an error of the contract.
fn failure(code: i32, said: &str) -> Error {
    let said = said.trim();
    let end = said
        .char_indices()
        .nth(MAX_WORDS)
        .map_or(said.len(), |(at, _)| at);
    let said = &said[..end];
    let is = |words: &str| said.contains(words);
    let kind = if is("not a git repository") {
        return nowhere(said);
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

/// Error for a folder in which git finds no repository.
fn nowhere(said: &str) -> Error {
    // A `.git` file that points elsewhere counts as not found, and git reports its target.
    let led = said
        .split_once("not a git repository: ")
        .and_then(|(_, to)| to.lines().next());
    let Some(to) = led else {
        return Error::not_found("the workspace is not a git repository; `git init` makes one");
    };
    let to = text::name(to.trim());
    let mount = match to.split_once("/.git/") {
        Some((folder, _)) => format!(
            ", or, if that repository is yours, show it to commands: `sandbox: {{bindMounts: [\"{folder}/.git:{folder}/.git:rw\"]}}` \
             in the settings"
        ),
        None => String::new(),
    };
    Error::unavailable(format_args!(
        "the workspace is a linked worktree or a submodule: its file .git leads to `{to}`, which is outside of the workspace and \
         not there for tools. Do not run `git init`: it would separate the folder from its repository. Open the workspace \
         at the folder that has the repository in it{mount}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_programs_configured_by_the_repository_are_disabled() {
        let names = b"core.bare\0filter.lfs.clean\0filter.lfs.required\0diff.a.b.textconv\0merge.x.driver\0filter.clean\0\
            protocol.file.allow\0hook.a.b.command\0hook.a.b.event\0protocol.allow\0";
        assert_eq!(
            switched_off(names).unwrap(),
            [
                "diff.a.b.textconv=",
                "filter.lfs.clean=",
                "filter.lfs.required=false",
                "hook.a.b.enabled=false",
                "merge.x.driver=false",
                "protocol.file.allow=never"
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
    fn git_partial_clone_is_detected_by_its_settings() {
        for name in [
            "extensions.partialclone",
            "remote.a.b.promisor",
            "remote.origin.partialCloneFilter",
        ] {
            assert!(
                is_partial(format!("core.bare\0{name}\0").as_bytes()),
                "{name}"
            );
        }
        assert!(!is_partial(b"core.bare\0remote.origin.url\0"));
        assert!(is_left_out("fatal: transport 'file' not allowed"));
        assert!(!is_left_out("fatal: bad revision 'x'"));
    }

    #[test]
    fn git_unreadable_file_is_named() {
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
    fn git_failures_have_error_codes() {
        let code = |said: &str| failure(128, said).code().clone();
        assert_eq!(
            code("fatal: not a git repository (or any of …): .git"),
            Code::NotFound
        );
        let linked = failure(128, "fatal: not a git repository: /a/main/.git/worktrees/w");
        assert_eq!(*linked.code(), Code::Unavailable);
        for part in ["a linked worktree", "[\"/a/main/.git:/a/main/.git:rw\"]"] {
            assert!(linked.message().contains(part), "{linked}");
        }
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
