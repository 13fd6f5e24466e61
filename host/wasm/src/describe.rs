//! What a component says of itself, checked once and kept by its hash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use mimir_core::call::Unobserved;
use mimir_core::names::did_you_mean;
use mimir_core::tool::{Definition, Group, Hints, Risk, ToolName};
use mimir_core::{Code, Decision, Limits, Needs, Schema, text};

use crate::bindings::types;
use crate::cache;
use crate::call;
use crate::convert;
use crate::digest::Hash;
use crate::error::HostError;
use crate::family::{self, Detected, Family};
use crate::faults::fault;
use crate::fs::GuardedFs;
use crate::guest::{Granted, Start};
use crate::host::WasmHost;
use crate::lift::{LiftedTools, command};
use crate::plugin::{Bytes, Plugin};

/// How a component is called.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Through `mimir:tool/toolset`.
    Toolset {
        /// Whether it judges its own calls.
        assessor: bool,
    },
    /// Through its own typed exports.
    Lifted(LiftedTools),
    /// As a program.
    Command,
}

/// What is known of a component without running it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description {
    pub kind: Kind,
    /// The plugin's own name; foreign components have none.
    pub name: Option<String>,
    pub version: String,
    pub imports: Vec<String>,
    /// What a toolset says of its tools. Those of other kinds follow from the kind.
    pub tools: Vec<Definition>,
    /// Tools that are left out, and why.
    pub refused: Vec<(String, String)>,
}

/// What is kept of a component: what it is, or why it is nothing.
pub(crate) type Described = Result<Description, (Code, String)>;

/// Version of the kept form. A change of [`Description`] or of what is checked needs a new one.
pub(crate) const FORM: u32 = 2;

/// Bounds of a description: enough for a plugin that builds its schemas at run time.
const TIME: Duration = Duration::from_secs(5);
const FUEL: u64 = 5_000_000_000;
const MOST_BYTES: u64 = 4 << 20;
const MOST_TOOLS: usize = 256;

/// Longest texts in a definition, in characters. A model reads every description in every prompt.
const NAME_MAX: usize = 64;
const DESCRIPTION_MAX: usize = 8_000;
const TEXT_MAX: usize = 500;
const SCHEMA_MAX: usize = 200_000;
const NEEDS_MAX: usize = 100;

/// What a look at a component brought.
pub(crate) struct Look {
    pub digest: Hash,
    pub described: Described,
    /// Whether another look would bring the same: what lies at this machine or this moment does not last.
    pub lasts: bool,
}

/// The description of a component: from the cache, or from the component itself.
pub(crate) async fn look(
    host: &Arc<WasmHost>,
    bytes: &Bytes,
    place: &str,
    digest: Option<Hash>,
) -> Look {
    let cached = |digest| {
        let described = kept(host, &digest)?;
        Some(Look {
            digest,
            described,
            lasts: true,
        })
    };
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
    let described = describe(host, bytes, place, digest, &content).await;
    // A plugin that was too slow may have had a busy machine.
    let lasts = !matches!(
        described,
        Err(HostError::Engine(_)
            | HostError::Read { .. }
            | HostError::Changed(_)
            | HostError::Manifest(_, Code::Timeout))
    );
    let described = described.map_err(|error| (error.code(), error.to_string()));
    if lasts {
        match serde_json::to_vec(&described) {
            Ok(content) => host
                .cache()
                .put(cache::Kind::Description, &key(&digest), &content),
            Err(error) => tracing::warn!(%error, place, "a description cannot be kept"),
        }
    }
    Look {
        digest,
        described,
        lasts,
    }
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
    content: &[u8],
) -> Result<Description, HostError> {
    let detected = family::detect(content).map_err(|error| {
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

/// A definition for a component that has only types to say about itself.
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
        risk: Risk::Low,
        hints: Hints::default(),
        needs: Needs::default(),
    }
}

/// The tools that a component's own exports come to.
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

/// The one tool of a program, named by its file.
pub(crate) fn program(name: ToolName) -> Definition {
    let (description, schema) = command::definition(&name);
    plain(name, description, schema, None)
}

/// Runs `describe` with nothing granted.
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
    let callee = plugin.callee().await?;
    let limits = Limits {
        wall: TIME,
        fuel: FUEL,
        output_bytes: MOST_BYTES,
        log_lines: 10,
        ..Limits::default()
    };
    let internal = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
    let mut store = callee
        .store(Start {
            fs: GuardedFs::none(),
            limits,
            observer: Arc::new(Unobserved),
            nested: None,
            granted: Granted::default(),
            command: None,
        })
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
            let message = format!("it did not describe its tools within {} s", TIME.as_secs());
            Err(HostError::Manifest(message, Code::Timeout))
        }
    }
}

/// The tools of a manifest: the good ones, and the ones that are left out and why.
type Sorted = (Vec<Definition>, Vec<(String, String)>);

/// Checks the tools of a manifest one by one. A bad tool is left out and the others go on; a manifest
/// that is bad as a whole is refused as a whole.
fn definitions(tools: Vec<types::Definition>) -> Result<Sorted, HostError> {
    let whole = |message: String| {
        Err(HostError::Manifest(
            format!("it {message}"),
            Code::InvalidInput,
        ))
    };
    if tools.is_empty() {
        return whole("describes no tools".to_owned());
    }
    if tools.len() > MOST_TOOLS {
        return whole(format!(
            "describes {} tools; {MOST_TOOLS} are the most, so split it into several plugins",
            tools.len()
        ));
    }
    let mut seen = HashSet::new();
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for tool in tools {
        let name = line(&tool.name, NAME_MAX);
        if !seen.insert(tool.name.clone()) {
            refused.push((
                name,
                "the plugin describes this name twice; only the first counts".to_owned(),
            ));
            continue;
        }
        match definition(tool) {
            Ok(definition) => good.push(definition),
            Err(reason) => refused.push((name, reason)),
        }
    }
    Ok((good, refused))
}

fn definition(tool: types::Definition) -> Result<Definition, String> {
    let name = ToolName::new(&tool.name).map_err(|error| error.to_string())?;
    let long = |what: &str, length: usize, most: usize| {
        format!("its {what} has {length} characters; {most} are the most")
    };
    let length = tool.description.chars().count();
    if length > DESCRIPTION_MAX {
        return Err(long("description", length, DESCRIPTION_MAX));
    }
    if tool.description.trim().is_empty() {
        return Err("it has no description, so no model could choose it".to_owned());
    }
    let schema = |what: &str, text: &str| {
        if text.len() > SCHEMA_MAX {
            return Err(long(what, text.len(), SCHEMA_MAX));
        }
        Schema::parse(text).map_err(|error| format!("its {what} is {error}"))
    };
    Ok(Definition {
        name,
        title: tool.title.map(|title| line(&title, TEXT_MAX)),
        description: text::sanitize(tool.description),
        group: convert::group(tool.group),
        input_schema: schema("input schema", &tool.input_schema)?,
        output_schema: tool
            .output_schema
            .map(|text| schema("output schema", &text))
            .transpose()?,
        approval: convert::approval(tool.approval),
        risk: convert::risk(tool.risk),
        hints: convert::hints(tool.hints),
        needs: needs(convert::needs(tool.needs))?,
    })
}

/// Checks what a tool asks for: a need that could not be granted as written is an error of its author.
fn needs(mut needs: Needs) -> Result<Needs, String> {
    let count = needs.files.len()
        + needs.hosts.len()
        + needs.commands.len()
        + needs.secrets.len()
        + needs.variables.len()
        + needs.tools.len();
    if count > NEEDS_MAX {
        return Err(format!("it has {count} needs; {NEEDS_MAX} are the most"));
    }
    for need in &mut needs.files {
        let trimmed = need.path.trim_end_matches('/');
        let inside = trimmed == "."
            || trimmed
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..");
        if !inside || need.path.contains(['\\', '\0', ':']) {
            let shown = line(&need.path, TEXT_MAX);
            return Err(format!(
                "it needs the directory `{shown}`: write a path below the workspace, such as `data`, or `.` for all of it"
            ));
        }
        need.path = trimmed.to_owned();
        need.reason = line(&need.reason, TEXT_MAX);
    }
    for need in &mut needs.hosts {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        if let Some(method) = need
            .methods
            .iter()
            .find(|method| !METHODS.contains(&method.as_str()))
        {
            let near = did_you_mean(method, METHODS);
            return Err(format!(
                "it needs the HTTP method `{}`, which is none.{near}",
                line(method, NAME_MAX)
            ));
        }
        need.reason = line(&need.reason, TEXT_MAX);
    }
    for reason in needs
        .commands
        .iter_mut()
        .map(|n| &mut n.reason)
        .chain(needs.secrets.iter_mut().map(|n| &mut n.reason))
    {
        *reason = line(reason, TEXT_MAX);
    }
    Ok(needs)
}

/// A text of the guest as one short line.
fn line(text: &str, most: usize) -> String {
    text::visible(text::prefix(text, most))
}
