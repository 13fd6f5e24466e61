//! Runs git without running any program configured by the repository.
//!
//! Anyone with write access to a repository can make git run programs: through hooks, and through settings for pagers,
//! diffs, filters, signatures, file watchers and transports. All of these are switched off for each run. The names of
//! some settings, such as those for filters, are chosen by the repository, so they are looked up first; reading
//! settings runs no program.
//!
//! A submodule has its own settings, which are not looked up, so git never runs inside a submodule. No operation here
//! may query the changed files of a submodule (see [`filters`](crate::filters) and [`PLAIN`](crate::diff::PLAIN)).
//!
//! Git must not fetch either. It fetches missing objects of a partial clone on demand, with a program named by the
//! repository. So `GIT_NO_LAZY_FETCH` is set and the transports are switched off one by one, because the setting for a
//! single transport has precedence over the general one.

use std::time::Duration;

use mimir_sdk::Code;
use mimir_sdk::commands::Command;
use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::diff::Changes;

/// Settings that keep git from running other programs.
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

/// Settings that run programs and whose names contain a part that the repository chooses.
const PROGRAMS: [ProgramSetting; 9] = [
    ProgramSetting("filter.", ".clean", ".clean="),
    ProgramSetting("filter.", ".smudge", ".smudge="),
    ProgramSetting("filter.", ".process", ".process="),
    ProgramSetting("diff.", ".command", ".command="),
    ProgramSetting("diff.", ".textconv", ".textconv="),
    ProgramSetting("merge.", ".driver", ".driver=false"),
    ProgramSetting("protocol.", ".allow", ".allow=never"),
    // A hook defined in the settings is not in the hooks folder.
    ProgramSetting("hook.", ".command", ".enabled=false"),
    ProgramSetting("hook.", ".event", ".enabled=false"),
];

/// Prefix and suffix of a setting's name, and the suffix with the value of the setting that switches the program off.
struct ProgramSetting(&'static str, &'static str, &'static str);

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
    /// True for a partial clone, which may lack objects.
    partial: bool,
    /// Tracked files that tools may not read. In the sandbox, git sees them as unchanged.
    hidden: Vec<String>,
}

/// Setting that lists the hidden files, with one value for each file.
const HIDDEN: &str = "mimir.hidden";

/// Time limit of a run: enough for a large repository on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(50);

/// Maximum number of characters of git's output in a message.
const MAX_MESSAGE_CHARS: usize = 600;

impl Repository {
    /// Opens the repository of the workspace.
    pub fn open() -> Result<Self> {
        let mut repository = Self {
            settings: QUIET.map(str::to_owned).into(),
            partial: false,
            hidden: Vec::new(),
        };
        let names = repository.run(&["config", "--list", "--name-only", "-z"], &[])?;
        repository.settings.extend(disabling_settings(&names)?);
        repository.partial = is_partial(&names);
        let has = |setting: &str| {
            let mut names = names.split(|byte| *byte == 0);
            names.any(|name| name == setting.as_bytes())
        };
        if has(HIDDEN) {
            let output = repository.run(&["config", "-z", "--get-all", HIDDEN], &[])?;
            repository.hidden = split_at_nul(&output);
        }
        if has("core.worktree") {
            repository.check_work_tree()?;
        }
        Ok(repository)
    }

    /// Fails if a setting of the repository makes git work in another folder.
    fn check_work_tree(&self) -> Result<()> {
        let args = ["rev-parse", "--is-inside-work-tree", "--show-prefix"];
        let output = self.run(&args, &[])?;
        let output = String::from_utf8_lossy(&output);
        if output.trim() == "true" {
            return Ok(());
        }
        Err(Error::new(
            Code::PermissionDenied,
            "the repository's setting core.worktree makes git work in a folder other than the workspace; \
             remove it by hand: `git config --unset core.worktree`",
        ))
    }

    /// Returns the paths of the submodules. Git never runs inside a submodule, so changes in submodules are unknown.
    pub fn submodules(&self) -> Vec<String> {
        let args = [
            "config",
            "--file",
            ".gitmodules",
            "-z",
            "--get-regexp",
            "\\.path$",
        ];
        // Git fails if the file does not exist.
        let output = self.run(&args, &[]).unwrap_or_default();
        let paths = split_at_nul(&output).into_iter();
        paths
            .filter_map(|pair| Some(pair.split_once('\n')?.1.to_owned()))
            .collect()
    }

    /// Runs a subcommand and returns its stdout. Fails if the exit code is not 0. `paths` are never taken for options.
    pub fn run(&self, args: &[&str], paths: &[String]) -> Result<Vec<u8>> {
        let mut command = self.command(args);
        if !paths.is_empty() {
            command = command.arg("--").args(paths);
        }
        self.stdout_of(command)
    }

    /// Runs a subcommand as [`run`](Self::run) does, with data on stdin.
    pub fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Result<Vec<u8>> {
        self.stdout_of(self.command(args).stdin(stdin))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git").args(["--no-pager"]);
        for setting in &self.settings {
            command = command.args(["-c", setting]);
        }
        if self.partial {
            command = command.env(NO_FETCH.0, NO_FETCH.1);
        }
        command.args(args.iter().copied()).timeout(TIMEOUT)
    }

    /// Runs a command and returns its stdout. Fails if the exit code is not 0.
    fn stdout_of(&self, command: Command) -> Result<Vec<u8>> {
        let finished = command.run()?;
        let stderr = || String::from_utf8_lossy(&finished.stderr);
        match finished.exit_code {
            0 if finished.truncated => Err(Error::new(
                Code::LimitExceeded,
                "git's output exceeds the limit of a call; name paths or a smaller range",
            )),
            0 => Ok(finished.stdout),
            _ if self.partial && is_missing_object(&stderr()) => Err(Error::unavailable(
                "the repository is a partial clone and lacks an object that this needs, but this tool fetches nothing: \
                 run the same git command with `exec`, if commands have network access, or by hand",
            )),
            code => Err(failure(code, &stderr())),
        }
    }
}

/// Maximum number of unreadable files excluded from a comparison, each of which costs a run of git.
const MAX_HIDDEN: usize = 50;

impl Repository {
    /// Runs a comparison without the tracked files that tools may not read, such as a committed `.env`. Returns the
    /// output and the paths of the skipped files.
    pub fn compare(&self, args: &[&str], paths: &[String]) -> Result<(Vec<u8>, Vec<String>)> {
        let mut hidden = Vec::new();
        let mut wanted = paths.to_vec();
        loop {
            let error = match self.run(args, &wanted) {
                Ok(output) => return Ok((output, hidden)),
                Err(error) => error,
            };
            match unreadable_path(error.message()) {
                Some(path) if hidden.len() < MAX_HIDDEN && !hidden.contains(&path) => {
                    wanted.push(format!(":(top,exclude,literal){path}"));
                    hidden.push(path);
                }
                _ => return Err(error),
            }
        }
    }

    /// Returns the tracked files at or below these paths that tools may not read; without paths, all such files.
    pub fn hidden_files(&self, paths: &[String]) -> Vec<String> {
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

    /// Returns the changed files that tools may not read, whose lines are not shown.
    pub fn hidden_changes(&self, changes: &Changes) -> Vec<String> {
        let files = changes.files.iter().filter(|file| file.added.is_none());
        let files = files.map(|file| &file.path);
        files
            .filter(|path| self.hidden.contains(path))
            .cloned()
            .collect()
    }

    /// Returns the files of the working tree that git cannot compare because tools may not read them.
    pub fn find_unreadable(&self, paths: &[String]) -> Result<Vec<String>> {
        // This lists names without reading the files.
        let args = ["diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv"];
        Ok(self.compare(&args, paths)?.1)
    }
}

/// Extracts the file that git could not read from its error message.
fn unreadable_path(stderr: &str) -> Option<String> {
    let refused = stderr.contains("Permission denied");
    let mut lines = stderr.lines();
    let path = lines.find_map(|line| line.strip_prefix("fatal: cannot hash "))?;
    refused.then(|| path.trim_matches('"').to_owned())
}

/// Splits output of git at NUL bytes and drops empty fields.
fn split_at_nul(output: &[u8]) -> Vec<String> {
    let fields = output.split(|byte| *byte == 0);
    fields
        .filter(|field| !field.is_empty())
        .map(|field| String::from_utf8_lossy(field).into_owned())
        .collect()
}

/// Returns a note on submodules, whose files were not compared.
pub fn submodules_note(submodules: &[String]) -> String {
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

/// Returns a note on files left out of a comparison.
pub fn hidden_files_note(hidden: &[String]) -> String {
    match hidden {
        [] => String::new(),
        hidden => {
            let names: Vec<String> = hidden
                .iter()
                .map(|path| text::name(path).into_owned())
                .collect();
            format!(
                "\nnot compared, because tools may not read these files: {}",
                names.join(", ")
            )
        }
    }
}

/// Returns the settings that switch off all programs configured by settings with these names, separated by NUL. Fails
/// if a program cannot be switched off.
fn disabling_settings(names: &[u8]) -> Result<Vec<String>> {
    let mut settings = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(Error::new(
                Code::PermissionDenied,
                "the name of a setting of the repository is not UTF-8, so it cannot be switched off; remove it from .git/config",
            ));
        };
        let matching = PROGRAMS.iter().find(|ProgramSetting(prefix, suffix, _)| {
            name.starts_with(prefix)
                && name.ends_with(suffix)
                && name.len() >= prefix.len() + suffix.len()
        });
        let Some(ProgramSetting(prefix, suffix, disabled)) = matching else {
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
        let base = &name[..name.len() - suffix.len()];
        settings.push(format!("{base}{disabled}"));
        if *prefix == "filter." {
            settings.push(format!("{base}.required=false"));
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
fn is_missing_object(stderr: &str) -> bool {
    let signs = ["lazy fetching disabled", "' not allowed", "unable to read"];
    signs.iter().any(|sign| stderr.contains(sign))
}

/// Converts a failure of git to an error of the contract.
fn failure(exit_code: i32, stderr: &str) -> Error {
    let stderr = stderr.trim();
    let end = stderr
        .char_indices()
        .nth(MAX_MESSAGE_CHARS)
        .map_or(stderr.len(), |(at, _)| at);
    let stderr = &stderr[..end];
    let is = |part: &str| stderr.contains(part);
    let error_code = if is("not a git repository") {
        return no_repository_error(stderr);
    } else if is("did not match any file") || is("unknown revision") || is("not a commit") {
        Code::NotFound
    } else if is("already exists") {
        Code::AlreadyExists
    } else if is("Please tell me who you are") || is("unable to auto-detect email") {
        return Error::unavailable(
            "git has no author for the commit; set user.name and user.email with `git config --global`",
        );
    } else {
        Code::Execution
    };
    if stderr.is_empty() {
        Error::new(
            error_code,
            format!("git exited with code {exit_code} and no error message"),
        )
    } else {
        Error::new(error_code, stderr)
    }
}

/// Returns the error for a folder in which git finds no repository.
fn no_repository_error(stderr: &str) -> Error {
    // If the target of a `.git` file does not exist, git reports that it found no repository, and names the target.
    let target = stderr
        .split_once("not a git repository: ")
        .and_then(|(_, rest)| rest.lines().next());
    let Some(target) = target else {
        return Error::not_found("the workspace is not a git repository; `git init` creates one");
    };
    let target = text::name(target.trim());
    let mount_hint = match target.split_once("/.git/") {
        Some((folder, _)) => format!(
            ", or, if you trust that repository, make it visible to commands: `sandbox: {{bindMounts: [\"{folder}/.git:{folder}/.git:rw\"]}}` \
             in the settings"
        ),
        None => String::new(),
    };
    Error::unavailable(format_args!(
        "the workspace is a linked worktree or a submodule: its file .git points to `{target}`, which is outside of the workspace and \
         not visible to tools. Do not run `git init`: it would separate the folder from its repository. Open the folder \
         that contains the repository as the workspace{mount_hint}"
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
            disabling_settings(names).unwrap(),
            [
                "diff.a.b.textconv=",
                "filter.lfs.clean=",
                "filter.lfs.required=false",
                "hook.a.b.enabled=false",
                "merge.x.driver=false",
                "protocol.file.allow=never"
            ]
        );
        for unsupported in [
            &b"filter.a=b.clean\0"[..],
            b"filter.\xff.clean\0",
            b"diff.a\nb.command\0",
        ] {
            assert!(disabling_settings(unsupported).is_err());
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
        assert!(is_missing_object("fatal: transport 'file' not allowed"));
        assert!(!is_missing_object("fatal: bad revision 'x'"));
    }

    #[test]
    fn git_unreadable_file_is_named() {
        let stderr = "error: open(\".env\"): Permission denied\nfatal: cannot hash .env";
        assert_eq!(unreadable_path(stderr).as_deref(), Some(".env"));
        for other in [
            "fatal: cannot hash .env",
            "error: open(\"a\"): Permission denied",
            "",
        ] {
            assert_eq!(unreadable_path(other), None);
        }
    }

    #[test]
    fn git_failures_have_error_codes() {
        let code = |stderr: &str| failure(128, stderr).code().clone();
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
        assert!(failure(1, "").message().contains("no error message"));
    }
}
