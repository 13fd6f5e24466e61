//! Programs on the host, each run through the command policy and its sandbox.

use std::time::Duration;

#[cfg(target_family = "wasm")]
use crate::bindings::mimir::tool::commands as wit;
use crate::error::Result;

/// A program with its arguments, or a script for a shell.
#[derive(Debug, Clone)]
#[must_use]
pub struct Command {
    kind: CommandKind,
    directory: Option<String>,
    environment: Vec<(String, String)>,
    stdin: Vec<u8>,
    timeout: Option<Duration>,
}

#[derive(Debug, Clone)]
enum CommandKind {
    Program(String, Vec<String>),
    Script(String),
}

/// Result of a program.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; 128 plus the signal number if a signal ended the program.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Both streams in the order of arrival.
    pub combined: Vec<u8>,
    /// True if a stream exceeded the output limit, in which case the middle of that stream is missing.
    pub truncated: bool,
    /// Run time.
    pub duration: Duration,
}

/// A background command, which outlives the call that started it and ends with the session at the latest.
#[derive(Debug, Clone)]
pub struct Job {
    /// Number of the job within the session.
    pub id: u32,
    /// The command as requested.
    pub command: String,
    /// Exit code, once the command has ended.
    pub exit_code: Option<i32>,
    /// Run time so far, or the total once the command has ended.
    pub duration: Duration,
}

/// Output of a job.
#[derive(Debug, Clone)]
pub struct JobOutput {
    /// Both streams in the order of arrival.
    pub data: Vec<u8>,
    /// Byte offset of the next chunk.
    pub next: u64,
    /// Number of bytes before this chunk that are no longer stored.
    pub missing: u64,
}

impl Command {
    /// Creates a command for a program, which runs without a shell.
    pub fn new(program: impl Into<String>) -> Self {
        Self::of(CommandKind::Program(program.into(), Vec::new()))
    }

    /// Creates a command for a shell script. The host parses the script and checks each simple command in it.
    /// [`env`](Self::env) and [`stdin`](Self::stdin) have no effect on a script, which can set both itself.
    pub fn shell(script: impl Into<String>) -> Self {
        Self::of(CommandKind::Script(script.into()))
    }

    fn of(kind: CommandKind) -> Self {
        Self {
            kind,
            directory: None,
            environment: Vec::new(),
            stdin: Vec::new(),
            timeout: None,
        }
    }

    /// Adds an argument. Has no effect on a script.
    pub fn arg(self, argument: impl Into<String>) -> Self {
        self.args([argument])
    }

    /// Adds arguments. Has no effect on a script.
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        if let CommandKind::Program(_, program_arguments) = &mut self.kind {
            program_arguments.extend(arguments.into_iter().map(Into::into));
        }
        self
    }

    /// Sets the working directory, relative to the workspace root.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Adds an environment variable to the minimal environment that every program gets.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the data for stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets the time limit, after which the command is killed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs the command and waits for its end. A nonzero exit code is not an error.
    pub fn run(self) -> Result<Finished> {
        #[cfg(target_family = "wasm")]
        {
            let finished = match self.into_wit() {
                WitCommand::Program(command) => wit::run(&command),
                WitCommand::Script(script, directory, timeout) => {
                    wit::run_shell(&script, directory.as_deref(), timeout)
                }
            }?;
            Ok(Finished {
                exit_code: finished.exit_code,
                stdout: finished.stdout,
                stderr: finished.stderr,
                combined: finished.combined,
                truncated: finished.truncated,
                duration: Duration::from_millis(finished.duration_ms),
            })
        }
        #[cfg(not(target_family = "wasm"))]
        Err(self.unavailable())
    }

    /// Starts the command in the background and returns the number of the job. The time limit applies to the job.
    pub fn start(self) -> Result<u32> {
        #[cfg(target_family = "wasm")]
        {
            Ok(match self.into_wit() {
                WitCommand::Program(command) => wit::start(&command),
                WitCommand::Script(script, directory, timeout) => {
                    wit::start_shell(&script, directory.as_deref(), timeout)
                }
            }?)
        }
        #[cfg(not(target_family = "wasm"))]
        Err(self.unavailable())
    }

    #[cfg(target_family = "wasm")]
    fn into_wit(self) -> WitCommand {
        let timeout_ms = self.timeout.map(super::millis);
        match self.kind {
            CommandKind::Script(script) => WitCommand::Script(script, self.directory, timeout_ms),
            CommandKind::Program(program, arguments) => WitCommand::Program(wit::Command {
                program,
                arguments,
                directory: self.directory,
                environment: self.environment,
                stdin: self.stdin,
                timeout_ms,
            }),
        }
    }

    #[cfg(not(target_family = "wasm"))]
    fn unavailable(&self) -> crate::error::Error {
        match &self.kind {
            CommandKind::Program(program, _) => super::unavailable(program),
            CommandKind::Script(script) => {
                super::unavailable(&format!("`{}`", crate::text::brief(script)))
            }
        }
    }
}

#[cfg(target_family = "wasm")]
enum WitCommand {
    Program(wit::Command),
    Script(String, Option<String>, Option<u64>),
}

#[cfg(target_family = "wasm")]
impl From<wit::Job> for Job {
    fn from(job: wit::Job) -> Self {
        Self {
            id: job.id,
            command: job.command,
            exit_code: job.exit_code,
            duration: Duration::from_millis(job.duration_ms),
        }
    }
}

/// Lists the jobs of this session.
pub fn jobs() -> Result<Vec<Job>> {
    #[cfg(target_family = "wasm")]
    return Ok(wit::jobs()?.into_iter().map(Job::from).collect());
    #[cfg(not(target_family = "wasm"))]
    Err(super::unavailable("jobs"))
}

/// Reads the output of a job from `begin` on: 0, or [`next`](JobOutput::next) of an earlier chunk.
pub fn output(id: u32, begin: u64) -> Result<JobOutput> {
    #[cfg(target_family = "wasm")]
    {
        let output = wit::output(id, begin)?;
        Ok(JobOutput {
            data: output.data,
            next: output.next,
            missing: output.missing,
        })
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = (id, begin);
        Err(super::unavailable("jobs"))
    }
}

/// Kills a job and its child processes, and returns the final state of the job.
pub fn stop(id: u32) -> Result<Job> {
    #[cfg(target_family = "wasm")]
    return Ok(wit::stop(id)?.into());
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = id;
        Err(super::unavailable("jobs"))
    }
}
