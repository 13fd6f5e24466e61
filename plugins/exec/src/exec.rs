//! `exec`.

use std::time::Duration;

use mimir_sdk::commands::{Command, Finished};
use mimir_sdk::prelude::*;
use mimir_sdk::serde_json::Value;

use crate::report;

/// Runs a command in the workspace: a shell script in `command`, or a program in `command` with its arguments in
/// `args`, without a shell. Each simple command of a script is checked separately, so plain commands need fewer
/// approvals than complex ones. Commands run in a sandbox: they have no network unless a person granted it, and cannot
/// change anything outside of the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exec {
    /// Shell script (`cargo test 2>&1 | tail -20`), or the program if `args` is set.
    #[schemars(length(min = 1))]
    pub command: String,
    /// The arguments, exactly as the program gets them.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Directory to run in, relative to the workspace root. Default: the root.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Seconds after which the command and its child processes are killed. Default: 180; no limit in the background.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u32>,
    /// Run in the background: the result is a `job` for `exec_output`, `exec_status` and `exec_stop`. For servers and
    /// watchers.
    #[serde(default)]
    pub background: bool,
    /// Ports on which `web_fetch` may reach a background server, as `http://localhost:PORT/`. Commands of this session
    /// can reach all of its ports in any case.
    #[serde(default)]
    #[schemars(length(max = 16), inner(range(min = 1)))]
    pub ports: Vec<u16>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ran {
    /// Exit code; 128 plus the signal number if a signal ended it. Absent for a background job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Standard output, without terminal codes.
    pub stdout: String,
    /// Standard error, without terminal codes.
    pub stderr: String,
    /// True if the middle of either stream was left out.
    pub truncated: bool,
    /// Duration in milliseconds.
    pub duration: u64,
    /// Job number, for a background job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
}

/// Result of a command. In addition to the structured content, it sets the exit code of the output, which front-ends
/// read.
#[derive(Debug)]
pub struct Reported(Worded<Ran>);

impl IntoOutput for Reported {
    fn schema() -> Option<Value> {
        Worded::<Ran>::schema()
    }

    fn into_output(self) -> Result<Output> {
        let code = self.0.value.exit_code;
        let output = self.0.into_output()?;
        Ok(match code {
            Some(code) => output.exit_code(code),
            None => output,
        })
    }
}

/// Default time limit: long enough for a build, short enough to notice a build that hangs.
const TIMEOUT: Duration = Duration::from_secs(180);

impl Tool for Exec {
    type Output = Reported;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Run a command");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive().open_world();

    fn needs() -> Needs {
        Needs::none()
            .command("*", "to run the commands that the caller asks for")
            .write(".", "for the commands to work on")
    }

    fn run(self, _: &Context) -> Result<Self::Output> {
        if self.command.trim().is_empty() {
            return Err(Error::invalid_input(
                "the command is empty: expected a command line to run",
            ));
        }
        let background = self.background;
        if !background && !self.ports.is_empty() {
            return Err(Error::invalid_input(
                "`ports` is only allowed for a background server: add `background: true`, or leave out `ports`",
            ));
        }
        let timeout = self
            .timeout
            .map(|seconds| Duration::from_secs(seconds.into()));
        let mut command = match self.args {
            Some(args) => Command::new(self.command).args(args),
            None => Command::shell(self.command),
        };
        if let Some(workdir) = self.workdir {
            command = command.directory(workdir);
        }
        if background {
            if let Some(timeout) = timeout {
                command = command.timeout(timeout);
            }
            return Ok(Reported(report_started(command.start()?, &self.ports)));
        }
        let finished = command.timeout(timeout.unwrap_or(TIMEOUT)).run()?;
        Ok(Reported(report_finished(&finished)))
    }
}

fn report_started(job: u32, ports: &[u16]) -> Worded<Ran> {
    let mut text =
        format!("started as job {job}; `exec_output` shows its output, `exec_stop` ends it");
    for port in ports {
        text.push_str(&format!(
            "\n`web_fetch` and `browser_navigate` reach what listens on port {port} at http://localhost:{port}/"
        ));
    }
    Json(Ran {
        exit_code: None,
        stdout: String::new(),
        stderr: String::new(),
        truncated: false,
        duration: 0,
        job: Some(job),
    })
    .worded(text)
}

fn report_finished(finished: &Finished) -> Worded<Ran> {
    let [stdout, stderr] =
        [&finished.stdout, &finished.stderr].map(|bytes| report::render_as_terminal(bytes));
    let [stdout, stderr] =
        [&stdout, &stderr].map(|text| report::truncate(text, report::MAX_STREAM));
    let combined = report::render_as_terminal(&finished.combined);
    let mut text = report::truncate(&combined, report::MAX_TEXT).text;
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if finished.exit_code != 0 {
        report::push_line(&mut text, &format!("exit code {}", finished.exit_code));
    }
    if git_dir_is_missing(&stderr.text) {
        report::push_line(
            &mut text,
            "[the workspace is a linked worktree or a submodule whose repository is outside of it, so commands cannot \
             reach it. Do not run `git init`; the tool `git` explains what to do]",
        );
    }
    Json(Ran {
        exit_code: Some(finished.exit_code),
        truncated: finished.truncated || stdout.is_truncated || stderr.is_truncated,
        stdout: stdout.text,
        stderr: stderr.text,
        duration: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
        job: None,
    })
    .worded(text)
}

/// Returns true if git reports that a `.git` file points to a missing folder. Without any repository, git's message has
/// "(or any of the parent directories)" after "repository" instead of a path.
fn git_dir_is_missing(stderr: &str) -> bool {
    stderr
        .lines()
        .any(|line| line.starts_with("fatal: not a git repository: /"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(exit_code: i32, stdout: &str, stderr: &str) -> Finished {
        Finished {
            exit_code,
            stdout: stdout.into(),
            stderr: stderr.into(),
            combined: format!("{stdout}{stderr}").into(),
            truncated: false,
            duration: Duration::from_millis(7),
        }
    }

    #[test]
    fn exec_result_has_output_and_exit_code() {
        let good = report_finished(&finished(0, "\x1b[1mone\x1b[0m\n", ""));
        assert_eq!(
            (good.text.as_str(), good.value.stdout.as_str()),
            ("one\n", "one\n")
        );
        assert_eq!((good.value.exit_code, good.value.duration), (Some(0), 7));
        let bad = report_finished(&finished(101, "one", "two"));
        assert_eq!(bad.text, "onetwo\nexit code 101");
        assert_eq!(bad.value.stderr, "two");
        assert_eq!(report_finished(&finished(0, "", "")).text, "(no output)");
        let worktree = finished(
            128,
            "",
            "fatal: not a git repository: /a/.git/worktrees/w\n",
        );
        assert!(
            report_finished(&worktree)
                .text
                .contains("Do not run `git init`")
        );
        let nowhere = "fatal: not a git repository (or any of the parent directories): .git\n";
        assert!(
            !report_finished(&finished(128, "", nowhere))
                .text
                .contains("worktree")
        );
        let output = Reported(bad).into_output().unwrap();
        assert!(format!("{output:?}").contains("exit_code: Some(101)"));
    }

    #[test]
    fn exec_output_that_is_too_long_loses_its_middle() {
        let long = format!("first\n{}last\n", "line\n".repeat(100_000));
        let cut = report_finished(&finished(0, &long, ""));
        assert!(cut.value.truncated);
        for text in [&cut.text, &cut.value.stdout] {
            assert!(
                text.starts_with("first\n") && text.ends_with("last\n"),
                "{text}"
            );
            assert!(text.len() < 50_000);
        }
    }

    #[test]
    fn exec_ports_need_background_mode() {
        let exec = Exec {
            command: "true".into(),
            args: None,
            workdir: None,
            timeout: None,
            background: false,
            ports: vec![8123],
        };
        let error = exec.run(&Context::at("/")).unwrap_err();
        assert!(error.message().contains("background: true"), "{error}");
        assert!(
            report_started(1, &[8123])
                .text
                .contains("http://localhost:8123/")
        );
    }

    #[test]
    fn exec_rejects_an_empty_command() {
        for command in ["", " \n"] {
            let exec = Exec {
                command: command.into(),
                args: None,
                workdir: None,
                timeout: None,
                background: false,
                ports: Vec::new(),
            };
            let error = exec.run(&Context::at("/")).unwrap_err();
            assert!(error.message().contains("empty"), "{error}");
        }
    }
}
