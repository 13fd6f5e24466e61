//! A command that runs in a container: its input and output are carried, its end is seen, and nothing of it is left.

use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions};
use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::engine::{Engine, fault, status};
use super::enter::{Input, Output};
use super::outside::{self, Counter};
use super::pool::Container;
use crate::sandbox::{Child, Exit, Fault, Handle};

/// Bytes that wait between the engine and whoever reads: what a pipe holds.
const PIPE: usize = 64 * 1024;

/// How often it is asked whether a command has ended, at first and when it goes on. Where it closes its outputs, as
/// nearly all do by ending, it is asked at once.
const SOON: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(250);

/// What a command has ended with that was killed.
const KILLED: i32 = 128 + 9;

/// How it has ended; or why that is not known, in words.
type Ended = Option<Result<Exit, (&'static str, String)>>;

/// Follows a command that has begun. `after` is done when it has ended.
pub(super) fn follow(
    container: Container,
    (exec, counter): (String, Counter),
    output: Output,
    input: Input,
    after: impl FnOnce() + Send + 'static,
) -> Child {
    let (stdin, from) = duplex(PIPE);
    let (to_out, stdout) = duplex(PIPE);
    let (to_err, stderr) = duplex(PIPE);
    let (closed, closes) = watch::channel(false);
    let (end, ends) = watch::channel(None);
    let (engine, id) = (Arc::clone(&container.engine), container.id.clone());
    let tasks = [
        tokio::spawn(carry_in(from, input)).abort_handle(),
        tokio::spawn(carry_out(output, to_out, to_err, closed)).abort_handle(),
        tokio::spawn(async move {
            let ended = watch_over(&container, &exec, &counter, closes).await;
            let ended = ended.map_err(|fault| match fault {
                Fault::Engine { doing, why } => (doing, why),
                other => ("to say how a command has ended", other.to_string()),
            });
            // Removed before anybody hears of it, as far as this program is concerned.
            drop(container);
            end.send_replace(Some(ended));
            after();
        })
        .abort_handle(),
    ];
    Child {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        handle: Box::new(Held {
            engine,
            id,
            ends,
            tasks,
        }),
        covered: Vec::new(),
    }
}

/// Carries what the command reads, and tells it when there is no more.
async fn carry_in(mut from: DuplexStream, mut input: Input) {
    let mut bytes = vec![0; PIPE];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let Some(read) = bytes.get(..count) else {
            break;
        };
        // Who does not read any more has closed it, or has ended.
        if input.write_all(read).await.is_err() || input.flush().await.is_err() {
            break;
        }
    }
    let _ = input.shutdown().await;
}

/// Carries what the command writes. Who does not read holds it up, as a pipe would.
async fn carry_out(
    mut output: Output,
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

/// Waits until a command has ended, and ends what it has left behind.
async fn watch_over(
    container: &Container,
    exec: &str,
    counter: &Counter,
    mut closes: watch::Receiver<bool>,
) -> Result<Exit, Fault> {
    let engine = &container.engine;
    let ended = async {
        let code = code(engine, exec, &mut closes).await?;
        // Nobody asks of a command that says it is well. Not every engine tells of what is not its first process.
        let hungry = code != 0 && counter.has_counted(engine.facts.podman && code == KILLED);
        engine.kill(&container.id).await?;
        Ok((code, hungry))
    };
    let (code, hungry) = match ended.await {
        Ok(code) => code,
        Err(fault) => {
            // An engine that is killed leaves what it has started, and nobody would end it.
            outside::kill(&container.id);
            return Err(fault);
        }
    };
    let out_of_memory = hungry || code != 0 && engine.out_of_memory(&container.id).await;
    Ok(Exit {
        code,
        out_of_memory,
    })
}

async fn code(
    engine: &Engine,
    exec: &str,
    closes: &mut watch::Receiver<bool>,
) -> Result<i32, Fault> {
    let mut pause = SOON;
    let mut open = true;
    loop {
        match engine.docker.inspect_exec(exec).await {
            // The container is gone, and it with that.
            Err(error) if matches!(status(&error), Some(404 | 409)) => return Ok(KILLED),
            Err(error) => return Err(fault("to say how a command has ended")(error)),
            Ok(state) => {
                if let Some(code) = state.exit_code.filter(|_| state.running != Some(true)) {
                    return Ok(i32::try_from(code).unwrap_or(KILLED));
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LATER),
            _ = closes.wait_for(|closed| *closed), if open => (pause, open) = (SOON, false),
        }
    }
}

/// The hold on a command in a container.
struct Held {
    engine: Arc<Engine>,
    id: String,
    ends: watch::Receiver<Ended>,
    tasks: [AbortHandle; 3],
}

impl Handle for Held {
    fn wait(&mut self) -> BoxFuture<'_, Result<Exit, Fault>> {
        Box::pin(async {
            let gone = || {
                Err((
                    "to say how a command has ended",
                    "nobody watches it".to_owned(),
                ))
            };
            let ended = match self.ends.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or_else(gone),
                Err(_) => gone(),
            };
            ended.map_err(|(doing, why)| Fault::Engine { doing, why })
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        tokio::spawn(async move { terminate(&engine, &id).await });
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        // Its end is seen by who watches over it.
        tokio::spawn(async move {
            let _ = engine.kill(&id).await;
        });
        Box::pin(std::future::ready(()))
    }
}

/// Asks all that runs in a container to end. The engine itself can ask only the first process.
async fn terminate(engine: &Engine, id: &str) {
    let options = CreateExecOptions {
        cmd: Some(["sh", "-c", "kill -TERM -1"].map(str::to_owned).into()),
        ..CreateExecOptions::default()
    };
    let Ok(made) = engine.docker.create_exec(id, options).await else {
        return;
    };
    let alone = StartExecOptions {
        detach: true,
        ..StartExecOptions::default()
    };
    let _ = engine.docker.start_exec(&made.id, Some(alone)).await;
}

impl Drop for Held {
    fn drop(&mut self) {
        // With the one that watches over it, the container is dropped, and that removes it.
        for task in &self.tasks {
            task.abort();
        }
    }
}
