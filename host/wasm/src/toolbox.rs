//! Collection of all callable components: the built-in ones and those in the tools folder.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use mimir_core::registry::Quarantined;
use mimir_core::tool::{Tool, ToolName, ToolOrigin, ToolSource, ToolTrust};
use parking_lot::Mutex;

use crate::backend::{BuiltinTraits, WasmBackend};
use crate::compile::run_blocking;
use crate::describe::{
    self, ComponentDescription, ComponentKind, DescriptionResult, InspectedComponent,
};
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::family::{is_pure, proofs};
use crate::host::WasmHost;
use crate::lift::tool_name;
use crate::packed::PackedComponent;
use crate::plugin::{ComponentBytes, WasmPlugin};
use crate::tool_folder::{self, FolderScan};

/// A component that is embedded in the executable.
#[derive(Debug, Clone, Copy)]
pub struct BundledComponent {
    /// Display name.
    pub name: &'static str,
    /// The component.
    pub component: PackedComponent,
    /// The sha256 of the component, uncompressed.
    pub sha256: [u8; 32],
    /// True if changed files must be copied for undo, unless the argument `backup` of a call is false.
    pub requires_undo: bool,
    /// True if the component may write to the memories of the workspace.
    pub keeps_memory: bool,
    /// Tool aliases, as pairs of tool name and alias.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Description as returned by [`Toolbox::descriptions`], with which nothing is compiled before the first call of a
    /// tool. Without it, the component is compiled and queried once.
    pub description: Option<&'static str>,
}

/// A component that a team shares. Its digest comes from the team's signed bundle.
#[derive(Debug, Clone)]
pub struct TeamComponent {
    /// Path of the component.
    pub file: PathBuf,
    /// Name of its file in the bundle, without the extension.
    pub stem: String,
    /// Location of its tools.
    pub location: String,
    /// The sha256 that the file must have.
    pub digest: Sha256Digest,
    /// True if users cannot disable its tools.
    pub enforced: bool,
}

/// Decides whether a file of the tools folder may be used, by its location and the sha256 of the bytes that would be
/// compiled. The error is the reason for people.
pub type ComponentCheck = Box<dyn Fn(&str, &Sha256Digest) -> Result<(), String> + Send + Sync>;

/// Creates the check for one load of the tools folder.
pub type ComponentCheckFactory = Arc<dyn Fn() -> ComponentCheck + Send + Sync>;

/// Finds and describes components, and caches the loaded ones.
pub struct Toolbox {
    host: Arc<WasmHost>,
    bundled: Vec<BundledComponent>,
    team: Vec<TeamComponent>,
    folder: Option<PathBuf>,
    file_checks: Option<ComponentCheckFactory>,
    retries: bool,
    known_only: bool,
    described_only: bool,
    /// The folder to which locations are relative, besides the workspace.
    location_root: Option<PathBuf>,
    plugins: Mutex<HashMap<(Sha256Digest, String), Arc<WasmPlugin>>>,
}

/// The result of loading.
#[derive(Debug, Default)]
pub struct LoadedTools {
    /// The tools, built-in ones first.
    pub tools: Vec<Tool>,
    /// Skipped components and tools, with the reasons.
    pub quarantined: Vec<Quarantined>,
    /// Number of components that were not inspected.
    pub undescribed: usize,
    /// The names of the scripts in the folder, which another crate loads.
    pub scripts: Vec<String>,
}

/// Maximum number of components described concurrently, most of which wait for a compiler.
const MAX_CONCURRENT: usize = 8;

/// The displayed location of built-in tools.
const BUILT_IN: &str = "built-in";

impl Toolbox {
    /// Creates a toolbox of these built-in components and of the files in `folder`.
    pub fn new(
        host: Arc<WasmHost>,
        bundled: Vec<BundledComponent>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            host,
            bundled,
            team: Vec::new(),
            folder,
            file_checks: None,
            retries: false,
            known_only: false,
            described_only: false,
            location_root: None,
            plugins: Mutex::default(),
        }
    }

    /// Also loads components of teams, after the built-in ones.
    #[must_use]
    pub fn with_team(mut self, team: Vec<TeamComponent>) -> Self {
        self.team = team;
        self
    }

    /// Shows files below this folder by their path from it, as if it were the workspace.
    #[must_use]
    pub fn with_location_root(mut self, root: Option<PathBuf>) -> Self {
        self.location_root = root;
        self
    }

    /// Loads only those files of the folder that pass a check. The others are not compiled, and nothing of them is run.
    #[must_use]
    pub fn with_file_checks(mut self, checks: Option<ComponentCheckFactory>) -> Self {
        self.file_checks = checks;
        self
    }

    /// Also queries plugins that recently timed out while describing themselves. By default they are skipped for ten
    /// minutes.
    #[must_use]
    pub fn with_retries(mut self) -> Self {
        self.retries = true;
        self
    }

    /// Queries no component in the folder. Components that were not described before are
    /// [skipped](LoadedTools::undescribed).
    #[must_use]
    pub fn known_only(mut self) -> Self {
        self.known_only = true;
        self
    }

    /// Lists only components whose description is cached, possibly from another name or folder, and
    /// [skips](LoadedTools::undescribed) the others. Compiles nothing.
    #[must_use]
    pub fn described_only(mut self) -> Self {
        self.described_only = true;
        self
    }

    /// Queries the built-in components and returns pairs of name and current description, for
    /// [`BundledComponent::description`].
    pub async fn descriptions(&self) -> Result<Vec<(&'static str, String)>, WasmHostError> {
        let mut descriptions = Vec::new();
        for bundled in &self.bundled {
            let location = format!("{BUILT_IN}/{}", bundled.name);
            let text =
                describe::describe_for_shipping(&self.host, bundled.component, &location).await?;
            descriptions.push((bundled.name, text));
        }
        Ok(descriptions)
    }

    /// Describes a built-in component, without inspecting it if a description was shipped with it.
    async fn describe_bundled(
        &self,
        bundled: &BundledComponent,
        location: &str,
    ) -> DescriptionResult {
        if let Some(text) = bundled.description {
            match describe::parse_shipped(text) {
                Ok(description) => return Ok(description),
                Err(error) => {
                    tracing::warn!(%error, location, "ignoring the shipped description");
                }
            }
        }
        let bytes = ComponentBytes::Bundled(bundled.component);
        let digest = Some(Sha256Digest(bundled.sha256));
        let inspection =
            describe::inspect(&self.host, &bytes, location, digest, self.retries, None);
        inspection.await.described
    }

    /// Loads all components. For a component that was described before, this only checks the size and date of the file.
    /// Loaded code stays loaded.
    pub async fn load(&self) -> LoadedTools {
        let mut loaded = LoadedTools::default();
        let mut current = HashMap::new();
        for bundled in &self.bundled {
            let location = format!("{BUILT_IN}/{}", bundled.name);
            let bytes = ComponentBytes::Bundled(bundled.component);
            let digest = Sha256Digest(bundled.sha256);
            let described = self.describe_bundled(bundled, &location).await;
            let component = ListedComponent {
                stem: bundled.name,
                source: ToolSource::BuiltIn,
                bundled: Some(bundled),
                location,
                bytes,
                digest,
            };
            self.add(component, described, &mut loaded, &mut current);
        }
        self.load_team(&mut loaded, &mut current).await;
        if let Some(path) = &self.folder {
            self.load_folder(path, &mut loaded, &mut current).await;
        }
        *self.plugins.lock() = current;
        loaded
    }

    /// Loads the components of teams. A component with another digest than the bundle names is left out. The digest is
    /// checked again before the component is compiled or run.
    async fn load_team(&self, loaded: &mut LoadedTools, current: &mut PluginMap) {
        let described: Vec<BoxFuture<'_, Option<DescriptionResult>>> = self
            .team
            .iter()
            .map(|component| -> BoxFuture<'_, Option<DescriptionResult>> {
                Box::pin(self.describe_team(component))
            })
            .collect();
        let described = futures::stream::iter(described).buffered(MAX_CONCURRENT);
        let described = described.collect::<Vec<_>>().await;
        for (component, described) in self.team.iter().zip(described) {
            let Some(described) = described else {
                loaded.undescribed += 1;
                continue;
            };
            let first = loaded.tools.len();
            let listed = ListedComponent {
                stem: &component.stem,
                source: ToolSource::Teams,
                bundled: None,
                location: component.location.clone(),
                bytes: ComponentBytes::File(component.file.clone()),
                digest: component.digest,
            };
            self.add(listed, described, loaded, current);
            for tool in &mut loaded.tools[first..] {
                tool.enforced = component.enforced;
            }
        }
    }

    /// Describes a component of a team; `None` if it is not described yet and must not be queried.
    async fn describe_team(&self, component: &TeamComponent) -> Option<DescriptionResult> {
        if let Some(known) = describe::cached_description(&self.host, &component.digest) {
            return Some(known);
        }
        if self.known_only || self.described_only {
            return None;
        }
        let bytes = ComponentBytes::File(component.file.clone());
        let (host, location) = (&self.host, &component.location);
        let expected = component.digest;
        let reason =
            "its file was changed after it was fetched; `mimir team sync` fetches it again";
        // Asked before anything of other bytes is compiled or run.
        let check: ComponentCheck = Box::new(move |_: &str, digest: &Sha256Digest| {
            if *digest == expected {
                Ok(())
            } else {
                Err(reason.to_owned())
            }
        });
        let inspection =
            describe::inspect(host, &bytes, location, None, self.retries, Some(&check)).await;
        let is_other = inspection.digest != expected;
        // A description of other bytes may be in the cache; that their file cannot be read is another error.
        let is_judged = matches!(
            &inspection.described,
            Ok(_) | Err((mimir_core::ToolErrorCode::PolicyDenied, _))
        );
        if is_other && is_judged {
            return Some(Err((
                mimir_core::ToolErrorCode::PermissionDenied,
                reason.to_owned(),
            )));
        }
        Some(inspection.described)
    }

    /// Loads a component that is not in the folder, such as the build of a worker's module. Other loaded components stay
    /// loaded. `location` becomes the location of its tools.
    pub async fn load_component(&self, file: &std::path::Path, location: &str) -> LoadedTools {
        let bytes = ComponentBytes::File(file.to_owned());
        let inspection = describe::inspect(&self.host, &bytes, location, None, self.retries, None);
        let InspectedComponent {
            digest, described, ..
        } = inspection.await;
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        let component = ListedComponent {
            stem: stem.unwrap_or_default(),
            source: ToolSource::Custom,
            bundled: None,
            location: location.to_owned(),
            bytes,
            digest,
        };
        let mut loaded = LoadedTools::default();
        let mut current = self.plugins.lock().clone();
        current.retain(|(_, other), _| other != location);
        self.add(component, described, &mut loaded, &mut current);
        *self.plugins.lock() = current;
        loaded
    }

    async fn load_folder(
        &self,
        path: &std::path::Path,
        loaded: &mut LoadedTools,
        current: &mut PluginMap,
    ) {
        let (scan, mut index) = match tool_folder::scan_known(self.host.cache(), path) {
            Ok(scanned) => scanned,
            Err(error) => {
                let error = WasmHostError::read_error(path.display().to_string(), &error);
                loaded.quarantined.push(Quarantined {
                    location: path.display().to_string(),
                    code: error.code(),
                    reason: error.to_string(),
                });
                return;
            }
        };
        let FolderScan {
            files,
            scripts,
            non_unicode,
            bad_links,
        } = scan;
        loaded.scripts = scripts.into_keys().collect();
        for (name, (code, reason)) in bad_links {
            loaded.quarantined.push(Quarantined {
                location: self.display_name(path, &name),
                code,
                reason,
            });
        }
        for name in non_unicode {
            loaded.quarantined.push(Quarantined {
                location: self.display_name(path, &name),
                code: mimir_core::ToolErrorCode::InvalidInput,
                reason:
                    "the file name is not UTF-8: rename the file, with letters, digits and _ only"
                        .to_owned(),
            });
        }
        index.retain(&files);
        let check = self.file_checks.as_ref().map(|create| create());
        let check = check.as_ref();
        let files: Vec<_> = files.into_iter().collect();
        let known = tool_folder::map_in_parallel(&files, |(name, _)| index.get(name));
        loaded.tools.reserve(files.len());
        // A slow component does not delay the others.
        let unknown = files
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none());
        let unknown = unknown.filter(|_| !self.known_only);
        let inspections: Vec<BoxFuture<'_, Option<InspectedComponent>>> = unknown
            .map(|((name, _), _)| self.inspect_component(path, name, check))
            .collect();
        let inspections = futures::stream::iter(inspections).buffered(MAX_CONCURRENT);
        let mut inspections = inspections.collect::<Vec<_>>().await.into_iter();
        for ((name, stamp), known) in files.into_iter().zip(known) {
            let location = self.display_name(path, &name);
            let bytes = ComponentBytes::File(path.join(&name));
            let (digest, described) = match known {
                Some(known) => known,
                None => {
                    let Some(inspected) = inspections.next().flatten() else {
                        loaded.undescribed += 1;
                        continue;
                    };
                    if inspected.is_stable {
                        index.put(&name, stamp, inspected.digest, &inspected.described);
                    }
                    (inspected.digest, inspected.described)
                }
            };
            // Results in the cache, also errors with the component's own text, are not checked yet.
            let refusal = check.filter(|_| digest != describe::UNREAD);
            let refusal = refusal.and_then(|check| check(&location, &digest).err());
            let described = match refusal {
                Some(reason) => Err((mimir_core::ToolErrorCode::PolicyDenied, reason)),
                None => described,
            };
            let component = ListedComponent {
                stem: tool_folder::stem(&name).unwrap_or(&name),
                source: ToolSource::Custom,
                bundled: None,
                location,
                bytes,
                digest,
            };
            self.add(component, described, loaded, current);
        }
        index.write(self.host.cache(), path);
    }

    /// Describes a component. If only described components are wanted, looks it up in the cache alone.
    fn inspect_component<'a>(
        &'a self,
        folder: &'a std::path::Path,
        name: &'a str,
        check: Option<&'a ComponentCheck>,
    ) -> BoxFuture<'a, Option<InspectedComponent>> {
        Box::pin(async move {
            let location = self.display_name(folder, name);
            let bytes = ComponentBytes::File(folder.join(name));
            if self.described_only {
                return describe::inspect_cached(&self.host, &bytes, &location);
            }
            let host = &self.host;
            Some(describe::inspect(host, &bytes, &location, None, self.retries, check).await)
        })
    }

    /// Returns the display name of the file: relative to the workspace if it is inside.
    fn display_name(&self, folder: &std::path::Path, name: &str) -> String {
        let path = folder.join(name);
        let root = self.location_root.as_deref();
        let below = root.and_then(|root| path.strip_prefix(root).ok());
        let in_workspace = || path.strip_prefix(self.host.workspace()).unwrap_or(&path);
        let below = below.unwrap_or_else(in_workspace);
        below.to_string_lossy().replace('\\', "/")
    }

    fn add(
        &self,
        component: ListedComponent<'_>,
        described: DescriptionResult,
        loaded: &mut LoadedTools,
        current: &mut PluginMap,
    ) {
        let mut description = match described {
            Ok(description) => description,
            Err((code, reason)) => {
                loaded.quarantined.push(Quarantined {
                    location: component.location,
                    code,
                    reason,
                });
                return;
            }
        };
        let Some(tools) = component.tools(&mut description) else {
            loaded.quarantined.push(Quarantined {
                reason: format!(
                    "`{}` cannot be converted to a tool name: rename the file, with letters, digits and _ only",
                    component.stem
                ),
                location: component.location,
                code: mimir_core::ToolErrorCode::InvalidInput,
            });
            return;
        };
        for (name, reason) in &description.refused {
            loaded.quarantined.push(Quarantined {
                location: format!("{} ({name})", component.location),
                code: mimir_core::ToolErrorCode::InvalidInput,
                reason: reason.clone(),
            });
        }
        let has_assessor = matches!(description.kind, ComponentKind::Toolset { assessor: true });
        let declares_needs = matches!(description.kind, ComponentKind::Toolset { .. });
        let plugin = self.plugin(&component, description.kind, description.mode);
        current.insert(
            (component.digest, component.location.clone()),
            Arc::clone(&plugin),
        );
        let backend = Arc::new(WasmBackend(plugin));
        let is_pure = is_pure(&description.imports);
        let origin = Arc::new(ToolOrigin {
            plugin: description
                .name
                .unwrap_or_else(|| component.stem.to_owned()),
            declares_needs,
            version: description.version,
            location: component.location.clone(),
            digest: component.digest.to_string(),
            proofs: proofs(&description.imports)
                .iter()
                .map(ToString::to_string)
                .collect(),
            imports: description.imports,
            ..ToolOrigin::default()
        });
        for definition in tools {
            let trust = match component.source {
                ToolSource::BuiltIn => ToolTrust::Trusted,
                _ if is_pure && definition.needs.is_empty() => ToolTrust::Harmless,
                _ => ToolTrust::Untrusted,
            };
            let aliases = component.aliases(definition.name.as_str());
            let origin = Arc::clone(&origin);
            let tool = Tool::new(definition, component.source, origin, trust, backend.clone());
            let tool = tool.with_aliases(aliases).with_assessor(has_assessor);
            loaded.tools.push(tool);
        }
    }

    /// Returns the plugin that is already loaded, or a new one.
    fn plugin(
        &self,
        component: &ListedComponent<'_>,
        kind: ComponentKind,
        mode: EngineMode,
    ) -> Arc<WasmPlugin> {
        let plugins = self.plugins.lock();
        if let Some(plugin) = plugins.get(&(component.digest, component.location.clone())) {
            return Arc::clone(plugin);
        }
        let mut plugin = WasmPlugin::new(
            Arc::clone(&self.host),
            component.bytes.clone(),
            component.location.clone(),
            component.digest,
            kind,
            mode,
        );
        if let Some(bundled) = component.bundled {
            plugin.traits = BuiltinTraits {
                requires_undo: bundled.requires_undo,
                memory: bundled.keeps_memory,
            };
        }
        Arc::new(plugin)
    }

    /// Compares the description in the file of a loaded plugin, with which its tools were listed, with the answer of the
    /// component itself, which is compiled for that. Call it before a person decides about the plugin. `location` is that
    /// of a tool's origin.
    ///
    /// # Errors
    ///
    /// A difference, and everything that keeps the component from being read or asked. A plugin without a description in
    /// its file has nothing to compare.
    pub async fn verify_description(&self, location: &str) -> Result<(), WasmHostError> {
        let plugin = {
            let plugins = self.plugins.lock();
            let mut loaded = plugins.values();
            loaded.find(|plugin| plugin.location == location).cloned()
        };
        let Some(plugin) = plugin.filter(|plugin| {
            matches!(plugin.kind, ComponentKind::Toolset { .. })
                && matches!(plugin.bytes, ComponentBytes::File(_))
        }) else {
            return Ok(());
        };
        // Reads and hashes up to 256 MiB, and may convert them.
        let component = run_blocking(move || plugin.read_verified()).await?;
        let verified = describe::verify_manifest(&self.host, &component).await;
        verified.map_err(|error| error.at(location))
    }

    /// Polls the folder and calls `on_change` with the reloaded tools whenever a file has changed. Polling works on
    /// every file system, unlike notifications, and a scan of a thousand files takes about a millisecond.
    pub async fn watch(&self, every: Duration, mut on_change: impl FnMut(LoadedTools) + Send) {
        let Some(path) = &self.folder else {
            return;
        };
        let scan = || tool_folder::scan_folder(path).ok();
        let mut last: Option<FolderScan> = scan();
        loop {
            tokio::time::sleep(every).await;
            let now = scan();
            if now != last {
                last = now;
                on_change(self.load().await);
            }
        }
    }
}

type PluginMap = HashMap<(Sha256Digest, String), Arc<WasmPlugin>>;

/// A component to add to the tools.
struct ListedComponent<'a> {
    stem: &'a str,
    source: ToolSource,
    bundled: Option<&'a BundledComponent>,
    location: String,
    bytes: ComponentBytes,
    digest: Sha256Digest,
}

impl ListedComponent<'_> {
    /// Returns the tools of the component, by their own names. A program is one tool, named after the file; `None` if
    /// the file name cannot be converted to a tool name.
    fn tools(
        &self,
        description: &mut ComponentDescription,
    ) -> Option<Vec<mimir_core::ToolDefinition>> {
        match &description.kind {
            ComponentKind::Toolset { .. } => Some(std::mem::take(&mut description.tools)),
            ComponentKind::AgentTool => {
                let name = tool_name(self.stem)?;
                let mut tools = std::mem::take(&mut description.tools);
                tools.iter_mut().for_each(|tool| tool.name = name.clone());
                Some(tools)
            }
            ComponentKind::Lifted(lifted) => Some(describe::lifted_definitions(lifted)),
            ComponentKind::HttpHandler(_) => Some(vec![describe::handler_definition()?]),
            ComponentKind::Command(_) => {
                Some(vec![describe::program_definition(tool_name(self.stem)?)])
            }
        }
    }

    fn aliases(&self, name: &str) -> Vec<ToolName> {
        let aliases = self.bundled.map_or(&[][..], |bundled| bundled.aliases);
        let matching = aliases.iter().filter(|(tool, _)| *tool == name);
        matching
            .filter_map(|(_, alias)| ToolName::new(alias).ok())
            .collect()
    }
}
