//! Compiler in a child process, on the side of the host. A process is started for one component, and killed when it
//! takes too long or no call waits for the result any more.
//!
//! The child runs the same executable with an argument that turns it into a compiler
//! ([`run_if_child`](super::run_if_child)). It receives the component on stdin and returns the code on stdout.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use mimir_core::backend::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::child_main::{ARGUMENT, CompilerReply, MAX_THREADS};
use super::compiler::{CompileError, CompileJob, ComponentCompiler};

/// Environment variables that the process inherits: those needed to load a program at all.
const INHERITED_VARIABLES: [&str; 3] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SystemRoot"];

/// Maximum number of bytes stored from the process's stderr.
const MAX_STDERR: u64 = 16 << 10;

/// Compiles each component in a child process with limits on time and memory.
///
/// The program has to call [`run_if_child`](super::run_if_child) first in its `main`. Memory is limited on Linux only;
/// on other systems, the time limit and the checks before compilation have to suffice.
#[derive(Debug, Clone)]
pub struct ChildCompiler {
    program: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl ChildCompiler {
    /// Uses the running executable as the compiler, which has to call [`run_if_child`](super::run_if_child).
    pub fn this_program() -> Self {
        // After an update, the path of the running executable leads to another version or to no file; this link still
        // leads to the running one.
        if cfg!(target_os = "linux") {
            return Self::program("/proc/self/exe");
        }
        let first = || std::env::args_os().next().unwrap_or_default().into();
        Self::program(std::env::current_exe().unwrap_or_else(|_| first()))
    }

    /// Uses the program in this file as the compiler, which has to call [`run_if_child`](super::run_if_child).
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            variables: Vec::new(),
        }
    }

    /// Sets an environment variable of the process, such as an option of its allocator.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn command(&self, job: &CompileJob) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(ARGUMENT)
            .arg(job.mode.as_str())
            .arg(job.addressing.as_str())
            .arg(job.limits.memory.to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for name in INHERITED_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Memory use grows with the number of threads, while more than a few threads hardly save time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RAYON_NUM_THREADS", cores.min(MAX_THREADS).to_string());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl ComponentCompiler for ChildCompiler {
    fn compile(&self, job: CompileJob) -> BoxFuture<'static, Result<Vec<u8>, CompileError>> {
        let mut command = self.command(&job);
        Box::pin(async move {
            let child = command.spawn().map_err(|error| {
                CompileError::Failed(format!("cannot start the process: {error}"))
            })?;
            let time = job.limits.time;
            // The process is killed when the exchange is dropped.
            let result = tokio::time::timeout(time, exchange(child, &job)).await;
            result.unwrap_or(Err(CompileError::Time(time)))
        })
    }
}

/// Sends the component and reads the reply.
async fn exchange(mut child: Child, job: &CompileJob) -> Result<Vec<u8>, CompileError> {
    let failed = |error: io::Error| CompileError::Failed(error.to_string());
    let no_pipe = || CompileError::Failed("the process has no pipes".to_owned());
    let mut stdin = child.stdin.take().ok_or_else(no_pipe)?;
    let mut stdout = child.stdout.take().ok_or_else(no_pipe)?;
    let stderr = child.stderr.take().ok_or_else(no_pipe)?;
    let length = (job.bytes.len() as u64).to_le_bytes();
    let send = async {
        // A process that has ended early reports the reason on stderr.
        let _ = stdin.write_all(&length).await;
        let _ = stdin.write_all(&job.bytes).await;
        let _ = stdin.flush().await;
    };
    let mut reply = Vec::new();
    let read = async { stdout.read_to_end(&mut reply).await };
    let ((), read, messages) = tokio::join!(send, read, read_beginning(stderr));
    let read = read.map_err(failed);
    let status = child.wait().await.map_err(failed)?;
    // The process exits when its stdin is closed, so that it cannot outlive its host. Keep it open until here.
    drop(stdin);
    read?;
    match CompilerReply::parse(reply) {
        Some(CompilerReply::Code(code)) if status.success() => Ok(code),
        Some(CompilerReply::Invalid(reason)) if status.success() => {
            Err(CompileError::Invalid(reason))
        }
        Some(CompilerReply::Failed(reason)) if status.success() => {
            Err(CompileError::Failed(reason))
        }
        _ => Err(exit_error(status, &messages, job)),
    }
}

/// Reads a stream to its end and returns the first [`MAX_STDERR`] bytes.
async fn read_beginning(mut stream: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    let _ = (&mut stream).take(MAX_STDERR).read_to_end(&mut text).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the error for a process that ended without a valid reply. Without memory, Rust's allocator prints a message
/// and aborts.
fn exit_error(status: ExitStatus, messages: &str, job: &CompileJob) -> CompileError {
    let has_message = |words: &str| messages.contains(words);
    let out_of_memory =
        has_message("memory allocation of") || has_message("Cannot allocate memory");
    if out_of_memory || (is_killed(status) && !has_message("overflowed its stack")) {
        return CompileError::Memory(job.limits.memory);
    }
    let line = messages.lines().find(|line| !line.trim().is_empty());
    let line = mimir_core::text::visible(line.unwrap_or_default());
    CompileError::Failed(format!("{status}: {line}"))
}

/// Returns true if a signal ended the process, as on access to memory beyond the limit.
#[cfg(unix)]
fn is_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some()
}

#[cfg(not(unix))]
fn is_killed(_: ExitStatus) -> bool {
    false
}
