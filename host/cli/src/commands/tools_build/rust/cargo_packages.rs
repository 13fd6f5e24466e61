//! Packages that a plugin in Rust is built from: the Cargo workspace on this machine, which the sandbox shows, and those
//! of the registry, which are fetched before.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::reject_links;
use mimir_core::text::visible;
use serde_json::Value;

use super::cargo_command::CargoCommand;
use super::package_sources::PackageFolders;
use crate::commands::tools_build::{BuildContext, PluginFolder};
use crate::output::note;
use mimir::file_error::file_error;

/// The Cargo workspace of a plugin. A plugin without one is its own workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoWorkspace {
    root: PathBuf,
}

impl CargoWorkspace {
    /// Finds the workspace. Returns `None` if cargo rejects the manifest of the plugin, which the build reports. Fails if
    /// cargo would write its `Cargo.lock` through a link.
    pub async fn find(cargo: &CargoCommand<'_>, plugin: &Path) -> Result<Option<Self>, ToolError> {
        let Some(manifest) = cargo.workspace_manifest().await? else {
            return Ok(None);
        };
        Self::at(&manifest, plugin).map(Some)
    }

    fn at(manifest: &Path, plugin: &Path) -> Result<Self, ToolError> {
        let folder = manifest.parent().unwrap_or(manifest);
        let root = folder
            .canonicalize()
            .map_err(|error| file_error("find", folder, &error))?;
        // The manifest of the plugin can name any folder.
        if !plugin.starts_with(&root) {
            let shown = visible(&root.display().to_string());
            return Err(ToolError::invalid_input(format!(
                "its Cargo workspace is {shown}: expected the folder of the plugin, or one above it"
            )));
        }
        let workspace = Self { root };
        let lock = workspace.lock_file();
        reject_links(&workspace.root, &lock).map_err(|error| file_error("write", &lock, &error))?;
        Ok(workspace)
    }

    /// Returns the path of `Cargo.lock`.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("Cargo.lock")
    }

    /// Returns the root of the workspace, if the plugin is not the root itself.
    pub fn root_above(&self, plugin: &Path) -> Option<PathBuf> {
        (plugin != self.root).then(|| self.root.clone())
    }

    /// Fetches the packages of the registry that are missing on this machine, and checks where the others are.
    pub async fn fetch_packages(
        &self,
        cx: &BuildContext<'_>,
        folder: &PluginFolder,
        cargo: &CargoCommand<'_>,
    ) -> Result<(), ToolError> {
        let folders = PackageFolders {
            plugin: folder.root.clone(),
            workspace: self.root.clone(),
            sdk: cx.sdk.root.clone(),
        };
        let mut output = cargo.metadata().await?;
        if !output.status.success() && is_about_missing_crates(&output.stderr) {
            folders.check_before_fetch(cargo, cx.has_network()).await?;
            note("fetching the crates of the plugin …");
            cargo.fetch().await?;
            output = cargo.metadata().await?;
        }
        // The build reports any other fault of the manifest.
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        folders.check_packages(&metadata)
    }
}

/// Returns true if cargo fails because it may not use the network.
fn is_about_missing_crates(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr);
    text.contains("--offline") || text.contains("offline mode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_workspace_is_the_plugin_or_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().canonicalize().unwrap();
        let (plugin, below) = (above.join("plugin"), above.join("plugin/below"));
        std::fs::create_dir_all(&below).unwrap();
        let find = |root: &Path| CargoWorkspace::at(&root.join("Cargo.toml"), &plugin);
        assert_eq!(find(&plugin).unwrap().root_above(&plugin), None);
        let workspace = find(&above).unwrap();
        assert_eq!(workspace.root_above(&plugin), Some(above.clone()));
        let error = find(&below).unwrap_err();
        assert!(error.message.contains("expected the folder"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn cargo_workspace_with_a_linked_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/outside", root.join("Cargo.lock")).unwrap();
        let refused = CargoWorkspace::at(&root.join("Cargo.toml"), &root.join("plugin"));
        assert!(refused.is_err());
    }

    #[test]
    fn cargo_message_about_missing_crates_is_recognized() {
        let missing = b"error: no matching package named `serde` found\n\
            As a reminder, you're using offline mode (--offline)";
        assert!(is_about_missing_crates(missing));
        assert!(!is_about_missing_crates(b"error: failed to parse manifest"));
    }
}
