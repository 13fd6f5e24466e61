//! A server that is a program: started in the sandbox, heard on its stderr, and ended with all that it started.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::launch::{Hold, Launch, Launched, Launcher};
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ears::Ears;
use super::lines::Lines;
use super::link::{End, Era, Link, Unbegun};
use super::spec::filled;

/// How long a server may take to end when its input has ended, and again when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Lines of stderr that are heard, and bytes of each: the rest is read and dropped, so that the server is not stopped
/// by a pipe that is full.
const LINES_MOST: usize = 1_000;
const LINE_MOST: usize = 4_096;

/// Starts a server and begins to speak with it.
pub(super) async fn begin(
    server: &str,
    launch: &Launch,
    era: Era,
    ears: Arc<Ears>,
    launcher: &dyn Launcher,
    vault: &dyn Vault,
) -> Result<Link, Unbegun> {
    let launch = Launch {
        environment: filled(&launch.environment, vault).map_err(Unbegun::Failed)?,
        ..launch.clone()
    };
    let launched = launcher.launch(launch).await.map_err(|mut error| {
        error.message = format!("the server `{server}` cannot be started: {}", error.message);
        Unbegun::Failed(error)
    })?;
    let Launched {
        stdin,
        stdout,
        stderr,
        hold,
    } = launched;
    let end = End::new(server);
    let lines = Lines::new(stdout, stdin, Arc::clone(&end));
    tokio::spawn(hear(stderr, Arc::clone(&end)));
    let (held, dropped) = oneshot::channel::<()>();
    tokio::spawn(keep(hold, dropped, Arc::clone(&end)));
    Link::begin(lines, era, ears, end, Box::new(held)).await
}

/// Waits for the end of the program, or ends it when nobody holds it any more.
async fn keep(mut hold: Box<dyn Hold>, dropped: oneshot::Receiver<()>, end: Arc<End>) {
    let ended = tokio::select! {
        ended = hold.wait() => Some(ended),
        _ = dropped => None,
    };
    match ended {
        Some(Ok(code)) => {
            let message = format!("the server ended by itself, with the exit code {code}");
            end.because(ToolError::new(Code::ExecutionError, message));
            return;
        }
        Some(Err(error)) => return end.because(error),
        None => {}
    }
    // Its input has ended: a good server ends by itself.
    if timeout(GRACE, hold.wait()).await.is_ok() {
        return;
    }
    hold.terminate().await;
    if timeout(GRACE, hold.wait()).await.is_ok() {
        return;
    }
    hold.kill().await;
    let _ = timeout(GRACE, hold.wait()).await;
}

/// Hears what a server says beside the protocol.
async fn hear(stderr: Box<dyn AsyncRead + Send + Sync + Unpin>, end: Arc<End>) {
    let mut reader = BufReader::new(stderr);
    let mut line: Vec<u8> = Vec::new();
    let mut heard = 0;
    loop {
        let bytes = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => bytes,
        };
        let (taken, whole) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        let room = LINE_MOST.saturating_sub(line.len());
        line.extend(bytes[..taken].iter().take(room));
        reader.consume(taken);
        if whole {
            if heard < LINES_MOST {
                say(&line, &end);
                heard += 1;
            }
            line.clear();
        }
    }
    if heard < LINES_MOST {
        say(&line, &end);
    }
}

fn say(line: &[u8], end: &End) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    if !line.is_empty() {
        end.said(&visible(prefix(line, LINE_MOST)));
    }
}
