//! No sandbox: the command runs with all permissions of the current user. Must be selected explicitly.
//!
//! The environment is still built from scratch. On Linux, all processes of the command are killed when it ends, unless
//! they hide deliberately: they are identified by their process group, by the session if the command leads one, and by a
//! variable that all of them inherit. Other Unix systems use only the group, Windows a job object, which no process can
//! leave and which also bounds memory, processes and processor time; it has never been run on Windows itself. The
//! processes are also killed if mimir itself is killed.

#[cfg(windows)]
mod job_limits;
mod spawned_process;
#[cfg(unix)]
mod watchdog;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mimir_core::backend::BoxFuture;
use mimir_core::platform::PlatformGuarantee;
use tokio::process::Command;

use super::environment::{AmbientEnvironment, PROXY, VariableMap};
use super::{
    CommandExit, CommandHandle, CommandNetwork, CommandSpec, FileIdentity, ResourceBounds, Sandbox,
    SandboxChild, SandboxError, WorkspacePart, input_writer, program_lookup,
};

const NAME: &str = "none";

/// Variable that all processes of a command inherit, used to find them.
const MARK_VARIABLE: &str = "MIMIR_COMMAND";

/// The sandbox `none`.
#[derive(Debug)]
pub struct NoSandbox {
    ambient: AmbientEnvironment,
}

impl Default for NoSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl NoSandbox {
    /// Reads the environment of this process.
    pub fn new() -> Self {
        Self {
            ambient: AmbientEnvironment::of_this_process(),
        }
    }
}

impl Sandbox for NoSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe_guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<String>, SandboxError> {
        let mut lines = Vec::new();
        if cfg!(not(target_os = "linux")) {
            lines.push("untested: it compiles, but has never been run on this system".to_owned());
        }
        lines.push(
            "no isolation: commands can use all files and the network of the user who runs mimir"
                .to_owned(),
        );
        if cfg!(windows) {
            lines.push(format!(
                "by a job object: {} of memory, {} processes, processor time if a limit is set",
                mimir_core::text::bytes(bounds.memory.value()),
                bounds.processes.value()
            ));
        }
        lines.push(
            "the environment is built from scratch, and a timeout kills all started processes"
                .to_owned(),
        );
        Ok(lines)
    }

    fn guarantees(&self, _: &ResourceBounds) -> Result<Vec<PlatformGuarantee>, SandboxError> {
        let files = "commands can read and change all files of the user who runs mimir, whatever the path rules say";
        let mut guarantees = vec![
            PlatformGuarantee::refused("files of commands", files),
            PlatformGuarantee::refused("network of commands", "commands can reach every host"),
        ];
        if cfg!(windows) {
            guarantees.extend([
                PlatformGuarantee::weaker(
                    "rights of commands",
                    "commands run with the full rights of the user: no restricted token, no AppContainer",
                ),
                PlatformGuarantee::weaker(
                    "limits of commands",
                    "set by a job object, which has never been run on Windows itself",
                ),
                PlatformGuarantee::weaker(
                    "end of commands",
                    "by a job object, which has never been run on Windows itself",
                ),
            ]);
        } else {
            guarantees.extend([
                PlatformGuarantee::refused(
                    "limits of commands",
                    "memory, processes and processor time are not limited",
                ),
                PlatformGuarantee::weaker(
                    "end of commands",
                    "a process that leaves its process group and hides deliberately survives its command",
                ),
            ]);
        }
        Ok(guarantees)
    }

    fn enforces_path_rules(&self) -> bool {
        false
    }

    fn check_program(&self, program: &str, directory: &Path) -> Result<(), SandboxError> {
        program_lookup::check_program(program, &self.ambient.path, directory)
    }

    fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError> {
        let unsupported = if spec.network == CommandNetwork::Proxy {
            "network access through a proxy"
        } else if let Some(bound) = spec.bounds.first_requested().filter(|_| cfg!(not(windows))) {
            bound
        } else if !spec
            .visible_parts
            .contains(&WorkspacePart::whole_workspace())
        {
            "showing only a part of the workspace"
        } else if !spec.mounts.is_empty() {
            "mounts"
        } else {
            return Ok(());
        };
        Err(SandboxError::unsupported(
            NAME,
            unsupported,
            "commands run without a sandbox",
        ))
    }

    fn start<'a>(
        &'a self,
        spec: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>> {
        Box::pin(async move {
            self.check_support(spec)?;
            start(&self.ambient, spec)
        })
    }
}

fn start(ambient: &AmbientEnvironment, spec: &CommandSpec) -> Result<SandboxChild, SandboxError> {
    let found = program_lookup::resolve_program(&spec.program, &ambient.path, &spec.directory)?;
    let home = ambient.home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let temp = std::env::temp_dir();
    let variables = ambient.command_variables(spec, &ambient.path, &home, &temp, PROXY)?;
    let file = if found.file.is_absolute() {
        found.file
    } else {
        spec.directory.join(found.file)
    };
    let mut command = Command::new(file);
    command.args(found.arguments.get(1..).unwrap_or_default());
    #[cfg(unix)]
    if let Some(name) = found.arguments.first() {
        command.arg0(name);
    }
    spawn_command(command, variables, spec, ProcessLeader::Group, None)
        .map_err(|error| start_error(error, spec, &found.arguments))?
        .into_child(Vec::new())
}

/// Unit led by a started program. Its descendants belong to the same unit and are killed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessLeader {
    /// A process group.
    Group,
    /// A session, which has no terminal to type into.
    #[cfg(target_os = "macos")]
    Session,
    /// A session or group that the program itself begins before it runs.
    #[cfg(target_os = "linux")]
    Own,
}

/// Starts a program with only these variables. The returned value covers all its descendants. `scratch` is a folder of
/// the command alone, which is removed if this process is killed.
#[cfg_attr(
    windows,
    expect(unused_variables, reason = "no sandbox on Windows has such a folder")
)]
pub(super) fn spawn_command(
    mut command: Command,
    variables: VariableMap,
    spec: &CommandSpec,
    leader: ProcessLeader,
    scratch: Option<&Path>,
) -> io::Result<UnsandboxedCommand> {
    let mark = unique_mark();
    #[cfg(unix)]
    let mut watch = watchdog::WatchdogShell::begin(&format!("{MARK_VARIABLE}={mark}"), scratch)?;
    command
        .env_clear()
        .envs(variables)
        .env(MARK_VARIABLE, &mark)
        .current_dir(&spec.directory)
        .stdin(spec.stdin.stdio())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    match leader {
        #[cfg(unix)]
        ProcessLeader::Group => {
            command.process_group(0);
        }
        // The job of the process takes the place of a group.
        #[cfg(windows)]
        ProcessLeader::Group => {}
        #[cfg(target_os = "linux")]
        ProcessLeader::Own => {}
        #[cfg(target_os = "macos")]
        ProcessLeader::Session => spawned_process::leads_session(&mut command),
    }
    #[cfg(windows)]
    let process = {
        let limits = job_limits::JobLimits {
            memory: spec.bounds.memory.value(),
            processes: spec.bounds.processes.value(),
            cpu: spec.bounds.cpu,
        };
        spawned_process::spawn(command, limits)?
    };
    #[cfg(not(windows))]
    let process = spawned_process::spawn(command)?;
    let group = process.id();
    #[cfg(unix)]
    if let Some(group) = group {
        watch.follow(group)?;
    }
    Ok(UnsandboxedCommand {
        group,
        process,
        mark,
        exit: None,
        #[cfg(unix)]
        watch: Some(watch),
    })
}

pub(super) fn start_error(
    error: io::Error,
    spec: &CommandSpec,
    arguments: &[String],
) -> SandboxError {
    let program = arguments.first().cloned().unwrap_or_default();
    match error.kind() {
        _ if !spec.directory.is_dir() => {
            SandboxError::NoDirectory(spec.directory.display().to_string())
        }
        io::ErrorKind::PermissionDenied => SandboxError::NotExecutable {
            program,
            why: "the system refuses to run it",
        },
        io::ErrorKind::NotFound => SandboxError::NotExecutable {
            program,
            why: "the interpreter named in its first line does not exist",
        },
        _ => SandboxError::io_error("cannot start a command")(error),
    }
}

/// Returns a unique value for [`MARK_VARIABLE`].
pub(super) fn unique_mark() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_nanos());
    format!(
        "{}-{}-{now}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A running command and all its descendants.
pub(super) struct UnsandboxedCommand {
    process: spawned_process::SpawnedProcess,
    group: Option<u32>,
    mark: String,
    exit: Option<CommandExit>,
    /// Kills the command when this process dies.
    #[cfg(unix)]
    watch: Option<watchdog::WatchdogShell>,
}

impl UnsandboxedCommand {
    /// Converts the command to the type that every sandbox returns.
    pub(super) fn into_child(
        mut self,
        covered: Vec<FileIdentity>,
    ) -> Result<SandboxChild, SandboxError> {
        let (stdin, stdout, stderr) =
            spawned_process::pipes(&mut self.process).ok_or_else(|| {
                SandboxError::io_error("a command has no input or output")(
                    io::ErrorKind::BrokenPipe.into(),
                )
            })?;
        Ok(SandboxChild {
            stdin: input_writer(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            handle: Box::new(self),
            masked: covered,
        })
    }

    async fn wait_for_exit(&mut self) -> Result<CommandExit, SandboxError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = spawned_process::wait(&mut self.process)
            .await
            .map_err(SandboxError::io_error("cannot wait for a command"))?;
        // Kills background processes that the command left behind.
        signal(self.group, &self.mark, StopSignal::Kill);
        let exit = CommandExit {
            code: code(status),
            out_of_memory: false,
        };
        self.exit = Some(exit);
        #[cfg(unix)]
        {
            self.watch = None;
        }
        Ok(exit)
    }
}

impl CommandHandle for UnsandboxedCommand {
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
        Box::pin(self.wait_for_exit())
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        signal(self.group, &self.mark, StopSignal::Terminate);
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        signal(self.group, &self.mark, StopSignal::Kill);
        let _ = self.process.start_kill();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for UnsandboxedCommand {
    fn drop(&mut self) {
        if self.exit.is_none() {
            signal(self.group, &self.mark, StopSignal::Kill);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopSignal {
    Terminate,
    Kill,
}

#[cfg(unix)]
fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1)
}

#[cfg(not(unix))]
fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// Number of scans for processes of a command, which may start more of them during a scan.
#[cfg(target_os = "linux")]
const SCAN_ROUNDS: usize = 50;

/// Signals the process group of the command, and on Linux all processes that carry its mark or are in the session that
/// it leads, if it leads one.
#[cfg(unix)]
fn signal(group: Option<u32>, mark: &str, signal: StopSignal) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let number = match signal {
        StopSignal::Terminate => Signal::TERM,
        StopSignal::Kill => Signal::KILL,
    };
    let group = group.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(group) = group {
        let _ = kill_process_group(group, number);
    }
    #[cfg(target_os = "linux")]
    signal_members(group, mark, signal, number);
    #[cfg(not(target_os = "linux"))]
    let _ = mark;
}

#[cfg(target_os = "linux")]
fn signal_members(
    leader: Option<rustix::process::Pid>,
    mark: &str,
    signal: StopSignal,
    number: rustix::process::Signal,
) {
    use rustix::process::kill_process;
    let variable = format!("{MARK_VARIABLE}={mark}");
    for _ in 0..SCAN_ROUNDS {
        let mut is_empty = true;
        // Each process is killed as soon as it is found, so that it starts no others meanwhile.
        for process in members(leader, variable.as_bytes()) {
            let _ = kill_process(process, number);
            is_empty = false;
        }
        if is_empty || signal == StopSignal::Terminate {
            return;
        }
    }
}

/// Returns the live processes that are in the session of `leader` or have this environment variable.
#[cfg(target_os = "linux")]
fn members(
    leader: Option<rustix::process::Pid>,
    variable: &[u8],
) -> impl Iterator<Item = rustix::process::Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let id = rustix::process::Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let is_marked = || {
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut variables = variables.split(|byte| *byte == 0);
            variables.any(|entry| entry == variable)
        };
        let session = || live_session(&std::fs::read(entry.path().join("stat")).ok()?);
        let is_in_session = leader.is_some() && session() == leader;
        (is_in_session || is_marked()).then_some(id)
    })
}

/// Parses the session of a process from `/proc/PID/stat`. The program name, which may contain any character, is the
/// second field; the third is the state, and the sixth the session. Returns `None` for a process that has ended.
#[cfg(target_os = "linux")]
fn live_session(stat: &[u8]) -> Option<rustix::process::Pid> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    // While a process is being removed, its session is -1.
    let session = fields.nth(2)?.parse().ok().filter(|id| *id > 0)?;
    (!has_ended).then(|| rustix::process::Pid::from_raw(session))?
}

#[cfg(not(unix))]
fn signal(_: Option<u32>, _: &str, _: StopSignal) {
    // Dropping the handle closes the job object. Windows has no signal that asks a process to exit.
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn session_is_parsed_after_the_program_name() {
        let pid = |id| rustix::process::Pid::from_raw(id);
        assert_eq!(live_session(b"7 (sh) S 1 7 5 0 -1"), pid(5));
        assert_eq!(live_session(b"7 (a) S 1 2 3 (\n\xff) R 1 7 9 0"), pid(9));
        assert_eq!(live_session(b"7 (sh) Z 1 7 5 0 -1"), None);
        for bad in [
            &b""[..],
            b"7 sh S 1 7 5",
            b"7 (sh) S 1 7",
            b"7 (sh) S 1 7 x",
            b"7 (sh) S 0 -1 -1 0 -1",
        ] {
            assert_eq!(live_session(bad), None, "{bad:?}");
        }
    }
}

#[cfg(all(test, windows))]
mod windows_tests {
    use super::*;
    use mimir_core::command::CommandProgram;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn command_runs_in_its_jobs_and_returns_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["cmd", "/c", "echo out& exit 3"].map(str::to_owned);
        let program = CommandProgram::Vector(words.into());
        let spec = CommandSpec::new(program, folder.path().canonicalize().unwrap());
        let mut child = NoSandbox::new().start(&spec).await.unwrap();
        let mut output = String::new();
        child.stdout.read_to_string(&mut output).await.unwrap();
        assert_eq!(output.trim_end(), "out");
        assert_eq!(child.handle.wait().await.unwrap().code, 3);
    }
}
