//! Commands that build plugins: compilers, and the code of a plugin that they run, such as build scripts.
//!
//! They run in the sandbox of commands. The folder of the plugin is read-only except for the folders of the build, and
//! there is no network unless the user asks for it.
//!
//! Out of scope: finding compilers, and their arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::ToolErrorCode;
use mimir_core::command::CommandTarget;
use mimir_core::command::{CommandOutput, CommandProgram, CommandRequest, CommandStream};
use mimir_core::config::{SandboxMode, SandboxSettings};
use mimir_net::Proxy;

use crate::command_settings::settings_for_target;
use crate::inherited_env;
use crate::run::run;
use crate::runner::ReadySandbox;
use crate::sandbox::{CommandNetwork, CommandSpec, HostMount, SandboxError, WorkspacePart};

/// Maximum number of bytes of each output to store.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum length of a reported line in bytes. The rest of a longer line is discarded.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Folders that commands see in every sandbox, so that no mount is needed for what is below.
const VISIBLE_FOLDERS: [&str; 3] = ["/usr", "/bin", "/opt"];

/// Command of a build.
#[derive(Clone)]
pub struct BuildCommand {
    /// Program and arguments. The program is an absolute path, found outside of the plugin's folder.
    pub args: Vec<String>,
    /// Folder of the sources, read-only except for `writable`.
    pub folder: PathBuf,
    /// Working directory: `folder`, or a folder in it.
    pub directory: PathBuf,
    /// Existing folders in `folder` that the build may change.
    pub writable: Vec<PathBuf>,
    /// Toolchains and SDKs outside of `folder`, visible and read-only. Paths that do not exist are left out.
    pub read_only: Vec<PathBuf>,
    /// Existing cache folders of compilers outside of `folder`. The build may change them.
    pub caches: Vec<PathBuf>,
    /// Environment variables, in addition to the default ones.
    pub environment: Vec<(String, String)>,
    /// Network access.
    pub network: BuildNetwork,
    /// Time limit.
    pub timeout: Duration,
}

/// Network access of a build.
#[derive(Clone, Default)]
pub enum BuildNetwork {
    /// No network.
    #[default]
    Off,
    /// The hosts that the proxy allows. Without a sandbox, every host.
    Proxied(Proxy),
}

/// Reason why a command of a build did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum BuildCommandError {
    /// The settings select no sandbox, and the network of the build must be off.
    #[error("the sandbox mode `none` cannot switch the network of a build off")]
    OpenNetwork,
    /// No sandbox is available on this machine.
    #[error("plugins are built in a sandbox, and none is available: {0}")]
    NoSandbox(SandboxError),
    /// The build took too long.
    #[error("the build took longer than {} min and was stopped", .0.as_secs().div_ceil(60))]
    Timeout(Duration),
    /// Any other reason.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl From<BuildCommandError> for ToolError {
    fn from(error: BuildCommandError) -> Self {
        let message = error.to_string();
        match error {
            BuildCommandError::OpenNetwork => {
                ToolError::unavailable(message).with_remedies([
                    "set `sandbox: auto` in your config".to_owned(),
                    "pass --network to build without a sandbox and with the network".to_owned(),
                ])
            }
            BuildCommandError::NoSandbox(_) => ToolError::unavailable(message).with_remedies([
                "`mimir doctor` shows what the sandbox needs".to_owned(),
                "set `sandbox: none` in your user settings and pass --network, to build with all of your rights"
                    .to_owned(),
            ]),
            BuildCommandError::Timeout(_) => ToolError::new(ToolErrorCode::Timeout, message),
            BuildCommandError::Sandbox(fault) => fault.into(),
        }
    }
}

/// Callback for lines of output as they arrive, without their line breaks.
pub type LineCallback<'a> = &'a mut (dyn FnMut(CommandStream, &str) + Send);

/// Runs a command of a build to its end. Dropping the future kills it with all processes that it started.
pub async fn run_build(
    settings: &SandboxSettings,
    command: &BuildCommand,
    on_line: LineCallback<'_>,
) -> Result<CommandOutput, BuildCommandError> {
    let settings = settings_for_target(settings, CommandTarget::HostPrograms)?;
    let is_unsandboxed = settings.mode == Some(SandboxMode::None);
    if is_unsandboxed && matches!(command.network, BuildNetwork::Off) {
        return Err(BuildCommandError::OpenNetwork);
    }
    let settings = SandboxSettings {
        // Folders that the user mounts for commands are not for builds.
        bind_mounts: Vec::new(),
        network_access: None,
        ..settings
    };
    let chosen = ReadySandbox::choose(&command.folder, settings).await;
    let ready = chosen.map_err(|fault| match fault {
        SandboxError::Unavailable { .. } => BuildCommandError::NoSandbox(fault),
        fault => fault.into(),
    })?;
    let spec = command_spec(&ready, command)?;
    let _created_folder = CreatedFolder::new(&ready);
    let mut lines = LineSplitter::default();
    let finished = run(ready.sandbox(), &spec, &mut |stream, bytes| {
        lines.add(stream, bytes, on_line);
    })
    .await;
    lines.end(on_line);
    finished.map_err(|fault| match fault {
        SandboxError::Timeout(_) => BuildCommandError::Timeout(command.timeout),
        fault => fault.into(),
    })
}

fn command_spec(
    ready: &ReadySandbox,
    command: &BuildCommand,
) -> Result<CommandSpec, BuildCommandError> {
    let mut spec = ready.spec_of_command(&CommandRequest {
        program: CommandProgram::Vector(command.args.clone()),
        directory: None,
        environment: command.environment.clone(),
        stdin: Vec::new(),
        timeout: None,
        target: CommandTarget::HostPrograms,
    })?;
    "tools build".clone_into(&mut spec.tool);
    spec.directory = canonical(&command.directory)?;
    if !spec.directory.starts_with(&spec.workspace) {
        let outside = command.directory.display().to_string();
        return Err(SandboxError::Outside(outside).into());
    }
    spec.timeout = Some(command.timeout);
    spec.output_limit = MAX_OUTPUT_BYTES;
    if !ready.sandbox().enforces_path_rules() {
        inherited_env::pass_variables(&mut spec.environment);
        return Ok(spec);
    }
    let part = |below: &Path, writable| WorkspacePart {
        below: below.to_owned(),
        writable,
    };
    spec.visible_parts = vec![part(Path::new(""), false)];
    for folder in &command.writable {
        let below = folder.strip_prefix(&command.folder).unwrap_or(folder);
        spec.visible_parts.push(part(below, true));
    }
    for path in command.read_only.iter().filter(|path| path.exists()) {
        let real = canonical(path)?;
        let is_visible = VISIBLE_FOLDERS.iter().any(|at| real.starts_with(at));
        if !is_visible && !real.starts_with(&spec.workspace) {
            spec.mounts.push(HostMount {
                from: real,
                at: path.clone(),
                writable: false,
            });
        }
    }
    for path in &command.caches {
        let real = canonical(path)?;
        spec.private_mounts.push(real.clone());
        spec.mounts.push(HostMount {
            from: real,
            at: path.clone(),
            writable: true,
        });
    }
    spec.network = CommandNetwork::None;
    if let BuildNetwork::Proxied(proxy) = &command.network {
        spec.network = CommandNetwork::Proxy;
        spec.proxy = Some(proxy.clone());
        inherited_env::trust_certificates(&mut spec);
    }
    Ok(spec)
}

fn canonical(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize()
        .map_err(|_| SandboxError::NoDirectory(path.display().to_string()))
}

/// The settings folder that the sandbox creates in each workspace without one. It is removed after the build, because it
/// would make the folder of the plugin a workspace.
struct CreatedFolder(Option<PathBuf>);

impl CreatedFolder {
    fn new(ready: &ReadySandbox) -> Self {
        let folder = ready.workspace().join(".mimir");
        Self((!folder.exists()).then_some(folder))
    }
}

impl Drop for CreatedFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // Fails if it is not empty, because another program has put files there.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Splits the two outputs of a command into lines, in bounded memory.
#[derive(Default)]
struct LineSplitter {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl LineSplitter {
    fn add(&mut self, stream: CommandStream, bytes: &[u8], on_line: LineCallback<'_>) {
        let line = match stream {
            CommandStream::Stdout => &mut self.stdout,
            CommandStream::Stderr => &mut self.stderr,
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let capacity = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend(part.iter().take(capacity));
            if part.ends_with(b"\n") {
                report_line(stream, line, on_line);
                line.clear();
            }
        }
    }

    /// Reports unfinished lines, after the command has ended.
    fn end(self, on_line: LineCallback<'_>) {
        for (stream, line) in [
            (CommandStream::Stdout, self.stdout),
            (CommandStream::Stderr, self.stderr),
        ] {
            if !line.is_empty() {
                report_line(stream, &line, on_line);
            }
        }
    }
}

fn report_line(stream: CommandStream, line: &[u8], on_line: LineCallback<'_>) {
    let text = String::from_utf8_lossy(line);
    on_line(stream, text.trim_end_matches(['\n', '\r']));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_split_into_lines_per_stream() {
        let mut lines = LineSplitter::default();
        let mut seen = Vec::new();
        let mut report = |stream, line: &str| seen.push((stream, line.to_owned()));
        lines.add(CommandStream::Stderr, b"a\r\nb", &mut report);
        lines.add(CommandStream::Stdout, b"{}\n", &mut report);
        lines.add(CommandStream::Stderr, b"c", &mut report);
        lines.end(&mut report);
        let expected = [
            (CommandStream::Stderr, "a"),
            (CommandStream::Stdout, "{}"),
            (CommandStream::Stderr, "bc"),
        ];
        let expected = expected.map(|(stream, line)| (stream, line.to_owned()));
        assert_eq!(seen, expected);
    }

    #[test]
    fn build_line_without_end_takes_bounded_memory() {
        let mut lines = LineSplitter::default();
        let mut longest = 0;
        let chunk = vec![b'x'; MAX_LINE_BYTES];
        for _ in 0..3 {
            lines.add(CommandStream::Stdout, &chunk, &mut |_, _| {
                panic!("no line ended")
            });
        }
        lines.end(&mut |_, line| longest = line.len());
        assert_eq!(longest, MAX_LINE_BYTES);
    }
}
