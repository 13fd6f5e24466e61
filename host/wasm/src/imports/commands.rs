//! `mimir:tool/commands`: programs on the host. The policy checks each command during the call, and the command sandbox
//! runs it.

use std::time::Duration;

use mimir_core::command::{self, CommandProgram, CommandTarget, JobId};
use mimir_core::pipeline::EffectGate;
use mimir_core::{ToolError, ToolErrorCode};

use crate::bindings::commands::{Command, Finished, Host, Job, Piece};
use crate::bindings::types::Error;
use crate::store_state::StoreState;

type ImportResult<T> = wasmtime::Result<Result<T, Error>>;

impl StoreState {
    /// Returns the call's effect gate for commands. Fails if the tool was not granted commands.
    fn effects(&mut self) -> Result<EffectGate, ToolError> {
        self.commands.clone().ok_or_else(|| {
            ToolError::new(
                ToolErrorCode::PermissionDenied,
                "the tool was not granted commands; declare the need in its manifest",
            )
        })
    }

    async fn finish(&mut self, command: command::CommandRequest) -> Result<Finished, ToolError> {
        let done = self.effects()?.run(command).await?;
        let omitted =
            done.stdout.omitted_bytes + done.stderr.omitted_bytes + done.combined.omitted_bytes;
        Ok(Finished {
            exit_code: done.exit_code,
            stdout: done.stdout.bytes,
            stderr: done.stderr.bytes,
            combined: done.combined.bytes,
            truncated: omitted > 0,
            duration_ms: millis(done.duration),
        })
    }

    async fn begin(&mut self, command: command::CommandRequest) -> Result<u32, ToolError> {
        Ok(self.effects()?.start(command).await?.0)
    }

    fn output_chunk(&mut self, id: u32, begin: u64) -> Result<Piece, ToolError> {
        let chunk = self.effects()?.output(JobId(id), begin)?;
        Ok(Piece {
            data: chunk.bytes,
            next: chunk.next,
            missing: chunk.omitted_bytes,
        })
    }
}

impl Host for StoreState {
    async fn run(&mut self, command: Command) -> ImportResult<Finished> {
        let done = self.finish(command.into()).await;
        Ok(self.record_guest_result(done))
    }

    async fn run_shell(
        &mut self,
        script: String,
        directory: Option<String>,
        timeout: Option<u64>,
    ) -> ImportResult<Finished> {
        let done = self.finish(shell(script, directory, timeout)).await;
        Ok(self.record_guest_result(done))
    }

    async fn start(&mut self, command: Command) -> ImportResult<u32> {
        let begun = self.begin(command.into()).await;
        Ok(self.record_guest_result(begun))
    }

    async fn start_shell(
        &mut self,
        script: String,
        directory: Option<String>,
        timeout: Option<u64>,
    ) -> ImportResult<u32> {
        let begun = self.begin(shell(script, directory, timeout)).await;
        Ok(self.record_guest_result(begun))
    }

    async fn jobs(&mut self) -> ImportResult<Vec<Job>> {
        let jobs = self.effects().map(|effects| effects.jobs());
        let jobs = jobs.map(|jobs| jobs.into_iter().map(Job::from).collect());
        Ok(self.record_guest_result(jobs))
    }

    async fn output(&mut self, id: u32, begin: u64) -> ImportResult<Piece> {
        let chunk = self.output_chunk(id, begin);
        Ok(self.record_guest_result(chunk))
    }

    async fn stop(&mut self, id: u32) -> ImportResult<Job> {
        let stopped = match self.effects() {
            Ok(effects) => effects.stop(JobId(id)).await,
            Err(error) => Err(error),
        };
        Ok(self.record_guest_result(stopped.map(Job::from)))
    }
}

fn shell(
    script: String,
    directory: Option<String>,
    timeout_ms: Option<u64>,
) -> command::CommandRequest {
    command::CommandRequest {
        program: CommandProgram::Script(script),
        directory,
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout: timeout_ms.map(Duration::from_millis),
        target: CommandTarget::Default,
    }
}

impl From<Command> for command::CommandRequest {
    fn from(command: Command) -> Self {
        let mut words = vec![command.program];
        words.extend(command.arguments);
        Self {
            program: CommandProgram::Vector(words),
            directory: command.directory,
            environment: command.environment,
            stdin: command.stdin,
            timeout: command.timeout_ms.map(Duration::from_millis),
            target: CommandTarget::Default,
        }
    }
}

impl From<command::JobStatus> for Job {
    fn from(job: command::JobStatus) -> Self {
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
