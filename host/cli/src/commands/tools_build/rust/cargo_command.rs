//! Commands of cargo outside of the sandbox. They run no code of the plugin, and ignore the settings in its folder.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use mimir_core::ToolError;
use serde_json::Value;
use tokio::io::AsyncBufReadExt as _;
use tokio::process::Command;

use crate::commands::toolchains::ProgramSearch;
use crate::commands::tools_build::{BuildContext, PluginFolder};
use crate::sdk::TARGET;

/// Cargo, and the plugin that its commands are about.
pub struct CargoCommand<'a> {
    cx: &'a BuildContext<'a>,
    folder: &'a PluginFolder,
    search: &'a ProgramSearch,
    cargo: &'a Path,
}

impl<'a> CargoCommand<'a> {
    /// Creates the commands.
    pub fn new(
        cx: &'a BuildContext<'a>,
        folder: &'a PluginFolder,
        search: &'a ProgramSearch,
        cargo: &'a Path,
    ) -> Self {
        Self {
            cx,
            folder,
            search,
            cargo,
        }
    }

    /// Returns the manifest of the plugin's Cargo workspace, or `None` if cargo rejects the manifest of the plugin. Writes
    /// nothing.
    pub async fn workspace_manifest(&self) -> Result<Option<PathBuf>, ToolError> {
        let args = ["locate-project", "--workspace", "--offline"];
        let output = self.output(&args, &self.manifest()).await?;
        let located: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok(located["root"].as_str().map(PathBuf::from))
    }

    /// Returns the packages that the plugin is built from. Writes `Cargo.lock` if it is missing.
    pub async fn metadata(&self) -> Result<Output, ToolError> {
        let args = [
            "metadata",
            "--offline",
            "--format-version=1",
            "--filter-platform",
            TARGET,
        ];
        self.output(&args, &self.manifest()).await
    }

    /// Returns the packages of a Cargo workspace with their declared dependencies. Writes nothing.
    pub async fn members(&self, manifest: &Path) -> Result<Output, ToolError> {
        let args = ["metadata", "--offline", "--format-version=1", "--no-deps"];
        self.output(&args, manifest).await
    }

    /// Fetches the crates of the plugin, with the network.
    pub async fn fetch(&self) -> Result<(), ToolError> {
        let mut command = self.command(&["fetch"], &self.manifest());
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot_start)?;
        let mut messages = self.cx.messages(self.folder);
        if let Some(stderr) = child.stderr.take() {
            let mut lines = tokio::io::BufReader::new(stderr).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                messages.add(&String::from_utf8_lossy(&line));
            }
        }
        let status = child.wait().await.map_err(cannot_start)?;
        if status.success() {
            return Ok(());
        }
        let error = "cargo could not fetch the crates of the plugin; its messages are above";
        Err(self.cx.failure(ToolError::execution(error), messages))
    }

    fn manifest(&self) -> PathBuf {
        self.folder.root.join("Cargo.toml")
    }

    async fn output(&self, args: &[&str], manifest: &Path) -> Result<Output, ToolError> {
        let mut command = self.command(args, manifest);
        command.output().await.map_err(cannot_start)
    }

    fn command(&self, args: &[&str], manifest: &Path) -> Command {
        // A JSON string is also a valid TOML string.
        let sdk = Value::from(self.cx.sdk.package.to_string_lossy().into_owned());
        let mut command = Command::from(self.search.command(self.cargo));
        command
            .args(args)
            .arg("--manifest-path")
            .arg(manifest)
            .arg("--config")
            .arg(format!("patch.crates-io.mimir-sdk.path={sdk}"))
            .args(["--config", "net.git-fetch-with-cli=false"])
            .kill_on_drop(true);
        command
    }
}

fn cannot_start(error: std::io::Error) -> ToolError {
    ToolError::unavailable(format!(
        "cannot start cargo: {error}; see https://rustup.rs to install it"
    ))
}
