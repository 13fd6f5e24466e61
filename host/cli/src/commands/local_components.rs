//! Lookup of components that a person shares: those of `.mimir/tools`, also if the settings of a team keep them from being
//! loaded, and other component files. Finding one grants nothing, and nothing of it can be called.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::grants::{self, ToolsLock};
use mimir_core::name_suggestions::snake;
use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolSource};

use super::tools_add::is_component_of;
use super::tools_build::PluginFolder;
use super::tools_trust::find_plugin;
use crate::exit::{CommandFailure, CommandResult};
use crate::tools::is_file;
use mimir::setup::{HostSetup, TOOLS_PREFIX};

/// A component file, with its tools if they are loaded.
pub struct LocalComponent {
    /// The file.
    pub path: PathBuf,
    /// The location in the workspace; empty for a file outside of `.mimir/tools`.
    pub location: String,
    /// The tools; empty if they are not loaded.
    pub tools: Vec<Arc<Tool>>,
    lock: ToolsLock,
}

impl LocalComponent {
    /// Finds the component of a tool by the tool's name, the name or path of the file, or the folder or source of the
    /// plugin.
    ///
    /// # Errors
    /// Nothing has this name, or it is not a component of this workspace.
    pub async fn find(setup: &HostSetup, name: &str) -> CommandResult<Self> {
        let lock = setup.approvals().map(|approvals| approvals.lock().read());
        // A lock file that cannot be read is reported with the grants.
        let lock = lock.and_then(Result::ok).unwrap_or_default();
        let registry = setup.registry().await.into_registry();
        let found = find_plugin(&registry, name);
        let loaded = found.as_ref().ok().and_then(|tools| tools.first());
        if let Some(tool) = loaded
            && tool.source == ToolSource::Custom
            && tool.origin.location.ends_with(".wasm")
        {
            let location = tool.origin.location.clone();
            return Ok(Self {
                path: setup.workspace.root().join(&location),
                location,
                tools: found?,
                lock,
            });
        }
        if let Some(path) = find_file(setup, name, &lock) {
            return Ok(Self::unloaded(setup, path, lock));
        }
        match found?.first() {
            Some(tool) => Err(CommandFailure::usage(format!(
                "`{}` ({}) is not a component of .mimir/tools: only components that you have built or added can be shared",
                tool.name(),
                visible(&tool.origin.location)
            ))),
            None => Err(CommandFailure::usage("the plugin has no tools")),
        }
    }

    fn unloaded(setup: &HostSetup, path: PathBuf, lock: ToolsLock) -> Self {
        let tools = setup.workspace.tools().canonicalize();
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let is_installed = tools.is_ok_and(|tools| Some(tools) == folder);
        let file = path.file_name().and_then(|name| name.to_str());
        let location = match file.filter(|_| is_installed) {
            Some(file) => format!("{TOOLS_PREFIX}{file}"),
            None => String::new(),
        };
        Self {
            path,
            location,
            tools: Vec::new(),
            lock,
        }
    }

    /// Returns the rights that the person has named for a component that cannot declare them. `digest_hex` is the digest
    /// of the component.
    pub fn named_rights(&self, digest_hex: &str) -> Needs {
        if let Some(tool) = self.tools.first() {
            return match grants::is_foreign(tool) {
                true => tool.granted.clone(),
                false => Needs::default(),
            };
        }
        let grant = self.lock.plugins.get(&self.location);
        let grant = grant.filter(|grant| grant.digest == digest_hex);
        grant.map(|grant| grant.named()).unwrap_or_default()
    }
}

/// Finds a component file that is not loaded: by its name in `.mimir/tools`, its path, the folder or source of its plugin,
/// or the name of a tool with a grant.
fn find_file(setup: &HostSetup, name: &str, lock: &ToolsLock) -> Option<PathBuf> {
    let (folder, root) = (setup.workspace.tools(), setup.workspace.root());
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut locations: Vec<String> = files
        .map(|file| format!("{TOOLS_PREFIX}{file}"))
        .filter(|location| is_component_of(location))
        .collect();
    locations.sort_unstable();
    if let Some(location) = locations.iter().find(|location| is_file(location, name)) {
        return Some(root.join(location));
    }
    for path in [PathBuf::from(name), root.join(name)] {
        let is_component = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        if is_component && path.is_file() {
            return Some(path);
        }
        if let Some(built) = built_component(&folder, &path) {
            return Some(built);
        }
    }
    let has_tool = |location: &&String| {
        let grant = lock.plugins.get(*location);
        grant.is_some_and(|grant| grant.tools.contains_key(name))
    };
    let is_stem = |location: &&String| {
        let stem = location.trim_start_matches(TOOLS_PREFIX);
        snake(stem.trim_end_matches(".wasm")) == name
    };
    let named = locations.iter().find(has_tool);
    let named = named.or_else(|| locations.iter().find(is_stem));
    named.map(|location| root.join(location))
}

/// Returns the build of the plugin at a path: a folder, or a source file.
fn built_component(folder: &Path, path: &Path) -> Option<PathBuf> {
    if !path.is_dir() && !PluginFolder::is_source(path) {
        return None;
    }
    let plugin = PluginFolder::find(path, None).ok()?;
    let built = folder.join(plugin.component_name());
    built.is_file().then_some(built)
}
