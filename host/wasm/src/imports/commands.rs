//! `mimir:tool/commands`: programs on the host, each checked during the call, and run in the command sandbox.

use std::time::Duration;

use mimir_core::command::{self, JobId, Place, Program};
use mimir_core::pipeline::Effects;
use mimir_core::{Code, ToolError};

use crate::bindings::commands::{Command, Finished, Host, Job, Piece};
use crate::bindings::types::Error;
use crate::guest::Guest;

type Answer<T> = wasmtime::Result<Result<T, Error>>;

impl Guest {
    /// Returns the access of this call to commands, if it has one.
    fn effects(&mut self) -> Result<Effects, ToolError> {
        self.commands.clone().ok_or_else(|| {
            ToolError::new(
                Code::PermissionDenied,
                "the tool was not granted commands; declare the need in its manifest",
            )
        })
    }

    async fn finish(&mut self, command: command::Command) -> Result<Finished, ToolError> {
        let done = self.effects()?.run(command).await?;
        let missing = done.stdout.missing + done.stderr.missing + done.combined.missing;
        Ok(Finished {
            exit_code: done.exit_code,
            stdout: done.stdout.bytes,
            stderr: done.stderr.bytes,
            combined: done.combined.bytes,
            truncated: missing > 0,
            duration_ms: millis(done.duration),
        })
    }

    async fn begin(&mut self, command: command::Command) -> Result<u32, ToolError> {
        Ok(self.effects()?.start(command).await?.0)
    }

    fn piece(&mut self, id: u32, begin: u64) -> Result<Piece, ToolError> {
        let piece = self.effects()?.output(JobId(id), begin)?;
        Ok(Piece {
            data: piece.bytes,
            next: piece.next,
            missing: piece.missing,
        })
    }
}

impl Host for Guest {
    async fn run(&mut self, command: Command) -> Answer<Finished> {
        let done = self.finish(command.into()).await;
        Ok(self.hand_on(done))
    }

    async fn run_shell(
        &mut self,
        script: String,
        directory: Option<String>,
        timeout: Option<u64>,
    ) -> Answer<Finished> {
        let done = self.finish(shell(script, directory, timeout)).await;
        Ok(self.hand_on(done))
    }

    async fn start(&mut self, command: Command) -> Answer<u32> {
        let begun = self.begin(command.into()).await;
        Ok(self.hand_on(begun))
    }

    async fn start_shell(
        &mut self,
        script: String,
        directory: Option<String>,
        timeout: Option<u64>,
    ) -> Answer<u32> {
        let begun = self.begin(shell(script, directory, timeout)).await;
        Ok(self.hand_on(begun))
    }

    async fn jobs(&mut self) -> Answer<Vec<Job>> {
        let jobs = self.effects().map(|effects| effects.jobs());
        let jobs = jobs.map(|jobs| jobs.into_iter().map(Job::from).collect());
        Ok(self.hand_on(jobs))
    }

    async fn output(&mut self, id: u32, begin: u64) -> Answer<Piece> {
        let piece = self.piece(id, begin);
        Ok(self.hand_on(piece))
    }

    async fn stop(&mut self, id: u32) -> Answer<Job> {
        let stopped = match self.effects() {
            Ok(effects) => effects.stop(JobId(id)).await,
            Err(error) => Err(error),
        };
        Ok(self.hand_on(stopped.map(Job::from)))
    }
}

fn shell(script: String, directory: Option<String>, timeout_ms: Option<u64>) -> command::Command {
    command::Command {
        program: Program::Script(script),
        directory,
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout: timeout_ms.map(Duration::from_millis),
        place: Place::Usual,
    }
}

impl From<Command> for command::Command {
    fn from(command: Command) -> Self {
        let mut words = vec![command.program];
        words.extend(command.arguments);
        Self {
            program: Program::Vector(words),
            directory: command.directory,
            environment: command.environment,
            stdin: command.stdin,
            timeout: command.timeout_ms.map(Duration::from_millis),
            place: Place::Usual,
        }
    }
}

impl From<command::Job> for Job {
    fn from(job: command::Job) -> Self {
        Self {
            id: job.id.0,
            command: job.command,
            exit_code: job.exit_code,
            duration_ms: millis(job.duration),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
