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

/// What a program left.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit code; 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
    /// Both as they came.
    pub combined: Vec<u8>,
    /// Whether either was cut at the output limit; what is missing is out of its middle.
    pub truncated: bool,
    /// How long it ran.
    pub duration: Duration,
}

/// A command that goes on when the call that started it has ended, until its session does.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name within the session.
    pub id: u32,
    /// The command as it was asked for.
    pub command: String,
    /// What it ended with, once it has.
    pub exit_code: Option<i32>,
    /// How long it has been running, or how long it ran.
    pub duration: Duration,
}

/// Output of a job.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Both streams as they came.
    pub data: Vec<u8>,
    /// Where the next piece begins.
    pub next: u64,
    /// Bytes before this piece that are not kept any more.
    pub missing: u64,
}

impl Command {
    /// A program without arguments; no shell is involved.
    pub fn new(program: impl Into<String>) -> Self {
        Self::of(What::Program(program.into(), Vec::new()))
    }

    /// A script for a shell. The host parses it and judges each simple command in it. It takes no
    /// [environment](Self::env) and no [input](Self::stdin): a script says those itself.
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

    /// One more argument. A script has none.
    pub fn arg(self, argument: impl Into<String>) -> Self {
        self.args([argument])
    }

    /// More arguments. A script has none.
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        if let What::Program(_, known) = &mut self.what {
            known.extend(arguments.into_iter().map(Into::into));
        }
        self
    }

    /// Where it runs, relative to the workspace root.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// A variable of its environment, which otherwise holds only what programs cannot do without.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// What it reads on stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// After how long it is killed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs it to its end.
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

    /// Starts it in the background, and gives the name of its job. The time limit is the job's.
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

/// The jobs of this session.
pub fn jobs() -> Result<Vec<Job>> {
    #[cfg(target_family = "wasm")]
    return Ok(wit::jobs()?.into_iter().map(Job::from).collect());
    #[cfg(not(target_family = "wasm"))]
    Err(super::outside("jobs"))
}

/// What a job has written from `begin` on: 0, or where an earlier [`Piece`] says that the next one begins.
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

/// Kills a job and all that it started.
pub fn stop(id: u32) -> Result<Job> {
    #[cfg(target_family = "wasm")]
    return Ok(wit::stop(id)?.into());
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = id;
        Err(super::outside("jobs"))
    }
}
