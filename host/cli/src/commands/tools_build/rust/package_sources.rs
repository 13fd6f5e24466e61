//! Checks of where the packages of a plugin come from: folders that the sandbox may show, and registries that may be
//! reached outside of it.
//!
//! Sandboxed code can write into the target folder. Were a dependency there, its manifest could make `cargo fetch` send
//! data to an address of its choice.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};
use mimir_core::text::visible;
use serde_json::Value;

use super::TARGET_FOLDER;
use super::cargo_command::CargoCommand;
use crate::commands::tools_build::BUILD_FOLDER;
use mimir::file_error::file_error;

/// Source of the packages of crates.io, in the metadata of cargo.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Tables of a manifest that replace packages.
const REPLACEMENTS: [&str; 2] = ["patch", "replace"];

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_SIZE: u64 = 1 << 20;

/// Folders in which a plugin may have dependencies.
#[derive(Debug, Clone, Default)]
pub struct PackageFolders {
    /// Folder of the plugin.
    pub plugin: PathBuf,
    /// Root of its Cargo workspace.
    pub workspace: PathBuf,
    /// Folder of the SDKs.
    pub sdk: PathBuf,
}

impl PackageFolders {
    /// Fails if a package is outside of the folders, or in a folder that builds write.
    pub fn check(&self, name: &str, folder: &Path) -> Result<(), ToolError> {
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let real = canonical(folder);
        let shown = |path: &Path| visible(&path.display().to_string());
        let (name, place) = (visible(name), shown(folder));
        for written in [TARGET_FOLDER, BUILD_FOLDER].map(|name| self.plugin.join(name)) {
            if real.starts_with(&written) || folder.starts_with(&written) {
                return Err(ToolError::invalid_input(format!(
                    "its dependency `{name}` is in {place}, where builds write: move it to another folder of the plugin"
                )));
            }
        }
        let allowed = [&self.plugin, &self.workspace, &self.sdk];
        if allowed.iter().any(|root| real.starts_with(canonical(root))) {
            return Ok(());
        }
        Err(ToolError::invalid_input(format!(
            "its dependency `{name}` is in {place}, outside of the plugin: move it into the folder of the plugin, or make \
             a Cargo workspace that contains both"
        )))
    }

    /// Checks the packages in the metadata of cargo that are on this machine.
    pub fn check_packages(&self, metadata: &Value) -> Result<(), ToolError> {
        for package in array(&metadata["packages"]) {
            if package["source"].is_null()
                && let Some(folder) = manifest_of(package).as_deref().and_then(Path::parent)
            {
                self.check(package["name"].as_str().unwrap_or_default(), folder)?;
            }
        }
        Ok(())
    }

    /// Checks all dependencies that manifests on this machine declare, before cargo fetches them. Without
    /// `with_network`, only crates.io is allowed.
    pub async fn check_before_fetch(
        &self,
        cargo: &CargoCommand<'_>,
        with_network: bool,
    ) -> Result<(), ToolError> {
        let mut manifests = vec![self.plugin.join("Cargo.toml")];
        for replacement in self.replacements()? {
            manifests.extend(self.check_dependency(&replacement, with_network)?);
        }
        let mut checked = HashSet::new();
        while let Some(manifest) = manifests.pop() {
            if !checked.insert(manifest.clone()) {
                continue;
            }
            let output = cargo.members(&manifest).await?;
            let metadata = serde_json::from_slice::<Value>(&output.stdout);
            let Ok(metadata) = metadata.map_err(drop) else {
                let shown = visible(&manifest.display().to_string());
                return Err(ToolError::invalid_input(format!(
                    "cargo cannot read {shown}: run `cargo fetch` in the plugin's folder, which shows the reason"
                )));
            };
            self.check_packages(&metadata)?;
            for package in array(&metadata["packages"]) {
                checked.extend(manifest_of(package));
                for dependency in array(&package["dependencies"]) {
                    let dependency = DeclaredDependency::from_metadata(dependency);
                    manifests.extend(self.check_dependency(&dependency, with_network)?);
                }
            }
        }
        Ok(())
    }

    /// Checks a dependency. Returns its manifest if it is on this machine.
    fn check_dependency(
        &self,
        dependency: &DeclaredDependency,
        with_network: bool,
    ) -> Result<Option<PathBuf>, ToolError> {
        let name = visible(&dependency.name);
        match &dependency.origin {
            PackageOrigin::Folder(folder) => {
                self.check(&name, folder)?;
                Ok(Some(folder.join("Cargo.toml")))
            }
            PackageOrigin::Other(source) if !with_network => {
                let source = visible(source);
                Err(ToolError::unavailable(format!(
                    "its crate `{name}` comes from {source}, and only crates of crates.io are fetched by default: pass \
                     --network, or run `cargo fetch` in the plugin's folder first"
                )))
            }
            PackageOrigin::CratesIo | PackageOrigin::Other(_) => Ok(None),
        }
    }

    /// Returns the packages in the manifest of the workspace that replace others. The metadata of cargo leaves them out.
    fn replacements(&self) -> Result<Vec<DeclaredDependency>, ToolError> {
        let path = self.workspace.join("Cargo.toml");
        let text = read_text(&path, LinkPolicy::Follow, MAX_MANIFEST_SIZE);
        let text = text.map_err(|error| file_error("read", &path, &error))?;
        // Cargo has read the same text, and reports its faults.
        let manifest: toml::Table = text.parse().unwrap_or_default();
        let mut found = Vec::new();
        for key in REPLACEMENTS {
            let tables = manifest.get(key).and_then(toml::Value::as_table);
            for (name, value) in tables.into_iter().flatten() {
                self.add_replacements(name, value, &mut found);
            }
        }
        Ok(found)
    }

    /// Adds a replacement, or those of a table: a patch has one more level than `replace`.
    fn add_replacements(
        &self,
        name: &str,
        value: &toml::Value,
        found: &mut Vec<DeclaredDependency>,
    ) {
        let Some(table) = value.as_table() else {
            return;
        };
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
        let source = ["git", "registry", "registry-index"];
        let source = source.iter().find_map(|key| text(key));
        let folder = text("path").map(|path| PackageOrigin::Folder(self.workspace.join(path)));
        let origin = source.map(|source| PackageOrigin::Other(source.to_owned()));
        for origin in origin.into_iter().chain(folder) {
            found.push(DeclaredDependency {
                name: name.to_owned(),
                origin,
            });
        }
        for (name, value) in table {
            self.add_replacements(name, value, found);
        }
    }
}

/// A dependency that a manifest declares.
#[derive(Debug, PartialEq, Eq)]
struct DeclaredDependency {
    name: String,
    origin: PackageOrigin,
}

#[derive(Debug, PartialEq, Eq)]
enum PackageOrigin {
    CratesIo,
    Folder(PathBuf),
    /// A git repository or another registry.
    Other(String),
}

impl DeclaredDependency {
    fn from_metadata(dependency: &Value) -> Self {
        let text = |key: &str| dependency[key].as_str();
        let origin = match (text("path"), text("source")) {
            (Some(path), _) => PackageOrigin::Folder(path.into()),
            (None, Some(CRATES_IO)) => PackageOrigin::CratesIo,
            (None, source) => {
                PackageOrigin::Other(source.unwrap_or("an unknown source").to_owned())
            }
        };
        Self {
            name: text("name").unwrap_or_default().to_owned(),
            origin,
        }
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn manifest_of(package: &Value) -> Option<PathBuf> {
    package["manifest_path"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folders(root: &Path) -> PackageFolders {
        PackageFolders {
            plugin: root.join("w/plugin"),
            workspace: root.join("w"),
            sdk: root.join("sdk"),
        }
    }

    #[test]
    fn package_on_this_machine_must_be_in_the_workspace_and_not_in_the_target_folder() {
        let folders = folders(Path::new("/r"));
        for path in ["/r/w/plugin", "/r/w/plugin/d", "/r/w/d", "/r/sdk/rust"] {
            assert!(folders.check("d", Path::new(path)).is_ok(), "{path}");
        }
        for path in ["/r/d", "/r/w/plugin/target/d", "/r/w/plugin/.mimir-build/d"] {
            let error = folders.check("d", Path::new(path)).unwrap_err();
            assert!(error.message.contains("move it"), "{path}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn package_behind_a_link_is_outside_of_the_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["w/plugin", "private"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let link = root.join("w/plugin/d");
        std::os::unix::fs::symlink(root.join("private"), &link).unwrap();
        assert!(folders(&root).check("d", &link).is_err());
    }

    #[test]
    fn dependency_from_git_or_another_registry_needs_the_network() {
        let folders = folders(Path::new("/r"));
        let check = |source: &str, with_network| {
            let dependency = json!({"name": "d", "source": source});
            let dependency = DeclaredDependency::from_metadata(&dependency);
            folders.check_dependency(&dependency, with_network)
        };
        assert!(check(CRATES_IO, false).is_ok());
        for source in ["git+https://example.com/d", "sparse+https://example.com/"] {
            let error = check(source, false).unwrap_err();
            assert!(error.message.contains("--network"), "{error}");
            assert!(check(source, true).is_ok());
        }
    }

    #[test]
    fn replacement_in_the_manifest_of_the_workspace_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let folders = folders(dir.path());
        std::fs::create_dir(&folders.workspace).unwrap();
        let manifest = "[patch.crates-io]\na = { git = \"https://example.com/a\" }\n\
            b = { path = \"x/b\" }\n[replace]\n\"c:1.0.0\" = { git = \"https://example.com/c\" }\n";
        std::fs::write(folders.workspace.join("Cargo.toml"), manifest).unwrap();
        let found = folders.replacements().unwrap();
        let origins: Vec<_> = found.iter().map(|found| &found.origin).collect();
        let git = |name: &str| PackageOrigin::Other(format!("https://example.com/{name}"));
        let folder = PackageOrigin::Folder(folders.workspace.join("x/b"));
        assert_eq!(origins, [&git("a"), &folder, &git("c")]);
    }
}
