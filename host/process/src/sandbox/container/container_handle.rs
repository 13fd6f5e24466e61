//! A running command in a container: forwards input and output, detects the end, and removes the container.

use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions};
use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::container_processes::{self, OomCounter};
use super::engine::{ContainerEngine, fault, status};
use super::exec::{ExecInput, ExecStream};
use super::pool::PooledContainer;
use crate::sandbox::{CommandExit, CommandHandle, SandboxChild, SandboxError};

/// Size in bytes of the buffer between engine and reader: the capacity of a pipe.
const PIPE_BYTES: usize = 64 * 1024;

/// Initial and maximum interval of the checks for the end of a command. When the command closes its outputs, usually
/// because it has ended, it is checked at once.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Exit code of a command that was killed.
const KILLED: i32 = 128 + 9;

/// Exit of a command; or the failed step and the error message if the exit is unknown.
type ExecResult = Option<Result<CommandExit, (&'static str, String)>>;

/// Monitors a running command. Calls `on_end` when it has ended.
pub(super) fn follow_command(
    container: PooledContainer,
    (exec, counter): (String, OomCounter),
    output: ExecStream,
    input: ExecInput,
    on_end: impl FnOnce() + Send + 'static,
) -> SandboxChild {
    let (stdin, from) = duplex(PIPE_BYTES);
    let (to_out, stdout) = duplex(PIPE_BYTES);
    let (to_err, stderr) = duplex(PIPE_BYTES);
    let (closed, closes) = watch::channel(false);
    let (end, ends) = watch::channel(None);
    let (engine, id) = (Arc::clone(&container.engine), container.id.clone());
    let tasks = [
        tokio::spawn(forward_input(from, input)).abort_handle(),
        tokio::spawn(forward_output(output, to_out, to_err, closed)).abort_handle(),
        tokio::spawn(async move {
            let ended = wait_until_ended(&container, &exec, &counter, closes).await;
            let ended = ended.map_err(|fault| match fault {
                SandboxError::Engine { doing, why } => (doing, why),
                other => ("to report how a command has ended", other.to_string()),
            });
            // Requests the removal of the container before the end of the command is reported.
            drop(container);
            end.send_replace(Some(ended));
            on_end();
        })
        .abort_handle(),
    ];
    SandboxChild {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        handle: Box::new(ContainerHandle {
            engine,
            id,
            ends,
            tasks,
        }),
        masked: Vec::new(),
    }
}

/// Forwards the standard input of the command, and closes it at the end.
async fn forward_input(mut from: DuplexStream, mut input: ExecInput) {
    let mut bytes = vec![0; PIPE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let Some(read) = bytes.get(..count) else {
            break;
        };
        // The command has closed its input, or has ended.
        if input.write_all(read).await.is_err() || input.flush().await.is_err() {
            break;
        }
    }
    let _ = input.shutdown().await;
}

/// Forwards the output of the command. A slow reader blocks the command, as with a pipe.
async fn forward_output(
    mut output: ExecStream,
    mut out: DuplexStream,
    mut err: DuplexStream,
    closed: watch::Sender<bool>,
) {
    while let Some(Ok(part)) = output.next().await {
        let written = match &part {
            LogOutput::StdErr { message } => err.write_all(message).await,
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                out.write_all(message).await
            }
            LogOutput::StdIn { .. } => Ok(()),
        };
        if written.is_err() {
            break;
        }
    }
    closed.send_replace(true);
}

/// Waits for the end of a command, and kills its remaining processes.
async fn wait_until_ended(
    container: &PooledContainer,
    exec: &str,
    counter: &OomCounter,
    mut closes: watch::Receiver<bool>,
) -> Result<CommandExit, SandboxError> {
    let engine = &container.engine;
    let ended = async {
        let code = wait_for_exit_code(engine, exec, &mut closes).await?;
        // The counter is needed since not every engine reports processes other than the first one.
        let ran_out_of_memory =
            code != 0 && counter.has_oom_kill(engine.facts.podman && code == KILLED);
        engine.kill(&container.id).await?;
        Ok((code, ran_out_of_memory))
    };
    let (code, ran_out_of_memory) = match ended.await {
        Ok(code) => code,
        Err(fault) => {
            // A killed engine leaves the processes running, so they are killed directly.
            container_processes::kill(&container.id);
            return Err(fault);
        }
    };
    let out_of_memory = ran_out_of_memory || code != 0 && engine.out_of_memory(&container.id).await;
    Ok(CommandExit {
        code,
        out_of_memory,
    })
}

async fn wait_for_exit_code(
    engine: &ContainerEngine,
    exec: &str,
    closes: &mut watch::Receiver<bool>,
) -> Result<i32, SandboxError> {
    let mut pause = MIN_POLL_INTERVAL;
    let mut open = true;
    loop {
        match engine.docker.inspect_exec(exec).await {
            // The container no longer exists, so the command has ended.
            Err(error) if matches!(status(&error), Some(404 | 409)) => return Ok(KILLED),
            Err(error) => return Err(fault("to report how a command has ended")(error)),
            Ok(state) => {
                if let Some(code) = state.exit_code.filter(|_| state.running != Some(true)) {
                    return Ok(i32::try_from(code).unwrap_or(KILLED));
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_POLL_INTERVAL),
            _ = closes.wait_for(|closed| *closed), if open => (pause, open) = (MIN_POLL_INTERVAL, false),
        }
    }
}

/// Handle to a command in a container.
struct ContainerHandle {
    engine: Arc<ContainerEngine>,
    id: String,
    ends: watch::Receiver<ExecResult>,
    tasks: [AbortHandle; 3],
}

impl CommandHandle for ContainerHandle {
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
        Box::pin(async {
            let task_ended = || {
                Err((
                    "to report how a command has ended",
                    "the task that watches it has ended".to_owned(),
                ))
            };
            let ended = match self.ends.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or_else(task_ended),
                Err(_) => task_ended(),
            };
            ended.map_err(|(doing, why)| SandboxError::Engine { doing, why })
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        tokio::spawn(async move { terminate(&engine, &id).await });
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        // The monitoring task detects the end.
        tokio::spawn(async move {
            let _ = engine.kill(&id).await;
        });
        Box::pin(std::future::ready(()))
    }
}

/// Sends SIGTERM to all processes of a container. The engine's own API signals only the first process.
async fn terminate(engine: &ContainerEngine, id: &str) {
    let options = CreateExecOptions {
        cmd: Some(["sh", "-c", "kill -TERM -1"].map(str::to_owned).into()),
        ..CreateExecOptions::default()
    };
    let Ok(made) = engine.docker.create_exec(id, options).await else {
        return;
    };
    let detached = StartExecOptions {
        detach: true,
        ..StartExecOptions::default()
    };
    let _ = engine.docker.start_exec(&made.id, Some(detached)).await;
}

impl Drop for ContainerHandle {
    fn drop(&mut self) {
        // The aborted monitoring task drops the container, which removes it.
        for task in &self.tasks {
            task.abort();
        }
    }
}
