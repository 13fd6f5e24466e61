//! Packages that a plugin in Rust is built from: those on this machine, which the sandbox shows, and those of the
//! registry, which are fetched before.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use mimir_core::ToolError;
use serde_json::Value;
use tokio::io::AsyncBufReadExt as _;
use tokio::process::Command;

use crate::commands::toolchains::neutral_folder;
use crate::commands::tools_build::{BuildContext, PluginFolder};
use crate::output::note;
use crate::sdk::TARGET;

/// Packages on this machine that a plugin is built from.
#[derive(Debug, Default)]
pub struct CargoPackages {
    /// Root of the Cargo workspace.
    workspace: Option<PathBuf>,
    /// Folders of the packages.
    folders: Vec<PathBuf>,
}

impl CargoPackages {
    /// Finds the packages, and fetches those of the registry that are missing on this machine.
    pub async fn fetch(
        cx: &BuildContext<'_>,
        folder: &PluginFolder,
        cargo: &Path,
    ) -> Result<Self, ToolError> {
        let command = FetchCommand::new(cx, folder, cargo);
        let mut output = command.metadata().await?;
        if !output.status.success() && is_about_missing_crates(&output.stderr) {
            note("fetching the crates of the plugin …");
            command.fetch(cx, folder).await?;
            output = command.metadata().await?;
        }
        // The build reports any other fault of the manifest.
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok(Self::from_metadata(&metadata))
    }

    fn from_metadata(metadata: &Value) -> Self {
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let folders = packages
            .filter(|package| package["source"].is_null())
            .filter_map(|package| {
                let manifest = Path::new(package["manifest_path"].as_str()?);
                manifest.parent().map(Path::to_owned)
            });
        Self {
            workspace: metadata["workspace_root"].as_str().map(PathBuf::from),
            folders: folders.collect(),
        }
    }

    /// Returns the root of the Cargo workspace, if the plugin is in it and is not the root itself.
    pub fn workspace(&self, plugin: &Path) -> Option<PathBuf> {
        let workspace = self.workspace.clone()?;
        (plugin != workspace && plugin.starts_with(&workspace)).then_some(workspace)
    }

    /// Returns the folders of packages that are not visible with the folder of the plugin and its workspace.
    pub fn folders_outside(&self, plugin: &Path) -> Vec<PathBuf> {
        let workspace = self.workspace(plugin);
        let visible = workspace.as_deref().unwrap_or(plugin);
        let folders = self.folders.iter();
        let outside = folders.filter(|folder| !folder.starts_with(visible));
        outside.cloned().collect()
    }
}

/// Returns true if cargo fails because it may not use the network.
fn is_about_missing_crates(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr);
    text.contains("--offline") || text.contains("offline mode")
}

/// Commands of cargo outside of the sandbox, which run no code of the plugin and ignore the settings in its folder.
struct FetchCommand {
    cargo: PathBuf,
    manifest: PathBuf,
    /// Setting with the location of the SDK.
    sdk: String,
}

impl FetchCommand {
    fn new(cx: &BuildContext<'_>, folder: &PluginFolder, cargo: &Path) -> Self {
        // A JSON string is also a valid TOML string.
        let sdk = Value::from(cx.sdk.package.to_string_lossy().into_owned());
        Self {
            cargo: cargo.to_owned(),
            manifest: folder.root.join("Cargo.toml"),
            sdk: format!("patch.crates-io.mimir-sdk.path={sdk}"),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command
            .args(args)
            .arg("--manifest-path")
            .arg(&self.manifest)
            .args(["--config", &self.sdk])
            .current_dir(neutral_folder().unwrap_or_default())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn metadata(&self) -> Result<Output, ToolError> {
        let platform = ["--filter-platform", TARGET];
        let mut command = self.command(&["metadata", "--offline", "--format-version", "1"]);
        command.args(platform).output().await.map_err(cannot_start)
    }

    async fn fetch(&self, cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<(), ToolError> {
        let mut command = self.command(&["fetch"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot_start)?;
        let mut messages = cx.messages(folder);
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
        Err(cx.failure(ToolError::execution(error), messages))
    }
}

fn cannot_start(error: std::io::Error) -> ToolError {
    ToolError::unavailable(format!(
        "cannot start cargo: {error}; see https://rustup.rs to install it"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cargo_packages_on_this_machine_are_visible() {
        let metadata = json!({
            "workspace_root": "/w",
            "packages": [
                {"source": null, "manifest_path": "/w/plugins/a/Cargo.toml"},
                {"source": null, "manifest_path": "/lib/b/Cargo.toml"},
                {"source": "registry+x", "manifest_path": "/cargo/c/Cargo.toml"},
            ],
        });
        let packages = CargoPackages::from_metadata(&metadata);
        let plugin = Path::new("/w/plugins/a");
        assert_eq!(packages.workspace(plugin), Some("/w".into()));
        assert_eq!(packages.folders_outside(plugin), [Path::new("/lib/b")]);
        assert_eq!(packages.workspace(Path::new("/w")), None);
        let none = CargoPackages::from_metadata(&Value::Null);
        assert!(none.workspace(plugin).is_none() && none.folders_outside(plugin).is_empty());
    }

    #[test]
    fn cargo_message_about_missing_crates_is_recognized() {
        let missing = b"error: no matching package named `serde` found\n\
            As a reminder, you're using offline mode (--offline)";
        assert!(is_about_missing_crates(missing));
        assert!(!is_about_missing_crates(b"error: failed to parse manifest"));
    }
}
