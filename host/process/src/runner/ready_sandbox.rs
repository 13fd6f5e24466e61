//! A chosen sandbox with its workspace, and the specs of the commands in it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use mimir_core::command::{CommandProgram, CommandRequest};
use mimir_core::config::SandboxSettings;
use mimir_core::needs::DirectoryAccess;
use mimir_core::pipeline::PermittedCommand;

use crate::command_proxy::{self, Refusals};
use crate::sandbox::{
    ChosenSandbox, CommandNetwork, CommandSpec, CommandStdin, Sandbox, SandboxError, WorkspacePart,
    choose_sandbox,
};

/// Maximum size in bytes of each stored output. A model is shown a tenth of that.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// A chosen sandbox, and the workspace of its commands.
pub(crate) struct ReadySandbox {
    /// The canonical path of the workspace.
    pub(super) workspace: PathBuf,
    chosen: ChosenSandbox,
    /// True if bash runs scripts.
    bash: OnceLock<bool>,
}

impl ReadySandbox {
    /// Chooses the configured sandbox, on a blocking thread, since the choice runs a trial command or waits for
    /// container engines.
    pub(crate) async fn choose(
        workspace: &Path,
        settings: SandboxSettings,
    ) -> Result<Self, SandboxError> {
        let workspace = workspace.to_owned();
        let choose = move || Self::new(&workspace, choose_sandbox(&settings)?);
        let chosen = tokio::task::spawn_blocking(choose).await;
        chosen.map_err(|error| SandboxError::Io {
            doing: "cannot choose a sandbox",
            error: error.into(),
        })?
    }

    /// Creates the sandbox for a workspace. Fails if the workspace does not exist.
    pub(crate) fn new(workspace: &Path, chosen: ChosenSandbox) -> Result<Self, SandboxError> {
        let missing = |_| SandboxError::NoDirectory(workspace.display().to_string());
        let workspace = workspace.canonicalize().map_err(missing)?;
        let bash = OnceLock::new();
        Ok(Self {
            workspace,
            chosen,
            bash,
        })
    }

    pub(crate) fn sandbox(&self) -> &dyn Sandbox {
        &*self.chosen.sandbox
    }

    /// Returns the canonical path of the workspace.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns true if bash runs scripts. The content of an image is unknown, so containers count as running `sh`.
    pub(super) fn runs_bash(&self) -> bool {
        let has_bash = || {
            self.sandbox()
                .check_program("bash", &self.workspace)
                .is_ok()
        };
        self.sandbox().name() != "container" && *self.bash.get_or_init(has_bash)
    }

    pub(super) fn spec(
        &self,
        permitted: &PermittedCommand,
        timeout: Option<Duration>,
    ) -> Result<CommandSpec, SandboxError> {
        let parts = permitted.files().iter().map(|need| WorkspacePart {
            below: match need.path.as_str() {
                "." => PathBuf::new(),
                path => path.into(),
            },
            writable: need.access == DirectoryAccess::ReadWrite,
        });
        let refusals = Refusals::default();
        let network = if permitted.network().is_limited() {
            self.limited_network()?
        } else {
            self.chosen.network
        };
        let output_bytes = permitted.limits().output_bytes.min(MAX_OUTPUT_BYTES);
        Ok(CommandSpec {
            visible_parts: parts.collect(),
            path_rules: permitted.paths().clone(),
            tool: permitted.tool().name().to_string(),
            output_limit: usize::try_from(output_bytes).unwrap_or(usize::MAX),
            timeout,
            network,
            proxy: (network == CommandNetwork::Proxy)
                .then(|| command_proxy::proxy_for_command(permitted, &self.workspace, &refusals)),
            refusals,
            ..self.spec_of_command(permitted.command())?
        })
    }

    /// Returns the network of a command that may reach certain hosts only. Fails if the sandbox has no proxy, or if the
    /// settings deny the network. Without a sandbox, the command has the network of this machine.
    fn limited_network(&self) -> Result<CommandNetwork, SandboxError> {
        if self.chosen.network == CommandNetwork::Host {
            return Ok(CommandNetwork::Host);
        }
        if self.chosen.denies_network {
            return Err(SandboxError::unsupported(
                self.sandbox().name(),
                "a command with network access",
                "the settings set `sandbox.networkAccess: false`",
            ));
        }
        let program = CommandProgram::Vector(Vec::new());
        self.sandbox().check_support(&CommandSpec {
            bounds: self.chosen.bounds,
            mounts: self.chosen.mounts.clone(),
            network: CommandNetwork::Proxy,
            ..CommandSpec::new(program, self.workspace.clone())
        })?;
        Ok(CommandNetwork::Proxy)
    }

    pub(crate) fn spec_of_command(
        &self,
        command: &CommandRequest,
    ) -> Result<CommandSpec, SandboxError> {
        let workspace = &self.workspace;
        let mut spec = CommandSpec::new(command.program.clone(), workspace.clone());
        if let Some(directory) = &command.directory {
            spec.directory = resolve_folder(workspace, directory)?;
        }
        spec.environment.clone_from(&command.environment);
        spec.stdin = CommandStdin::bytes(command.stdin.clone());
        spec.bounds = self.chosen.bounds;
        spec.mounts.clone_from(&self.chosen.mounts);
        spec.network = self.chosen.network;
        Ok(spec)
    }
}

/// Resolves a folder of the workspace. Fails if the folder is outside, directly or through links.
fn resolve_folder(workspace: &Path, directory: &str) -> Result<PathBuf, SandboxError> {
    let missing = || SandboxError::NoDirectory(directory.to_owned());
    let real = workspace
        .join(directory)
        .canonicalize()
        .map_err(|_| missing())?;
    if !real.starts_with(workspace) {
        return Err(SandboxError::Outside(directory.to_owned()));
    }
    if !real.is_dir() {
        return Err(SandboxError::NotDirectory(directory.to_owned()));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;
    use mimir_core::command::CommandTarget;
    use mimir_core::config::SandboxMode;

    fn ready(workspace: &Path) -> Result<ReadySandbox, SandboxError> {
        let settings = SandboxSettings {
            mode: Some(SandboxMode::None),
            ..SandboxSettings::default()
        };
        ReadySandbox::new(workspace, choose_sandbox(&settings).unwrap())
    }

    fn command(directory: Option<&str>) -> CommandRequest {
        CommandRequest {
            program: CommandProgram::Vector(vec!["true".into()]),
            directory: directory.map(str::to_owned),
            environment: vec![("A".into(), "b".into())],
            stdin: b"x".to_vec(),
            timeout: None,
            target: CommandTarget::Default,
        }
    }

    #[test]
    fn command_directory_must_be_inside_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir_all(workspace.join("sub")).unwrap();
        std::fs::write(workspace.join("file"), "").unwrap();
        let ready = ready(&workspace).unwrap();
        let real = workspace.canonicalize().unwrap();
        let spec_in = |directory: Option<&str>| ready.spec_of_command(&command(directory));
        assert_eq!(spec_in(None).unwrap().directory, real);
        let spec = spec_in(Some("./sub/../sub")).unwrap();
        assert_eq!(spec.directory, real.join("sub"));
        assert_eq!(spec.environment.len(), 1);
        assert_eq!(spec.stdin, CommandStdin::Bytes(b"x".to_vec()));
        for (directory, code) in [
            ("..", ToolErrorCode::InvalidPath),
            ("/", ToolErrorCode::InvalidPath),
            ("sub/../..", ToolErrorCode::InvalidPath),
            ("nowhere", ToolErrorCode::FileNotFound),
            ("file", ToolErrorCode::FileNotFound),
        ] {
            assert_eq!(
                spec_in(Some(directory)).unwrap_err().code(),
                code,
                "{directory}"
            );
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/", workspace.join("link")).unwrap();
            assert_eq!(
                spec_in(Some("link")).unwrap_err().code(),
                ToolErrorCode::InvalidPath
            );
        }
    }

    #[test]
    fn workspace_that_does_not_exist_is_an_error() {
        let error = ready(Path::new("/nowhere/at/all")).err().unwrap();
        assert_eq!(error.code(), ToolErrorCode::FileNotFound);
    }
}
