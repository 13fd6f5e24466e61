//! Descriptions of components, checked once and cached by the component's hash.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use mimir_core::tool::{RiskLevel, ToolDefinition, ToolGroup, ToolHints, ToolName};
use mimir_core::{Decision, Limits, Needs, Schema, ToolErrorCode};

use crate::backoff;
use crate::cache;
use crate::call;
use crate::compile::run_blocking;
use crate::componentize::{ADAPT_VERSION, adapt_exports};
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::family::{self, ComponentFamily, DetectedComponent, WasiGeneration};
use crate::fs::GuardedFs;
use crate::host::WasmHost;
use crate::http_handler;
use crate::lift::{LiftedTools, command};
use crate::packed::PackedComponent;
use crate::plugin::{ComponentBytes, WasmPlugin};
use crate::store_state::StoreOptions;
use crate::toolbox::ComponentCheck;
use crate::trap_errors::trap_error;

mod definitions;
mod manifest;
mod plugin_manifest;

use definitions::{MAX_NAME, SortedDefinitions, definitions, single_line};
pub use manifest::finish_plugin;
pub(crate) use manifest::verify_manifest;
use plugin_manifest::PluginManifest;

/// The calling convention of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ComponentKind {
    /// Through `mimir:tool/toolset`.
    Toolset {
        /// True if the plugin assesses its own calls.
        assessor: bool,
    },
    /// Through `near:agent/tool`.
    AgentTool,
    /// Through its own typed exports.
    Lifted(LiftedTools),
    /// As a server of HTTP requests.
    HttpHandler(WasiGeneration),
    /// As a program.
    Command(WasiGeneration),
}

/// Everything known about a component without running it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComponentDescription {
    pub kind: ComponentKind,
    /// The mode of the engine that the component needs. Shipped descriptions do not contain the default.
    #[serde(default, skip_serializing_if = "EngineMode::is_sequential")]
    pub mode: EngineMode,
    /// The plugin's own name; foreign components have none.
    pub name: Option<String>,
    pub version: String,
    pub imports: Vec<String>,
    /// The tool definitions of a toolset. Those of other kinds are derived from `kind`.
    pub tools: Vec<ToolDefinition>,
    /// Names of skipped tools, with the reasons.
    pub refused: Vec<(String, String)>,
}

/// The cached result for a component: its description, or the error.
pub(crate) type DescriptionResult = Result<ComponentDescription, (ToolErrorCode, String)>;

/// Version of the cached form and part of its key, so that entries of other versions are ignored.
///
/// Increase it when old entries could be parsed but would be wrong: when a field of [`ComponentDescription`] changes
/// its meaning, when `definitions` checks more or less, or when detection or lifting of components changes. Entries
/// that cannot be parsed are ignored in any case.
pub(crate) const FORMAT_VERSION: u32 = 9;

/// Limits for querying a description: enough for a plugin that builds its schemas at run time.
const TIMEOUT: Duration = Duration::from_secs(5);
const FUEL: u64 = 5_000_000_000;
const MAX_BYTES: u64 = 4 << 20;

/// Time limit for reading the types of a component, and for converting a core module. The largest language engines take a
/// second on a busy machine.
const OUTLINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Stands for the digest of a file that could not be read.
pub(crate) const UNREAD: Sha256Digest = Sha256Digest([0; 32]);

/// The result of inspecting a component.
pub(crate) struct InspectedComponent {
    pub digest: Sha256Digest,
    pub described: DescriptionResult,
    /// True if another inspection would have the same result, so that the result may be cached. False for temporary
    /// faults and faults of this machine.
    pub is_stable: bool,
}

/// Parses the description shipped with a component, if it has the current form.
pub(crate) fn parse_shipped(text: &str) -> serde_json::Result<ComponentDescription> {
    serde_json::from_str(text)
}

/// Returns the current description of a built-in component, in the form in which it is shipped.
pub(crate) async fn describe_for_shipping(
    host: &Arc<WasmHost>,
    component: PackedComponent,
    location: &str,
) -> Result<String, WasmHostError> {
    let bytes = ComponentBytes::Bundled(component);
    let unpacked = component.unpack()?;
    let digest = Sha256Digest::of_bytes(&unpacked);
    let described = describe(host, &bytes, location, digest, unpacked).await;
    let described = described.map_err(|error| error.at(location))?;
    let text = serde_json::to_string_pretty(&described);
    let text = text.map_err(|error| WasmHostError::Engine(error.to_string()))?;
    Ok(text + "\n")
}

/// Returns the description of a component: from the cache, or else by querying the component. A component that recently
/// timed out is queried only if `ignore_backoff` is true. Bytes that `check` refuses are neither parsed, compiled nor run.
pub(crate) async fn inspect(
    host: &Arc<WasmHost>,
    bytes: &ComponentBytes,
    location: &str,
    digest: Option<Sha256Digest>,
    ignore_backoff: bool,
    check: Option<&ComponentCheck>,
) -> InspectedComponent {
    let cached = |digest| {
        let described = cached_description(host, &digest)?;
        Some(InspectedComponent {
            digest,
            described,
            is_stable: true,
        })
    };
    // A component with a cached description is not read into memory: only its hash is needed.
    let digest = digest.or_else(|| bytes.digest(location).ok());
    if let Some(cached_inspection) = digest.and_then(cached) {
        return cached_inspection;
    }
    let content = match bytes.read(location) {
        Ok(content) => content,
        Err(error) => {
            return InspectedComponent {
                digest: UNREAD,
                described: Err((error.code(), error.to_string())),
                is_stable: false,
            };
        }
    };
    let digest = Sha256Digest::of_bytes(&content);
    // The plugin compiles only bytes with this digest.
    if let Some(Err(reason)) = check.map(|check| check(location, &digest)) {
        return InspectedComponent {
            digest,
            described: Err((ToolErrorCode::PolicyDenied, reason)),
            is_stable: false,
        };
    }
    if let Some(cached_inspection) = cached(digest) {
        return cached_inspection;
    }
    if !ignore_backoff
        && let Some((_, reason)) =
            backoff::active_failure(host.cache(), &digest, backoff::BackoffKind::Describe)
    {
        return InspectedComponent {
            digest,
            described: Err((ToolErrorCode::Timeout, reason)),
            is_stable: false,
        };
    }
    let described = describe(host, bytes, location, digest, content).await;
    // A plugin that timed out may have run on a busy machine.
    let is_stable = !matches!(
        described,
        Err(WasmHostError::Engine(_)
            | WasmHostError::Read { .. }
            | WasmHostError::Changed(_)
            | WasmHostError::Compile(..)
            | WasmHostError::Component(_, ToolErrorCode::Timeout | ToolErrorCode::Unavailable)
            | WasmHostError::Manifest(_, ToolErrorCode::Timeout))
    );
    // A compile timeout was already recorded by the compile queue.
    let was_queried = matches!(described, Err(WasmHostError::Manifest(..)));
    let mut described = described.map_err(|error| (error.code(), error.to_string()));
    if let Err((ToolErrorCode::Timeout, reason)) = &mut described
        && was_queried
    {
        let kind = backoff::BackoffKind::Describe;
        backoff::remember_failure(host.cache(), &digest, kind, ToolErrorCode::Timeout, reason);
        if let Some((_, until)) =
            backoff::active_failure(host.cache(), &digest, backoff::BackoffKind::Describe)
        {
            *reason = until;
        }
    }
    if is_stable {
        match serde_json::to_vec(&described) {
            Ok(content) => {
                host.cache()
                    .put(cache::CacheEntryKind::Description, &key(&digest), &content)
            }
            Err(error) => tracing::warn!(%error, location, "cannot cache a description"),
        }
    }
    InspectedComponent {
        digest,
        described,
        is_stable,
    }
}

/// Returns the cached description of a component, without compiling. `None` if no description is cached.
pub(crate) fn inspect_cached(
    host: &WasmHost,
    bytes: &ComponentBytes,
    location: &str,
) -> Option<InspectedComponent> {
    let digest = bytes.digest(location).ok()?;
    let described = cached_description(host, &digest)?;
    Some(InspectedComponent {
        digest,
        described,
        is_stable: true,
    })
}

fn key(digest: &Sha256Digest) -> String {
    format!("{digest}-{FORMAT_VERSION}-{ADAPT_VERSION}")
}

/// Returns the cached description of the component with this digest.
pub(crate) fn cached_description(
    host: &WasmHost,
    digest: &Sha256Digest,
) -> Option<DescriptionResult> {
    let content = host
        .cache()
        .get(cache::CacheEntryKind::Description, &key(digest))?;
    serde_json::from_slice(&content).ok()
}

async fn describe(
    host: &Arc<WasmHost>,
    bytes: &ComponentBytes,
    location: &str,
    digest: Sha256Digest,
    content: Vec<u8>,
) -> Result<ComponentDescription, WasmHostError> {
    // Frees the content: several components may wait for a compiler or run at the same time.
    let outlined = run_blocking(move || {
        let invalid =
            |reason: String| WasmHostError::Component(reason, ToolErrorCode::InvalidInput);
        let adapted = adapt_exports(&content).map_err(|error| invalid(error.to_string()))?;
        let mut detected =
            family::detect(&adapted.component).map_err(|error| invalid(error.to_string()))?;
        if let ComponentFamily::Lifted(tools) = &mut detected.family {
            tools.skipped.extend(adapted.skipped);
        }
        Ok((detected, manifest::listed_toolset(&adapted.component)))
    });
    // The thread continues, but the next attempts wait.
    let (detected, listed) = tokio::time::timeout(OUTLINE_TIMEOUT, outlined)
        .await
        .map_err(|_| {
            let seconds = OUTLINE_TIMEOUT.as_secs();
            let message = format!(
                "reading its types took longer than {seconds} s: build it with fewer imports and exports"
            );
            WasmHostError::Manifest(message, ToolErrorCode::Timeout)
        })??;
    let listed = listed.unwrap_or_else(|reason| {
        tracing::warn!(reason, location, "asking the component for its description");
        None
    });
    let DetectedComponent {
        family,
        imports,
        mode,
        ..
    } = detected;
    match family {
        ComponentFamily::Toolset { assessor, .. } => {
            let kind = ComponentKind::Toolset { assessor };
            let toolset = match listed {
                Some(toolset) => toolset,
                None => {
                    let manifest =
                        query_manifest(host, bytes, location, digest, (kind.clone(), mode));
                    DescribedToolset::new(manifest.await?)?
                }
            };
            let (tools, refused) = toolset.tools;
            Ok(ComponentDescription {
                kind,
                mode,
                name: Some(toolset.name),
                version: toolset.version,
                imports,
                tools,
                refused,
            })
        }
        ComponentFamily::AgentTool => {
            let kind = ComponentKind::AgentTool;
            let manifest = query_manifest(host, bytes, location, digest, (kind.clone(), mode));
            let (tools, refused) = definitions(manifest.await?.tools)?;
            Ok(ComponentDescription {
                tools,
                refused,
                ..plain_description(kind, mode, imports)
            })
        }
        ComponentFamily::Lifted(lifted) => Ok(ComponentDescription {
            tools: Vec::new(),
            refused: lifted
                .skipped
                .iter()
                .map(|skipped| (skipped.export.clone(), skipped.reason.clone()))
                .collect(),
            kind: ComponentKind::Lifted(lifted),
            mode,
            name: None,
            version: String::new(),
            imports,
        }),
        ComponentFamily::HttpHandler(generation) => Ok(plain_description(
            ComponentKind::HttpHandler(generation),
            mode,
            imports,
        )),
        ComponentFamily::Command(generation) => Ok(plain_description(
            ComponentKind::Command(generation),
            mode,
            imports,
        )),
    }
}

/// Returns the description of a component that is one tool.
fn plain_description(
    kind: ComponentKind,
    mode: EngineMode,
    imports: Vec<String>,
) -> ComponentDescription {
    ComponentDescription {
        kind,
        mode,
        name: None,
        version: String::new(),
        imports,
        tools: Vec::new(),
        refused: Vec::new(),
    }
}

/// The validated description of a toolset.
struct DescribedToolset {
    name: String,
    version: String,
    tools: SortedDefinitions,
}

impl DescribedToolset {
    /// Validates the plugin's own description.
    fn new(manifest: PluginManifest) -> Result<Self, WasmHostError> {
        Ok(Self {
            name: single_line(&manifest.name, MAX_NAME),
            version: single_line(&manifest.version, MAX_NAME),
            tools: definitions(manifest.tools)?,
        })
    }
}

/// Returns the definition of a tool whose component has no description of its own.
fn plain_definition(
    name: ToolName,
    description: String,
    input_schema: Schema,
    output_schema: Option<Schema>,
) -> ToolDefinition {
    ToolDefinition {
        name,
        title: None,
        description,
        group: ToolGroup::System,
        input_schema,
        output_schema,
        approval: Decision::Allow,
        silent: true,
        risk: RiskLevel::Low,
        hints: ToolHints::default(),
        // Such a component declares no needs: the user grants it access in the settings.
        needs: Needs::default(),
    }
}

/// Returns the definitions of a foreign component's exported functions.
pub(crate) fn lifted_definitions(lifted: &LiftedTools) -> Vec<ToolDefinition> {
    let tools = lifted.tools.iter().map(|tool| {
        plain_definition(
            tool.name.clone(),
            tool.description.clone(),
            tool.input_schema.clone(),
            tool.output_schema.clone(),
        )
    });
    tools.collect()
}

/// Returns the definition of the only tool of a server.
pub(crate) fn handler_definition() -> Option<ToolDefinition> {
    let (name, description, input, output) = http_handler::definition()?;
    Some(plain_definition(name, description, input, Some(output)))
}

/// Returns the definition of the only tool of a program.
pub(crate) fn program_definition(name: ToolName) -> ToolDefinition {
    let (description, schema) = command::definition(&name);
    plain_definition(name, description, schema, None)
}

/// Calls the plugin's export `describe`, without any grants.
async fn query_manifest(
    host: &Arc<WasmHost>,
    bytes: &ComponentBytes,
    location: &str,
    digest: Sha256Digest,
    (kind, mode): (ComponentKind, EngineMode),
) -> Result<PluginManifest, WasmHostError> {
    let plugin = Arc::new(WasmPlugin::new(
        Arc::clone(host),
        bytes.clone(),
        location.to_owned(),
        digest,
        kind,
        mode,
    ));
    let callee = plugin.load(host.compile_limits()).await?;
    let limits = Limits {
        wall: TIMEOUT,
        fuel: FUEL,
        output_bytes: MAX_BYTES,
        log_lines: 10,
        ..Limits::default()
    };
    let internal = |error: wasmtime::Error| WasmHostError::Engine(format!("{error:#}"));
    let mut store = callee
        .new_store(StoreOptions::isolated(GuardedFs::empty(), limits))
        .map_err(internal)?;
    let reply = tokio::time::timeout(TIMEOUT, call::describe(&mut store, callee)).await;
    match reply {
        Ok(Ok(Some(manifest))) => Ok(PluginManifest::from(manifest)),
        Ok(Ok(None)) => Err(WasmHostError::Manifest(
            "the component has no `describe` export".to_owned(),
            ToolErrorCode::InvalidInput,
        )),
        Ok(Err(error)) => {
            let host_error = trap_error(&error, store.data());
            Err(WasmHostError::Manifest(
                format!("it cannot describe its tools: {}", host_error.message),
                host_error.code,
            ))
        }
        Err(_) => {
            let message = format!(
                "it took longer than {} s to describe its tools",
                TIMEOUT.as_secs()
            );
            Err(WasmHostError::Manifest(message, ToolErrorCode::Timeout))
        }
    }
}
