//! A server that is a program: started in the sandbox, with its stderr read, and stopped with all of its child
//! processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::SandboxMode;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProgramHandle};
use mimir_core::redact::{LineMasker as Masked, REACH};
use mimir_core::text::{prefix, visible};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{CloseReason, ConnectError, ProtocolGeneration, ServerConnection};
use super::listener::ServerListener;
use super::package_runner;
use super::rate_limit;
use super::sandbox_hint;
use super::server::ServerDeps;
use super::spec::fill_secrets_in_pairs;
use super::stdio_transport::StdioClientTransport;

/// Time limit for a server to exit after its stdin was closed, and again after the termination signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The shorter time limit while this process shuts down, and the limit for all servers together.
const SHUTDOWN_EXIT_TIMEOUT: Duration = Duration::from_millis(500);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of programs that run or are being stopped.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// True while this process shuts down.
static SHUTTING_DOWN: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Maximum size of a stderr line in bytes. The rest of a line is read and dropped.
const MAX_LINE_BYTES: usize = 4_096;

/// Number of bytes of a line that are scanned: a secret that begins before the limit may end after it.
const SCANNED_LINE_BYTES: usize = MAX_LINE_BYTES + REACH;

/// Time for which the stderr of a server that did not start is still read.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// Time without output after which lines are recorded that may end with a part of a secret, and lines without an end,
/// such as a prompt: a server that hangs often tells why in its last line.
const STDERR_PAUSE: Duration = Duration::from_secs(1);

/// Starts a server and connects to it.
pub(super) async fn start(
    launch: &LaunchSpec,
    generation: ProtocolGeneration,
    listener: Arc<ServerListener>,
    close_reason: Arc<CloseReason>,
    deps: &ServerDeps,
) -> Result<ServerConnection, ConnectError> {
    if let Some(error) = missing_network_error(launch, &close_reason.server) {
        return Err(ConnectError::Failed(error));
    }
    let filled = LaunchSpec {
        environment: fill_secrets_in_pairs(&launch.environment, &*deps.vault)
            .map_err(ConnectError::Failed)?,
        ..launch.clone()
    };
    let server = &close_reason.server;
    let launched = deps.launcher.launch(filled).await.map_err(|mut error| {
        error.message = format!("the server `{server}` cannot be started: {}", error.message);
        ConnectError::Failed(error)
    })?;
    let LaunchedProgram {
        stdin,
        stdout,
        stderr,
        handle,
    } = launched;
    let transport = StdioClientTransport::new(stdout, stdin, Arc::clone(&close_reason));
    let stderr_task = tokio::spawn(read_stderr(stderr, Arc::clone(&close_reason)));
    let (keep_alive, dropped) = oneshot::channel::<()>();
    tokio::spawn(wait_and_stop(handle, dropped, Arc::clone(&close_reason)));
    let started = ServerConnection::connect(
        transport,
        generation,
        listener,
        Arc::clone(&close_reason),
        Box::new(keep_alive),
    )
    .await;
    match started {
        Err(ConnectError::Failed(mut error)) => {
            // Its last output may still be in transit.
            let _ = timeout(STDERR_TIMEOUT, stderr_task).await;
            close_reason.append_stderr(&mut error);
            Err(ConnectError::Failed(sandbox_hint::add_sandbox_hint(
                error,
                launch,
                &deps.root,
                &close_reason,
            )))
        }
        started => started,
    }
}

/// Returns the error for a program that downloads a package on each start, if its sandbox has no network.
fn missing_network_error(launch: &LaunchSpec, server: &str) -> Option<ToolError> {
    let sandbox = &launch.sandbox;
    // A package in an image or a mounted folder need not be downloaded.
    let may_work_offline = matches!(
        sandbox.mode,
        Some(SandboxMode::None | SandboxMode::Container)
    ) || sandbox.image.is_some()
        || !sandbox.bind_mounts.is_empty();
    if may_work_offline || launch.package.is_some() || sandbox.network_access == Some(true) {
        return None;
    }
    let runner = package_runner::downloading_runner(&launch.args)?;
    let message = format!(
        "the server `{server}` cannot be started: `{runner}` downloads its package on each start, but its sandbox has no network"
    );
    let remedies = [
        format!("run `mimir mcp install {server}` to download the package once, and to pin it"),
        format!(
            "set `sandbox: none` in mcp.servers.{server} to run it with all of your permissions"
        ),
    ];
    Some(ToolError::unavailable(message).with_remedies(remedies))
}

/// Waits for the end of the program, or stops the program when its connection is dropped.
async fn wait_and_stop(
    mut handle: Box<dyn ProgramHandle>,
    dropped: oneshot::Receiver<()>,
    close_reason: Arc<CloseReason>,
) {
    let _alive = LiveProgramGuard::new();
    let ended = tokio::select! {
        ended = handle.wait() => Some(ended),
        dropped = dropped => { drop(dropped); None }
        () = shutdown_started() => {
            // Its input may stay open for as long as this process runs.
            handle.terminate().await;
            None
        }
    };
    match ended {
        Some(Ok(code)) => {
            let server = &close_reason.server;
            let message = format!("the server `{server}` exited on its own, with exit code {code}");
            close_reason.set_reason(ToolError::execution(message));
            return;
        }
        Some(Err(error)) => return close_reason.set_reason(error),
        None => {}
    }
    // A well-behaved server exits when its stdin is closed.
    if exits_in_time(&mut *handle).await {
        return;
    }
    handle.terminate().await;
    if exits_in_time(&mut *handle).await {
        return;
    }
    handle.kill().await;
    exits_in_time(&mut *handle).await;
}

/// Returns true if the program exits within its time limit.
async fn exits_in_time(handle: &mut dyn ProgramHandle) -> bool {
    let time_limit = async {
        tokio::select! {
            () = sleep(EXIT_TIMEOUT) => {}
            () = async { shutdown_started().await; sleep(SHUTDOWN_EXIT_TIMEOUT).await } => {}
        }
    };
    tokio::select! {
        _ = handle.wait() => true,
        () = time_limit => false,
    }
}

/// Completes when this process starts to shut down.
async fn shutdown_started() {
    let mut signal = SHUTTING_DOWN.subscribe();
    if signal.wait_for(|is_set| *is_set).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Time within which this process learns of a shutdown that stops its whole process group at once.
const SIGNAL_DELAY: Duration = Duration::from_millis(100);

/// Returns true if this process is shutting down, or learns so within [`SIGNAL_DELAY`].
pub(super) async fn is_shutting_down() -> bool {
    timeout(SIGNAL_DELAY, shutdown_started()).await.is_ok()
}

/// Stops all server programs. Call it before this process exits: the runtime drops tasks without awaiting them, and
/// child processes of the programs would survive.
pub async fn stop_server_programs() {
    SHUTTING_DOWN.send_replace(true);
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    while ALIVE.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Counts a program while it exists.
struct LiveProgramGuard;

impl LiveProgramGuard {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for LiveProgramGuard {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads a server's stderr. Lines above the rate limit are dropped, so that a full pipe does not block the server.
async fn read_stderr(
    stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    close_reason: Arc<CloseReason>,
) {
    let mut reader = BufReader::new(stderr);
    let mut line: Vec<u8> = Vec::new();
    let mut rate_limit = rate_limit::log_limit();
    // A secret may continue on the next line, as keys do.
    let mut masked = close_reason.redactor.line_masker();
    loop {
        let is_waiting = masked.holds_lines() || !line.is_empty();
        let time_limit = if is_waiting {
            STDERR_PAUSE
        } else {
            Duration::MAX
        };
        let bytes = match timeout(time_limit, reader.fill_buf()).await {
            Ok(Ok([]) | Err(_)) => break,
            Ok(Ok(bytes)) => bytes,
            Err(_) => {
                if !line.is_empty() && rate_limit.try_take() {
                    mask_line(&mut masked, &line, &close_reason);
                }
                line.clear();
                record_lines(masked.flush().0, &close_reason);
                continue;
            }
        };
        let (taken, whole) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        let capacity = SCANNED_LINE_BYTES.saturating_sub(line.len());
        line.extend(bytes[..taken].iter().take(capacity));
        reader.consume(taken);
        if whole {
            if rate_limit.try_take() {
                mask_line(&mut masked, &line, &close_reason);
            }
            line.clear();
        }
    }
    if rate_limit.try_take() {
        mask_line(&mut masked, &line, &close_reason);
    }
    record_lines(masked.finish().0, &close_reason);
}

fn mask_line(masked: &mut Masked<()>, line: &[u8], close_reason: &CloseReason) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    if !line.is_empty() {
        record_lines(masked.push((), visible(line)).0, close_reason);
    }
}

fn record_lines(lines: Vec<((), String)>, close_reason: &CloseReason) {
    for ((), line) in lines {
        close_reason.record_stderr_line(prefix(&line, MAX_LINE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::redact::Redactor;
    use parking_lot::Mutex;
    use tokio::io::AsyncWriteExt as _;

    use super::super::status::ServerObserver;
    use super::*;

    #[derive(Default)]
    struct LogLines(Mutex<Vec<String>>);

    impl ServerObserver for LogLines {
        fn log_line(&self, _: &str, line: &str) {
            self.0.lock().push(line.to_owned());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stderr_lines_are_recorded_after_a_pause() {
        let log = Arc::new(LogLines::default());
        let redactor = Redactor::new().with_values([("TOKEN", "correct-horse-battery")]);
        let observer: Arc<dyn ServerObserver> = log.clone();
        let close_reason = CloseReason::new("s", redactor, observer);
        let (mut stderr, reader) = tokio::io::duplex(1 << 10);
        let task = tokio::spawn(read_stderr(Box::new(reader), close_reason));
        let mut write = async |text: &str, pause: Duration| {
            stderr.write_all(text.as_bytes()).await.unwrap();
            sleep(pause).await;
            std::mem::take(&mut *log.0.lock())
        };
        // The value may continue in the next line.
        let line = "password=correct-horse-battery\n";
        assert!(write(line, STDERR_PAUSE / 2).await.is_empty());
        let shown = write("", STDERR_PAUSE).await;
        assert!(shown[0].starts_with("password=[REDACTED"), "{shown:?}");
        assert!(!shown[0].contains("horse"), "{shown:?}");
        // A secret in two parts is masked if the second one comes in time.
        assert!(write("it is correct-ho", STDERR_PAUSE / 2).await.is_empty());
        let shown = write("rse-battery, yes\nOk to proceed? (y) ", STDERR_PAUSE * 2).await;
        assert_eq!(
            shown,
            ["it is [REDACTED:secret:TOKEN], yes", "Ok to proceed? (y)"]
        );
        drop(stderr);
        task.await.unwrap();
        assert!(log.0.lock().is_empty());
    }
}
