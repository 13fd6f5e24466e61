//! Start of a command in a prepared container.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures::{Stream, StreamExt as _};
use mimir_core::command::CommandProgram;
use mimir_core::text::prefix;
use mimir_net::Proxy;
use std::pin::Pin;
use tokio::io::AsyncWrite;

use super::blueprint::ContainerBlueprint;
use super::container_handle;
use super::container_processes::OomCounter;
use super::egress_proxy::{self, EgressProxy};
use super::engine::{ContainerEngine, fault, status};
use super::engine_states::inspect_container;
use super::planned_mount;
use super::pool::PooledContainer;
use super::{HOME, NAME, TEMP, path_text};
use crate::sandbox::environment::{
    PROXY, add_command_variables, add_git_settings, common_variables,
};
use crate::sandbox::git_identity::GitIdentity;
use crate::sandbox::{CommandNetwork, CommandSpec, SandboxChild, SandboxError, program_lookup};

/// Runs a script with bash if the image has it, otherwise with sh. Neither reads a start-up file.
const SHELL: &str = r#"if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc -c "$0"; fi; exec sh -c "$0""#;

/// Maximum number of bytes per read from the engine: the size of one of its frames.
const CHUNK: usize = 64 * 1024;

/// Pause between checks for the start of a program, which takes some tens of milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Time limit for reading the reason why a program has not started.
const REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of bytes of that reason, which is usually one sentence.
const MAX_REASON_BYTES: usize = 4096;

/// Maximum number of characters of the engine's text in an error message.
const MAX_ENGINE_MESSAGE: usize = 300;

/// A command in the engine's terms.
pub(super) struct ContainerCommand {
    program: String,
    arguments: Vec<String>,
    variables: Vec<String>,
    directory: String,
    /// True if the standard input is not the null device.
    reads_stdin: bool,
    proxy: Option<Proxy>,
}

/// A command that is ready to start in its container.
pub(super) struct PreparedExec {
    container: PooledContainer,
    proxy_task: Option<EgressProxy>,
    counter: OomCounter,
    exec: String,
    program: String,
    directory: String,
}

/// Output stream of a command, and the writer to its standard input.
pub(super) type ExecStream = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
pub(super) type ExecInput = Pin<Box<dyn AsyncWrite + Send>>;

impl ContainerCommand {
    pub(super) fn new(
        spec: &CommandSpec,
        git_identity: &GitIdentity,
    ) -> Result<Self, SandboxError> {
        let arguments: Vec<String> = match &spec.program {
            CommandProgram::Vector(arguments) => arguments.clone(),
            CommandProgram::Script(script) => ["sh", "-c", SHELL, script].map(str::to_owned).into(),
        };
        let program = arguments.first().filter(|name| !name.is_empty());
        let program = program.ok_or(SandboxError::NoProgram)?.clone();
        program_lookup::check_arguments(&spec.program, &arguments)?;
        Ok(Self {
            program,
            arguments,
            variables: variables(spec, git_identity)?,
            directory: path_text(spec.directory.clone())?,
            reads_stdin: !spec.stdin.is_null(),
            proxy: proxy(spec)?,
        })
    }

    /// Prepares the command in a container. Fails if the container has ended or has unexpected mounts.
    pub(super) async fn prepare(
        &self,
        container: PooledContainer,
        blueprint: &ContainerBlueprint,
    ) -> Result<PreparedExec, SandboxError> {
        let process = verify_mounts(&container, blueprint).await?;
        let proxy_task = match &self.proxy {
            Some(proxy) => {
                let find_first_process = || first_process(&container);
                Some(egress_proxy::open_proxy(process, proxy, find_first_process).await?)
            }
            None => None,
        };
        let counter = OomCounter::for_container(process, &container.id);
        let yes = Some(true);
        let options = CreateExecOptions {
            attach_stdin: Some(self.reads_stdin),
            attach_stdout: yes,
            attach_stderr: yes,
            cmd: Some(self.arguments.clone()),
            env: Some(self.variables.clone()),
            working_dir: Some(self.directory.clone()),
            ..CreateExecOptions::default()
        };
        let engine = &container.engine;
        match engine.docker.create_exec(&container.id, options).await {
            Ok(made) => Ok(PreparedExec {
                program: self.program.clone(),
                directory: self.directory.clone(),
                exec: made.id,
                container,
                proxy_task,
                counter,
            }),
            Err(error) if matches!(status(&error), Some(404 | 409)) => {
                Err(container_end_reason(&container).await)
            }
            Err(error) => Err(fault("to enter a container")(error)),
        }
    }
}

/// Returns the proxy of a command with network access.
fn proxy(spec: &CommandSpec) -> Result<Option<Proxy>, SandboxError> {
    match (spec.network, &spec.proxy) {
        (CommandNetwork::None, _) => Ok(None),
        (_, Some(proxy)) => Ok(Some(proxy.clone())),
        (_, None) => Err(SandboxError::unsupported(
            NAME,
            "network access",
            "no proxy is configured to check its requests",
        )),
    }
}

/// Compares the mounts of a container with the blueprint, from outside the container. Returns the process ID of its
/// first process.
async fn verify_mounts(
    container: &PooledContainer,
    blueprint: &ContainerBlueprint,
) -> Result<i32, SandboxError> {
    let process = first_process(container).await?;
    let result =
        planned_mount::compare(process, blueprint.workspace(), blueprint.planned_mounts()).await;
    if result.is_err() {
        // If the container has ended, its mounts cannot be read; report the end instead.
        first_process(container).await?;
    }
    result.map(|()| process)
}

/// Returns the process ID of the first process of a running container.
async fn first_process(container: &PooledContainer) -> Result<i32, SandboxError> {
    let docker = &container.engine.docker;
    let container_info = match inspect_container(docker, &container.id).await {
        Ok(container_info) => container_info,
        Err(error) if status(&error) == Some(404) => {
            return Err(container_end_reason(container).await);
        }
        Err(error) => return Err(fault("to report whether a container runs")(error)),
    };
    let state = container_info
        .state
        .filter(|state| state.running != Some(false));
    let process = state.and_then(|state| i32::try_from(state.pid?).ok());
    match process.filter(|process| *process > 0) {
        Some(process) => Ok(process),
        None => Err(container_end_reason(container).await),
    }
}

/// Explains why a container has ended unexpectedly: exit code 126 or 127 means that the image lacks `sh` or `cat`.
async fn container_end_reason(container: &PooledContainer) -> SandboxError {
    let docker = &container.engine.docker;
    let found = inspect_container(docker, &container.id).await;
    let code = found.ok().and_then(|found| found.state?.exit_code);
    match code {
        Some(126 | 127) => container.bad_image(),
        code => SandboxError::Engine {
            doing: "to keep a container running",
            why: code.map_or_else(
                || "it no longer exists".to_owned(),
                |code| format!("it ended with exit code {code}"),
            ),
        },
    }
}

/// Builds the environment of the command, which overrides variables of the image.
fn variables(spec: &CommandSpec, git_identity: &GitIdentity) -> Result<Vec<String>, SandboxError> {
    let mut variables = common_variables(spec, HOME.as_ref(), TEMP.as_ref());
    add_git_settings(&mut variables, git_identity.pairs());
    add_command_variables(&mut variables, spec, PROXY)?;
    let pairs = variables.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        path_text(name.into())
    });
    pairs.collect()
}

impl PreparedExec {
    /// Starts the command, and returns once the program runs. Calls `on_end` when it has ended.
    pub(super) async fn begin(
        self,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<SandboxChild, SandboxError> {
        let docker = &self.container.engine.docker;
        let options = StartExecOptions {
            output_capacity: Some(CHUNK),
            ..StartExecOptions::default()
        };
        let (mut output, input) = match docker.start_exec(&self.exec, Some(options)).await {
            Ok(StartExecResults::Attached { output, input }) => {
                (output as ExecStream, input as ExecInput)
            }
            Ok(StartExecResults::Detached) => {
                return Err(SandboxError::Engine {
                    doing: "to start a command",
                    why: "the engine did not attach its input and output".to_owned(),
                });
            }
            Err(error) if matches!(status(&error), Some(404 | 409)) => {
                return Err(container_end_reason(&self.container).await);
            }
            // Some engines detect a program that cannot be started before they respond.
            Err(error) if status(&error).is_some() => {
                let fault = fault("to start a command")(error);
                return Err(self.runtime_refusal(&fault.to_string()).unwrap_or(fault));
            }
            Err(error) => return Err(fault("to start a command")(error)),
        };
        if let Some(code) = wait_until_started(&self.container.engine, &self.exec).await? {
            let why = read_reason(&mut output).await;
            if let Some(fault) = self.runtime_refusal(&String::from_utf8_lossy(&why)) {
                return Err(fault);
            }
            // Some engines forget the process ID of an ended program; this is its real output then.
            let first_output = futures::stream::iter([Ok(LogOutput::StdOut {
                message: why.into(),
            })]);
            output = Box::pin(first_output.chain(output));
            tracing::trace!(code, "a command ended before its first status check");
        }
        Ok(container_handle::follow_command(
            self.container,
            (self.exec, self.counter),
            output,
            input,
            move || {
                drop(self.proxy_task);
                on_end();
            },
        ))
    }

    /// Converts a message of the engine's runtime, received instead of program output, into an error.
    fn runtime_refusal(&self, message: &str) -> Option<SandboxError> {
        let of_runtime = ["OCI runtime", "exec failed", "crun: ", "runc: "];
        if !of_runtime.iter().any(|text| message.contains(text)) {
            return None;
        }
        let not_executable = |why| SandboxError::NotExecutable {
            program: self.program.clone(),
            why,
        };
        let has = |text: &str| message.contains(text);
        Some(if has("chdir") {
            SandboxError::NoDirectory(self.directory.clone())
        } else if has("executable file not found") || has("no such file or directory") {
            SandboxError::not_found(&self.program, [])
        } else if has("permission denied") {
            not_executable("the system refuses to run it")
        } else if has("is a directory") {
            not_executable("it is a folder")
        } else if has("exec format error") {
            not_executable("it is built for another type of machine")
        } else {
            SandboxError::Engine {
                doing: "to start a command",
                why: prefix(message.trim(), MAX_ENGINE_MESSAGE).to_owned(),
            }
        })
    }
}

/// Waits until the program runs. Returns the engine's exit code (126 or 127) if the program has not started.
async fn wait_until_started(
    engine: &ContainerEngine,
    exec: &str,
) -> Result<Option<i64>, SandboxError> {
    loop {
        let state = engine.docker.inspect_exec(exec).await;
        let state = match state {
            Err(error) if status(&error).is_some() => return Ok(None),
            state => state.map_err(fault("to report whether a command runs"))?,
        };
        let began = state.pid.is_some_and(|pid| pid > 0);
        match state.exit_code.filter(|_| state.running != Some(true)) {
            Some(code) if !began && matches!(code, 126 | 127) => return Ok(Some(code)),
            Some(_) => return Ok(None),
            None if began && state.running == Some(true) => return Ok(None),
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Reads the engine's message in place of program output.
async fn read_reason(output: &mut ExecStream) -> Vec<u8> {
    let mut text = Vec::new();
    let read = async {
        while text.len() < MAX_REASON_BYTES
            && let Some(Ok(part)) = output.next().await
        {
            text.extend_from_slice(&part.into_bytes());
        }
    };
    let _ = tokio::time::timeout(REASON_TIMEOUT, read).await;
    text
}
