//! A server that is a program: started in the sandbox, heard on its stderr, and ended with all that it started.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mimir_core::config::SandboxMode;
use mimir_core::launch::{Hold, Launch, Launched};
use mimir_core::redact::{Lines as Masked, REACH};
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::ears::Ears;
use super::hidden;
use super::lines::Lines;
use super::link::{End, Era, Link, Unbegun};
use super::runner;
use super::server::Deps;
use super::spec::filled;

/// How long a server may take to end when its input has ended, and again when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The same while this process waits for it to be able to end, and how long it waits for all.
const LAST: Duration = Duration::from_millis(500);
const LEAVE: Duration = Duration::from_secs(2);

/// Programs that run, or are being ended.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether this process is about to end.
static LEAVING: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Lines of stderr that are heard, and characters of each: the rest is read and dropped, so that the server is not stopped
/// by a pipe that is full.
const LINES_MOST: usize = 1_000;
const LINE_MOST: usize = 4_096;

/// Bytes of a line that are looked at: a secret that begins in what is shown may end behind it.
const LINE_READ: usize = LINE_MOST + REACH;

/// How long a server that has not begun is heard to its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts a server and begins to speak with it.
pub(super) async fn begin(
    launch: &Launch,
    era: Era,
    ears: Arc<Ears>,
    end: Arc<End>,
    deps: &Deps,
) -> Result<Link, Unbegun> {
    if let Some(error) = offline(launch, &end.server) {
        return Err(Unbegun::Failed(error));
    }
    let filled = Launch {
        environment: filled(&launch.environment, &*deps.vault).map_err(Unbegun::Failed)?,
        ..launch.clone()
    };
    let server = &end.server;
    let launched = deps.launcher.launch(filled).await.map_err(|mut error| {
        error.message = format!("the server `{server}` cannot be started: {}", error.message);
        Unbegun::Failed(error)
    })?;
    let Launched {
        stdin,
        stdout,
        stderr,
        hold,
    } = launched;
    let lines = Lines::new(stdout, stdin, Arc::clone(&end));
    let hearing = tokio::spawn(hear(stderr, Arc::clone(&end)));
    let (held, dropped) = oneshot::channel::<()>();
    tokio::spawn(keep(hold, dropped, Arc::clone(&end)));
    let begun = Link::begin(lines, era, ears, Arc::clone(&end), Box::new(held)).await;
    match begun {
        Err(Unbegun::Failed(mut error)) => {
            // What it has said may be under way still.
            let _ = timeout(LAST_WORDS, hearing).await;
            end.heard(&mut error);
            Err(Unbegun::Failed(hidden::told(
                error, launch, &deps.root, &end,
            )))
        }
        begun => begun,
    }
}

/// The error for a program that downloads a package each time it starts, where its sandbox has no network.
fn offline(launch: &Launch, server: &str) -> Option<ToolError> {
    let sandbox = &launch.sandbox;
    // What an image or a mounted folder has need not be downloaded.
    let elsewhere = matches!(
        sandbox.mode,
        Some(SandboxMode::None | SandboxMode::Container)
    ) || sandbox.image.is_some()
        || !sandbox.bind_mounts.is_empty();
    if elsewhere || launch.package.is_some() || sandbox.network_access == Some(true) {
        return None;
    }
    let runner = runner::downloads(&launch.words)?;
    let message = format!(
        "the server `{server}` cannot be started: `{runner}` downloads its package when it starts, and its sandbox has no network"
    );
    let ways = [
        format!("`mimir mcp install {server}` downloads the package once, and pins it"),
        format!("`sandbox: none` in mcp.servers.{server} starts it with all that you may do"),
    ];
    Some(ToolError::new(Code::Unavailable, message).with_way_out(ways))
}

/// Waits for the end of the program, or ends it when nobody holds it any more.
async fn keep(mut hold: Box<dyn Hold>, dropped: oneshot::Receiver<()>, end: Arc<End>) {
    let _alive = Alive::new();
    let ended = tokio::select! {
        ended = hold.wait() => Some(ended),
        dropped = dropped => { drop(dropped); None }
        () = leaving() => {
            // Its input may be open for as long as we are there.
            hold.terminate().await;
            None
        }
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
    if ends(&mut *hold).await {
        return;
    }
    hold.terminate().await;
    if ends(&mut *hold).await {
        return;
    }
    hold.kill().await;
    ends(&mut *hold).await;
}

/// Whether it ends within the time that it has for that.
async fn ends(hold: &mut dyn Hold) -> bool {
    let patience = async {
        tokio::select! {
            () = sleep(GRACE) => {}
            () = async { leaving().await; sleep(LAST).await } => {}
        }
    };
    tokio::select! {
        _ = hold.wait() => true,
        () = patience => false,
    }
}

/// Completes when this process is about to end.
async fn leaving() {
    let mut told = LEAVING.subscribe();
    if told.wait_for(|leaving| *leaving).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// How long it may take until this process hears that it is to end, where all that it belongs to is ended at once.
const HEARING: Duration = Duration::from_millis(100);

/// Whether this process is about to end, or finds out in a moment.
pub(super) async fn leaves() -> bool {
    timeout(HEARING, leaving()).await.is_ok()
}

/// Ends all programs, for a process that is about to end itself: what a runtime drops while it shuts down is not waited
/// for, and what such a program had started would stay.
pub async fn leave() {
    LEAVING.send_replace(true);
    let until = Instant::now() + LEAVE;
    while ALIVE.load(Ordering::Acquire) > 0 && Instant::now() < until {
        sleep(Duration::from_millis(5)).await;
    }
}

/// A program that is looked after.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Hears what a server says beside the protocol.
async fn hear(stderr: Box<dyn AsyncRead + Send + Sync + Unpin>, end: Arc<End>) {
    let mut reader = BufReader::new(stderr);
    let mut line: Vec<u8> = Vec::new();
    let mut heard = 0;
    // A secret may go on in the next line, as keys do.
    let mut masked = end.redactor.lines();
    loop {
        let bytes = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => bytes,
        };
        let (taken, whole) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        let room = LINE_READ.saturating_sub(line.len());
        line.extend(bytes[..taken].iter().take(room));
        reader.consume(taken);
        if whole {
            if heard < LINES_MOST {
                push(&mut masked, &line, &end);
                heard += 1;
            }
            line.clear();
        }
    }
    if heard < LINES_MOST {
        push(&mut masked, &line, &end);
    }
    say(masked.finish().0, &end);
}

fn push(masked: &mut Masked<()>, line: &[u8], end: &End) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    if !line.is_empty() {
        say(masked.push((), visible(line)).0, end);
    }
}

fn say(lines: Vec<((), String)>, end: &End) {
    for ((), line) in lines {
        end.said(prefix(&line, LINE_MOST));
    }
}
