//! Collection of all callable components: the built-in ones and those in the folder.

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
use crate::describe::{
    self, ComponentDescription, ComponentKind, DescriptionResult, InspectedComponent,
};
use crate::digest::Sha256Digest;
use crate::error::WasmHostError;
use crate::family::{is_pure, proofs};
use crate::host::WasmHost;
use crate::lift::tool_name;
use crate::plugin::{ComponentBytes, WasmPlugin};
use crate::tool_folder::{self, FolderScan};

/// A component in the executable.
#[derive(Debug, Clone, Copy)]
pub struct BundledComponent {
    /// Its display name.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
    /// Its sha256, from the build.
    pub sha256: [u8; 32],
    /// True if its changes need copies for undo, unless the argument `backup` of a call is false.
    pub requires_undo: bool,
    /// True if it may write to the memory of the workspace.
    pub keeps_memory: bool,
    /// Aliases of its tools: name and alias.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Its description, as returned by [`Toolbox::descriptions`]: with it, nothing is compiled before one of its tools
    /// is called. Without it the component is queried once.
    pub description: Option<&'static str>,
}

/// Finds and describes components, and caches the loaded ones.
pub struct Toolbox {
    host: Arc<WasmHost>,
    bundled: Vec<BundledComponent>,
    folder: Option<PathBuf>,
    ask_again: bool,
    known_only: bool,
    described_only: bool,
    plugins: Mutex<HashMap<(Sha256Digest, String), Arc<WasmPlugin>>>,
}

/// The result of loading.
#[derive(Debug, Default)]
pub struct LoadedTools {
    /// The tools, built-in ones first.
    pub tools: Vec<Tool>,
    /// Skipped components, with the reasons.
    pub quarantined: Vec<Quarantined>,
    /// Number of components that were not inspected.
    pub undescribed: usize,
    /// The names of the scripts in the folder, which are loaded elsewhere.
    pub scripts: Vec<String>,
}

/// Maximum number of components described concurrently: most wait for a compiler, and a few for their own end.
const AT_ONCE: usize = 8;

/// The displayed location of built-in tools.
const BUILT_IN: &str = "built-in";

impl Toolbox {
    /// Creates a toolbox of these built-ins and of the files in `folder`.
    pub fn new(
        host: Arc<WasmHost>,
        bundled: Vec<BundledComponent>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            host,
            bundled,
            folder,
            ask_again: false,
            known_only: false,
            described_only: false,
            plugins: Mutex::default(),
        }
    }

    /// Also queries plugins that were recently too slow to describe themselves. By default they are skipped for some
    /// minutes.
    #[must_use]
    pub fn with_retries(mut self) -> Self {
        self.ask_again = true;
        self
    }

    /// Queries no component in the folder: those that were not described before are [skipped](LoadedTools::undescribed).
    #[must_use]
    pub fn known_only(mut self) -> Self {
        self.known_only = true;
        self
    }

    /// Lists only components whose description is cached, even if under another name or in another folder, and
    /// [skips](LoadedTools::undescribed) the others. Compiles nothing.
    #[must_use]
    pub fn described_only(mut self) -> Self {
        self.described_only = true;
        self
    }

    /// Queries the built-in components and returns their current descriptions by name, for [`BundledComponent::description`].
    pub async fn descriptions(&self) -> Result<Vec<(&'static str, String)>, WasmHostError> {
        let mut all = Vec::new();
        for bundled in &self.bundled {
            let place = format!("{BUILT_IN}/{}", bundled.name);
            let text = describe::describe_for_shipping(&self.host, bundled.bytes, &place).await?;
            all.push((bundled.name, text));
        }
        Ok(all)
    }

    /// Describes a built-in component, without inspecting it if a description was shipped with it.
    async fn described(&self, bundled: &BundledComponent, place: &str) -> DescriptionResult {
        if let Some(text) = bundled.description {
            match describe::parse_shipped(text) {
                Ok(description) => return Ok(description),
                Err(error) => {
                    tracing::warn!(%error, place, "ignoring the shipped description");
                }
            }
        }
        let bytes = ComponentBytes::Bundled(bundled.bytes);
        let digest = Some(Sha256Digest(bundled.sha256));
        let look = describe::inspect(&self.host, &bytes, place, digest, self.ask_again);
        look.await.described
    }

    /// Loads everything. A component described before only costs a check of its size and date; loaded code stays
    /// loaded.
    pub async fn load(&self) -> LoadedTools {
        let mut loaded = LoadedTools::default();
        let mut kept = HashMap::new();
        for bundled in &self.bundled {
            let place = format!("{BUILT_IN}/{}", bundled.name);
            let bytes = ComponentBytes::Bundled(bundled.bytes);
            let digest = Sha256Digest(bundled.sha256);
            let described = self.described(bundled, &place).await;
            let found = FoundComponent {
                stem: bundled.name,
                source: ToolSource::BuiltIn,
                bundled: Some(bundled),
                place,
                bytes,
                digest,
            };
            self.add(found, described, &mut loaded, &mut kept);
        }
        if let Some(path) = &self.folder {
            self.load_folder(path, &mut loaded, &mut kept).await;
        }
        *self.plugins.lock() = kept;
        loaded
    }

    async fn load_folder(
        &self,
        path: &std::path::Path,
        loaded: &mut LoadedTools,
        kept: &mut PluginMap,
    ) {
        let (scan, mut index) = match tool_folder::scan_known(self.host.cache(), path) {
            Ok(found) => found,
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
            unnamed,
            dangling,
            texts,
        } = scan;
        loaded.scripts = scripts.into_keys().collect();
        for name in dangling {
            loaded.quarantined.push(Quarantined {
                location: self.display_name(path, &name),
                code: mimir_core::ToolErrorCode::FileNotFound,
                reason: "it is a link that leads to no file; point it to one, or remove it"
                    .to_owned(),
            });
        }
        for name in texts {
            let binary = std::path::Path::new(&name).with_extension("wasm");
            loaded.quarantined.push(Quarantined {
                reason: format!(
                    "it is WebAssembly text; `wasm-tools parse {name} -o {}` converts it to binary",
                    binary.display()
                ),
                location: self.display_name(path, &name),
                code: mimir_core::ToolErrorCode::InvalidInput,
            });
        }
        for name in unnamed {
            loaded.quarantined.push(Quarantined {
                location: self.display_name(path, &name),
                code: mimir_core::ToolErrorCode::InvalidInput,
                reason: "its name is not UTF-8; rename the file, with letters, digits and _ only"
                    .to_owned(),
            });
        }
        index.retain(&files);
        let files: Vec<_> = files.into_iter().collect();
        let known = tool_folder::map_in_parallel(&files, |(name, _)| index.get(name));
        loaded.tools.reserve(files.len());
        // A slow component does not delay the others.
        let unknown = files
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none());
        let unknown = unknown.filter(|_| !self.known_only);
        let looks: Vec<BoxFuture<'_, Option<InspectedComponent>>> = unknown
            .map(|((name, _), _)| self.inspect_component(path, name))
            .collect();
        let looks = futures::stream::iter(looks).buffered(AT_ONCE);
        let mut looks = looks.collect::<Vec<_>>().await.into_iter();
        for ((name, stamp), known) in files.into_iter().zip(known) {
            let place = self.display_name(path, &name);
            let bytes = ComponentBytes::File(path.join(&name));
            let (digest, described) = match known {
                Some(known) => known,
                None => {
                    let Some(look) = looks.next().flatten() else {
                        loaded.undescribed += 1;
                        continue;
                    };
                    if look.lasts {
                        index.put(&name, stamp, look.digest, &look.described);
                    }
                    (look.digest, look.described)
                }
            };
            let found = FoundComponent {
                stem: tool_folder::stem(&name).unwrap_or(&name),
                source: ToolSource::Custom,
                bundled: None,
                place,
                bytes,
                digest,
            };
            self.add(found, described, loaded, kept);
        }
        index.write(self.host.cache(), path);
    }

    /// Describes a component, or looks it up in the cache only.
    fn inspect_component<'a>(
        &'a self,
        folder: &'a std::path::Path,
        name: &'a str,
    ) -> BoxFuture<'a, Option<InspectedComponent>> {
        Box::pin(async move {
            let (place, bytes) = (
                self.display_name(folder, name),
                ComponentBytes::File(folder.join(name)),
            );
            if self.described_only {
                return describe::inspect_cached(&self.host, &bytes, &place);
            }
            Some(describe::inspect(&self.host, &bytes, &place, None, self.ask_again).await)
        })
    }

    /// Returns the display name of the file: relative to the workspace if it is inside.
    fn display_name(&self, folder: &std::path::Path, name: &str) -> String {
        let path = folder.join(name);
        let below = path.strip_prefix(self.host.workspace()).unwrap_or(&path);
        below.to_string_lossy().replace('\\', "/")
    }

    fn add(
        &self,
        found: FoundComponent<'_>,
        described: DescriptionResult,
        loaded: &mut LoadedTools,
        kept: &mut PluginMap,
    ) {
        let mut description = match described {
            Ok(description) => description,
            Err((code, reason)) => {
                loaded.quarantined.push(Quarantined {
                    location: found.place,
                    code,
                    reason,
                });
                return;
            }
        };
        let Some(tools) = found.tools(&mut description) else {
            loaded.quarantined.push(Quarantined {
                reason: format!(
                    "`{}` cannot be converted to a tool name; rename the file, with letters, digits and _ only",
                    found.stem
                ),
                location: found.place,
                code: mimir_core::ToolErrorCode::InvalidInput,
            });
            return;
        };
        for (name, reason) in &description.refused {
            loaded.quarantined.push(Quarantined {
                location: format!("{} ({name})", found.place),
                code: mimir_core::ToolErrorCode::InvalidInput,
                reason: reason.clone(),
            });
        }
        let assessed = matches!(description.kind, ComponentKind::Toolset { assessor: true });
        let declares_needs = matches!(description.kind, ComponentKind::Toolset { .. });
        let plugin = self.plugin(&found, description.kind);
        kept.insert((found.digest, found.place.clone()), Arc::clone(&plugin));
        let backend = Arc::new(WasmBackend(plugin));
        let pure = is_pure(&description.imports);
        let origin = Arc::new(ToolOrigin {
            plugin: description.name.unwrap_or_else(|| found.stem.to_owned()),
            declares_needs,
            version: description.version,
            location: found.place.clone(),
            digest: found.digest.to_string(),
            proofs: proofs(&description.imports)
                .iter()
                .map(ToString::to_string)
                .collect(),
            imports: description.imports,
            ..ToolOrigin::default()
        });
        for definition in tools {
            let trust = match found.source {
                ToolSource::BuiltIn => ToolTrust::Trusted,
                _ if pure && definition.needs.is_empty() => ToolTrust::Harmless,
                _ => ToolTrust::Untrusted,
            };
            // Grants for a foreign component come from the user, who is asked elsewhere.
            let aliases = found.aliases(definition.name.as_str());
            let origin = Arc::clone(&origin);
            let tool = Tool::new(definition, found.source, origin, trust, backend.clone());
            let tool = tool.with_aliases(aliases).with_assessor(assessed);
            loaded.tools.push(tool);
        }
    }

    /// Returns the plugin that is already loaded, or a new one.
    fn plugin(&self, found: &FoundComponent<'_>, kind: ComponentKind) -> Arc<WasmPlugin> {
        let plugins = self.plugins.lock();
        if let Some(plugin) = plugins.get(&(found.digest, found.place.clone())) {
            return Arc::clone(plugin);
        }
        let mut plugin = WasmPlugin::new(
            Arc::clone(&self.host),
            found.bytes.clone(),
            found.place.clone(),
            found.digest,
            kind,
        );
        if let Some(bundled) = found.bundled {
            plugin.own = BuiltinTraits {
                requires_undo: bundled.requires_undo,
                memory: bundled.keeps_memory,
            };
        }
        Arc::new(plugin)
    }

    /// Polls the folder and passes on its contents whenever something changed. Polling works on every file system,
    /// unlike notifications, and a scan of a thousand files takes about a millisecond.
    pub async fn watch(&self, every: Duration, mut on_change: impl FnMut(LoadedTools) + Send) {
        let Some(path) = &self.folder else {
            return;
        };
        let look = || tool_folder::scan_folder(path).ok();
        let mut seen: Option<FolderScan> = look();
        loop {
            tokio::time::sleep(every).await;
            let now = look();
            if now != seen {
                seen = now;
                on_change(self.load().await);
            }
        }
    }
}

type PluginMap = HashMap<(Sha256Digest, String), Arc<WasmPlugin>>;

/// A component that was found, before its kind is known.
struct FoundComponent<'a> {
    stem: &'a str,
    source: ToolSource,
    bundled: Option<&'a BundledComponent>,
    place: String,
    bytes: ComponentBytes,
    digest: Sha256Digest,
}

impl FoundComponent<'_> {
    /// Returns its tools, by their own names. A program is one tool, named after its file.
    fn tools(
        &self,
        description: &mut ComponentDescription,
    ) -> Option<Vec<mimir_core::ToolDefinition>> {
        match &description.kind {
            ComponentKind::Toolset { .. } => Some(std::mem::take(&mut description.tools)),
            ComponentKind::Lifted(lifted) => Some(describe::lifted_definitions(lifted)),
            ComponentKind::Command => {
                Some(vec![describe::program_definition(tool_name(self.stem)?)])
            }
        }
    }

    fn aliases(&self, name: &str) -> Vec<ToolName> {
        let all = self.bundled.map_or(&[][..], |bundled| bundled.aliases);
        let own = all.iter().filter(|(tool, _)| *tool == name);
        own.filter_map(|(_, alias)| ToolName::new(alias).ok())
            .collect()
    }
}
