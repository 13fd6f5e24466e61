//! Description of a component, checked once and cached by its hash.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use mimir_core::tool::{Definition, Group, Hints, Risk, ToolName};
use mimir_core::{Code, Decision, Limits, Needs, Schema};

use crate::cache;
use crate::call;
use crate::convert;
use crate::digest::Hash;
use crate::error::HostError;
use crate::family::{self, Detected, Family};
use crate::faults::fault;
use crate::fs::GuardedFs;
use crate::guest::Start;
use crate::host::WasmHost;
use crate::lift::{LiftedTools, command};
use crate::plugin::{Bytes, Plugin};
use crate::rest;

mod definitions;

use definitions::{NAME_MAX, definitions, line};

/// The calling convention of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Through `mimir:tool/toolset`.
    Toolset {
        /// True if it assesses its own calls.
        assessor: bool,
    },
    /// Through its own typed exports.
    Lifted(LiftedTools),
    /// As a program.
    Command,
}

/// Everything known about a component without running it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description {
    pub kind: Kind,
    /// The plugin's own name; foreign components have none.
    pub name: Option<String>,
    pub version: String,
    pub imports: Vec<String>,
    /// A toolset's tool definitions. Those of the other kinds follow from the kind.
    pub tools: Vec<Definition>,
    /// Tools that are left out, with the reasons.
    pub refused: Vec<(String, String)>,
}

/// The cached result for a component: its description, or the error.
pub(crate) type Described = Result<Description, (Code, String)>;

/// Version of the cached form, and part of its key: entries of other versions are ignored. Entries that cannot be
/// parsed are ignored anyway; a new version is needed when old entries could be parsed but would be wrong: when a
/// field of [`Description`] changes its meaning, when `definitions` checks more or less, or when detection or lifting
/// of components changes.
pub(crate) const FORM: u32 = 6;

/// Limits for getting a description: enough for a plugin that builds its schemas at run time.
const TIME: Duration = Duration::from_secs(5);
const FUEL: u64 = 5_000_000_000;
const MOST_BYTES: u64 = 4 << 20;

/// The result of inspecting a component.
pub(crate) struct Look {
    pub digest: Hash,
    pub described: Described,
    /// True if another inspection would return the same: faults of this machine or this moment do not last.
    pub lasts: bool,
}

/// Parses the description shipped with a component, if it has the current form.
pub(crate) fn shipped(text: &str) -> serde_json::Result<Description> {
    serde_json::from_str(text)
}

/// Returns the current description of a built-in component, in the form in which it is shipped.
pub(crate) async fn ask_for_shipping(
    host: &Arc<WasmHost>,
    component: &'static [u8],
    place: &str,
) -> Result<String, HostError> {
    let bytes = Bytes::Bundled(component);
    let described = describe(host, &bytes, place, Hash::of(component), component.into()).await?;
    let text = serde_json::to_string_pretty(&described);
    let text = text.map_err(|error| HostError::Engine(error.to_string()))?;
    Ok(text + "\n")
}

/// Returns the description of a component: from the cache, or from the component itself. A component that recently
/// timed out is asked only if `again`.
pub(crate) async fn look(
    host: &Arc<WasmHost>,
    bytes: &Bytes,
    place: &str,
    digest: Option<Hash>,
    again: bool,
) -> Look {
    let cached = |digest| {
        let described = kept(host, &digest)?;
        Some(Look {
            digest,
            described,
            lasts: true,
        })
    };
    // A component described before is not read into memory: only its hash is needed.
    let digest = digest.or_else(|| bytes.digest(place).ok());
    if let Some(look) = digest.and_then(cached) {
        return look;
    }
    let content = match bytes.read(place) {
        Ok(content) => content,
        Err(error) => {
            return Look {
                digest: Hash([0; 32]),
                described: Err((error.code(), error.to_string())),
                lasts: false,
            };
        }
    };
    let digest = Hash::of(&content);
    if let Some(look) = cached(digest) {
        return look;
    }
    if !again && let Some((_, reason)) = rest::reason(host.cache(), &digest, rest::Kind::Describe) {
        return Look {
            digest,
            described: Err((Code::Timeout, reason)),
            lasts: false,
        };
    }
    let described = describe(host, bytes, place, digest, content).await;
    // A plugin that timed out may have run on a busy machine.
    let lasts = !matches!(
        described,
        Err(HostError::Engine(_)
            | HostError::Read { .. }
            | HostError::Changed(_)
            | HostError::Compile(..)
            | HostError::Component(_, Code::Timeout | Code::Unavailable)
            | HostError::Manifest(_, Code::Timeout))
    );
    // A compile timeout was already recorded by the compile queue.
    let was_asked = matches!(described, Err(HostError::Manifest(..)));
    let mut described = described.map_err(|error| (error.code(), error.to_string()));
    if let Err((Code::Timeout, reason)) = &mut described
        && was_asked
    {
        let kind = rest::Kind::Describe;
        rest::remember(host.cache(), &digest, kind, Code::Timeout, reason);
        if let Some((_, until)) = rest::reason(host.cache(), &digest, rest::Kind::Describe) {
            *reason = until;
        }
    }
    if lasts {
        match serde_json::to_vec(&described) {
            Ok(content) => host
                .cache()
                .put(cache::Kind::Description, &key(&digest), &content),
            Err(error) => tracing::warn!(%error, place, "cannot cache a description"),
        }
    }
    Look {
        digest,
        described,
        lasts,
    }
}

/// Returns the description of a component from the cache alone, without compiling. `None` if it was never described.
pub(crate) fn look_cached(host: &WasmHost, bytes: &Bytes, place: &str) -> Option<Look> {
    let digest = bytes.digest(place).ok()?;
    let described = kept(host, &digest)?;
    Some(Look {
        digest,
        described,
        lasts: true,
    })
}

fn key(digest: &Hash) -> String {
    format!("{digest}-{FORM}")
}

fn kept(host: &WasmHost, digest: &Hash) -> Option<Described> {
    let content = host.cache().get(cache::Kind::Description, &key(digest))?;
    serde_json::from_slice(&content).ok()
}

async fn describe(
    host: &Arc<WasmHost>,
    bytes: &Bytes,
    place: &str,
    digest: Hash,
    content: Cow<'static, [u8]>,
) -> Result<Description, HostError> {
    let detected = family::detect(&content);
    // Several components may wait for a compiler or for their own end; none of them should occupy memory meanwhile.
    drop(content);
    let detected = detected.map_err(|error| {
        let code = serde_json::from_value(error.code().into()).unwrap_or(Code::InvalidInput);
        HostError::Component(error.to_string(), code)
    })?;
    let Detected {
        family, imports, ..
    } = detected;
    match family {
        Family::Toolset { assessor, .. } => {
            let kind = Kind::Toolset { assessor };
            let manifest = ask(host, bytes, place, digest, kind.clone()).await?;
            let (tools, refused) = definitions(manifest.tools)?;
            Ok(Description {
                kind,
                name: Some(line(&manifest.name, NAME_MAX)),
                version: line(&manifest.version, NAME_MAX),
                imports,
                tools,
                refused,
            })
        }
        Family::Lifted(lifted) => Ok(Description {
            tools: Vec::new(),
            refused: lifted
                .skipped
                .iter()
                .map(|skipped| (skipped.export.clone(), skipped.reason.clone()))
                .collect(),
            kind: Kind::Lifted(lifted),
            name: None,
            version: String::new(),
            imports,
        }),
        Family::Command => Ok(Description {
            kind: Kind::Command,
            name: None,
            version: String::new(),
            imports,
            tools: Vec::new(),
            refused: Vec::new(),
        }),
    }
}

/// Returns a definition for a component that is described by its types only.
fn plain(
    name: ToolName,
    description: String,
    input_schema: Schema,
    output_schema: Option<Schema>,
) -> Definition {
    Definition {
        name,
        title: None,
        description,
        group: Group::System,
        input_schema,
        output_schema,
        approval: Decision::Allow,
        silent: true,
        risk: Risk::Low,
        hints: Hints::default(),
        needs: Needs::default(),
    }
}

/// Returns the tools of a component's own exports.
pub(crate) fn lifted(lifted: &LiftedTools) -> Vec<Definition> {
    let tools = lifted.tools.iter().map(|tool| {
        plain(
            tool.name.clone(),
            tool.description.clone(),
            tool.input_schema.clone(),
            tool.output_schema.clone(),
        )
    });
    tools.collect()
}

/// Returns the only tool of a program, named after its file.
pub(crate) fn program(name: ToolName) -> Definition {
    let (description, schema) = command::definition(&name);
    plain(name, description, schema, None)
}

/// Runs `describe` without any grants.
async fn ask(
    host: &Arc<WasmHost>,
    bytes: &Bytes,
    place: &str,
    digest: Hash,
    kind: Kind,
) -> Result<convert::Manifest, HostError> {
    let plugin = Arc::new(Plugin::new(
        Arc::clone(host),
        bytes.clone(),
        place.to_owned(),
        digest,
        kind,
    ));
    let callee = plugin.callee(host.compile_limits()).await?;
    let limits = Limits {
        wall: TIME,
        fuel: FUEL,
        output_bytes: MOST_BYTES,
        log_lines: 10,
        ..Limits::default()
    };
    let internal = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
    let mut store = callee
        .store(Start::alone(GuardedFs::none(), limits))
        .map_err(internal)?;
    let asked = tokio::time::timeout(TIME, call::describe(&mut store, callee)).await;
    match asked {
        Ok(Ok(Some(manifest))) => Ok(manifest),
        Ok(Ok(None)) => Err(HostError::Manifest(
            "it does not describe itself".to_owned(),
            Code::InvalidInput,
        )),
        Ok(Err(error)) => {
            let fault = fault(&error, store.data());
            Err(HostError::Manifest(
                format!("it cannot describe its tools: {}", fault.message),
                fault.code,
            ))
        }
        Err(_) => {
            let message = format!(
                "its description of its tools took longer than {} s",
                TIME.as_secs()
            );
            Err(HostError::Manifest(message, Code::Timeout))
        }
    }
}
