//! Sources of the tools that only one worker has: a module beside its file, and an npm package.

use std::path::{Component, Path, PathBuf};

use mimir_agent::{ExternalToolset, Worker, WorkerOwnToolset};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_script::PluginSource;
use serde_json::{Value, json};

use crate::workspace::WorkspaceFolder;

/// Folder of the worker files, relative to the workspace.
const FOLDER: &str = ".mimir/workers";

/// Folder for the files of builds, relative to that folder. `mimir tools build` writes there.
const BUILD_FOLDER: &str = ".mimir-build";

/// Maximum size of a module and of `package.json` in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Folder of npm packages.
const PACKAGES: &str = "node_modules";

/// The module that exports the tools of a package in the form that mimir builds.
const PACKAGE_ENTRY: &str = include_str!("package_entry.js");

/// The source of the tools of one toolset.
#[derive(Debug, Clone)]
pub struct WorkerToolSource {
    /// The toolset in the worker's file.
    pub toolset: WorkerOwnToolset,
    /// The location of the tools in messages, grants and the audit log.
    pub location: String,
    /// The module.
    pub plugin: PluginSource,
    /// The argument of `mimir tools build` that builds the tools.
    pub build_argument: String,
    /// Folder of the package whose version was checked. `mimir tools build` writes the module of a package before the
    /// build. `None` for a module that is a file of the user.
    pub package_folder: Option<PathBuf>,
    /// Prefix of the tools' names.
    pub(super) prefix: String,
    /// Content of the package's `package.json`; empty for a module.
    pub(super) package_text: String,
}

impl WorkerToolSource {
    /// Returns true if only a bundler can build the source.
    pub(super) fn needs_bundler(&self) -> bool {
        self.package_folder.is_some()
    }

    /// Returns the subject of a message about the source.
    pub(super) fn label(&self) -> String {
        match self.toolset {
            WorkerOwnToolset::Module => {
                format!("{} imports other modules, and", visible(&self.location))
            }
            WorkerOwnToolset::Package => {
                format!("the package of {}", visible(&self.location))
            }
        }
    }
}

/// Returns the module beside the worker's file that `toolsets.custom` names. `None` if it is not a TypeScript or
/// JavaScript file there: then the name refers to a file of `.mimir/tools`.
pub(super) fn module(
    workspace: &WorkspaceFolder,
    worker: &Worker,
) -> Result<Option<WorkerToolSource>, ToolError> {
    let Some(custom) = &worker.settings().toolsets.custom else {
        return Ok(None);
    };
    let named = Path::new(&custom.module);
    let extension = named.extension().and_then(|extension| extension.to_str());
    let typed = match extension {
        Some("ts" | "mts") => true,
        Some("js" | "mjs") => false,
        _ => return Ok(None),
    };
    let at = worker.at("toolsets.custom.module");
    let Some(location) = resolve(&custom.module) else {
        let message = format!(
            "{at}: `{}` is not valid: expected a path relative to the worker's file, inside of the workspace",
            visible(&custom.module)
        );
        return Err(ToolError::new(ToolErrorCode::InvalidPath, message));
    };
    let path = workspace.root().join(&location);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = files::reject_links(workspace.root(), &path)
        .and_then(|()| files::read_text(&path, LinkPolicy::Refuse, MAX_FILE_SIZE));
    let text = text.map_err(|error| {
        let message = format!("{at}: {} cannot be read: {error}", visible(&location));
        ToolError::invalid_input(message)
    })?;
    let name = named.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Some(WorkerToolSource {
        toolset: WorkerOwnToolset::Module,
        plugin: PluginSource {
            path,
            place: visible(&location),
            text,
            typed,
            name: name.into_owned(),
            version: "0.1.0".to_owned(),
            description: None,
        },
        build_argument: visible(&location),
        location,
        package_folder: None,
        prefix: String::new(),
        package_text: String::new(),
    }))
}

/// Resolves a path relative to the folder of the worker files to a path relative to the workspace, with `/`. `None` if
/// it leaves the workspace.
fn resolve(module: &str) -> Option<String> {
    let mut parts: Vec<&str> = FOLDER.split('/').collect();
    for component in Path::new(module).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// Returns the package that `toolsets.external` names, which must be installed in the workspace.
pub(super) fn package(
    workspace: &WorkspaceFolder,
    worker: &Worker,
) -> Result<Option<WorkerToolSource>, ToolError> {
    let Some(external) = &worker.settings().toolsets.external else {
        return Ok(None);
    };
    let at = worker.at("toolsets.external.package");
    let (name, expected) = external.name_and_version();
    let folder = workspace.root().join(FOLDER);
    let above = folder.ancestors();
    let above = above.take_while(|folder| folder.starts_with(workspace.root()));
    let mut manifests = above.map(|folder| folder.join(PACKAGES).join(name).join("package.json"));
    let install = |name: &str| {
        format!(
            "`npm install --ignore-scripts --save-exact {name}` installs it; it is for a person to run"
        )
    };
    let Some(manifest) = manifests.find(|manifest| manifest.is_file()) else {
        let message = format!(
            "{at}: the package `{}` is not installed in {PACKAGES} of the workspace",
            visible(name)
        );
        let error = ToolError::unavailable(message);
        return Err(error.with_remedies([install(&visible(&external.package))]));
    };
    let unreadable = |why: String| {
        let message = format!("{at}: package.json of `{}` {why}", visible(name));
        ToolError::invalid_input(message)
    };
    let package_text = files::read_text(&manifest, LinkPolicy::Follow, MAX_FILE_SIZE)
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    let facts: Value = serde_json::from_str(&package_text)
        .map_err(|error| unreadable(format!("is not valid: {error}")))?;
    let installed = facts["version"].as_str().unwrap_or_default();
    if expected.is_some_and(|expected| expected != installed) {
        let message = format!(
            "{at}: the worker needs `{}`, but the version {} is installed",
            visible(&external.package),
            visible(installed)
        );
        let error = ToolError::unavailable(message);
        return Err(error.with_remedies([install(&visible(&external.package))]));
    }
    let file = format!("{}.external.js", worker.name());
    let location = format!("{FOLDER}/{}.yml#external", worker.name());
    Ok(Some(WorkerToolSource {
        toolset: WorkerOwnToolset::Package,
        plugin: PluginSource {
            path: folder.join(BUILD_FOLDER).join(file),
            place: visible(&location),
            text: package_entry(external, name),
            typed: false,
            name: visible(name),
            version: visible(installed),
            description: None,
        },
        build_argument: format!("{FOLDER}/{}.yml", worker.name()),
        location,
        package_folder: manifest.parent().map(Path::to_owned),
        prefix: external.prefix.clone(),
        package_text,
    }))
}

/// Returns the text of the module that exports the tools of a package.
fn package_entry(external: &ExternalToolset, name: &str) -> String {
    let needs = external.needs.clone().unwrap_or(json!(null));
    let (name, import) = (json!(name), json!(external.import));
    format!(
        "import * as all from {name};\nconst named = {import}, needs = {needs};\n{PACKAGE_ENTRY}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_module_paths_stay_inside_the_workspace() {
        for (module, location) in [
            ("./tools.ts", Some(".mimir/workers/tools.ts")),
            ("tools.ts", Some(".mimir/workers/tools.ts")),
            ("../../lib/a.ts", Some("lib/a.ts")),
            ("../../../a.ts", None),
            ("/etc/a.ts", None),
        ] {
            assert_eq!(resolve(module).as_deref(), location, "{module}");
        }
    }
}
