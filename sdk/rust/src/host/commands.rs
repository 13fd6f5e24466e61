//! Programs on the host, each run through the command policy and its sandbox.

use std::time::Duration;

#[cfg(target_family = "wasm")]
use crate::bindings::mimir::tool::commands as wit;
use crate::error::Result;

/// A program with its arguments, or a script for a shell.
#[derive(Debug, Clone)]
#[must_use]
pub struct Command {
    what: What,
    directory: Option<String>,
    environment: Vec<(String, String)>,
    stdin: Vec<u8>,
    timeout: Option<Duration>,
}

#[derive(Debug, Clone)]
enum What {
    Program(String, Vec<String>),
    Script(String),
}

/// Result of a program.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit code; 128 plus the signal number if a signal ended it.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Both streams in the order of arrival.
    pub combined: Vec<u8>,
    /// True if either stream exceeded the output limit; the middle is left out then.
    pub truncated: bool,
    /// Run time.
    pub duration: Duration,
}

/// A command that continues after the call that started it, until its session ends.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its number within the session.
    pub id: u32,
    /// The command as requested.
    pub command: String,
    /// Exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// Run time so far, or the total once it has ended.
    pub duration: Duration,
}

/// Output of a job.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Both streams in the order of arrival.
    pub data: Vec<u8>,
    /// Byte offset of the next chunk.
    pub next: u64,
    /// Bytes before this chunk that are no longer stored.
    pub missing: u64,
}

impl Command {
    /// A program without arguments; no shell is involved.
    pub fn new(program: impl Into<String>) -> Self {
        Self::of(What::Program(program.into(), Vec::new()))
    }

    /// A script for a shell. The host parses it and checks each simple command in it. It takes no
    /// [environment](Self::env) and no [input](Self::stdin), because a script can set both itself.
    pub fn shell(script: impl Into<String>) -> Self {
        Self::of(What::Script(script.into()))
    }

    fn of(what: What) -> Self {
        Self {
            what,
            directory: None,
            environment: Vec::new(),
            stdin: Vec::new(),
            timeout: None,
        }
    }

    /// Adds an argument. Not for scripts.
    pub fn arg(self, argument: impl Into<String>) -> Self {
        self.args([argument])
    }

    /// Adds arguments. Not for scripts.
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        if let What::Program(_, known) = &mut self.what {
            known.extend(arguments.into_iter().map(Into::into));
        }
        self
    }

    /// Sets the working directory, relative to the workspace root.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Adds an environment variable; otherwise the environment contains only variables that programs cannot do
    /// without.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the data for stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets the time limit, after which it is killed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs it and waits for its end.
    pub fn run(self) -> Result<Finished> {
        #[cfg(target_family = "wasm")]
        {
            let done = match self.into_wit() {
                Asked::Program(command) => wit::run(&command),
                Asked::Script(script, directory, timeout) => {
                    wit::run_shell(&script, directory.as_deref(), timeout)
                }
            }?;
            Ok(Finished {
                exit_code: done.exit_code,
                stdout: done.stdout,
                stderr: done.stderr,
                combined: done.combined,
                truncated: done.truncated,
                duration: Duration::from_millis(done.duration_ms),
            })
        }
        #[cfg(not(target_family = "wasm"))]
        Err(self.outside())
    }

    /// Starts it in the background and returns the number of its job. The time limit applies to the job.
    pub fn start(self) -> Result<u32> {
        #[cfg(target_family = "wasm")]
        {
            Ok(match self.into_wit() {
                Asked::Program(command) => wit::start(&command),
                Asked::Script(script, directory, timeout) => {
                    wit::start_shell(&script, directory.as_deref(), timeout)
                }
            }?)
        }
        #[cfg(not(target_family = "wasm"))]
        Err(self.outside())
    }

    #[cfg(target_family = "wasm")]
    fn into_wit(self) -> Asked {
        let timeout_ms = self.timeout.map(super::millis);
        match self.what {
            What::Script(script) => Asked::Script(script, self.directory, timeout_ms),
            What::Program(program, arguments) => Asked::Program(wit::Command {
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
    fn outside(&self) -> crate::error::Error {
        match &self.what {
            What::Program(program, _) => super::outside(program),
            What::Script(script) => super::outside(&format!("`{}`", crate::text::brief(script))),
        }
    }
}

#[cfg(target_family = "wasm")]
enum Asked {
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
    Err(super::outside("jobs"))
}

/// Reads the output of a job from `begin` on: 0, or [`next`](Piece::next) of an earlier chunk.
pub fn output(id: u32, begin: u64) -> Result<Piece> {
    #[cfg(target_family = "wasm")]
    {
        let piece = wit::output(id, begin)?;
        Ok(Piece {
            data: piece.data,
            next: piece.next,
            missing: piece.missing,
        })
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = (id, begin);
        Err(super::outside("jobs"))
    }
}

/// Kills a job and its child processes.
pub fn stop(id: u32) -> Result<Job> {
    #[cfg(target_family = "wasm")]
    return Ok(wit::stop(id)?.into());
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = id;
        Err(super::outside("jobs"))
    }
}
