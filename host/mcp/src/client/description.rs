//! Descriptions of servers: parsed leniently, tool by tool, made safe to show, and cached.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::backend::Backend;
use mimir_core::needs::Needs;
use mimir_core::redact::Redactor;
use mimir_core::registry::Quarantined;
use mimir_core::text;
use mimir_core::tool::{ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Decision, RiskLevel, Schema, Tool, ToolDefinition, ToolError, ToolErrorCode, ToolGroup,
    ToolHints,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::connection::MAX_ITEMS;
use super::flags::{escape_invisible, escape_invisible_in_value, find_flags};
use super::names;
use super::operation::ServerListKind;
use super::reader_tools::EntryKind;
use super::resource_library;
use super::spec::ServerSpec;

/// Last known description of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDescription {
    /// Format version of this struct.
    #[serde(rename = "form")]
    pub format_version: u32,
    /// Name and version that the server reports.
    pub server: (String, String),
    /// Tools, as the server sent them.
    pub tools: Vec<Value>,
    /// Prompts, as the server sent them.
    pub prompts: Vec<Value>,
    /// Resources, as the server sent them.
    pub resources: Vec<Value>,
    /// Resource templates, as the server sent them.
    pub templates: Vec<Value>,
    /// Capabilities besides tools.
    #[serde(rename = "can")]
    pub abilities: ServerAbilities,
    /// True if the server has more tools than were read.
    #[serde(rename = "more")]
    pub is_truncated: bool,
}

/// Capabilities of a server besides tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerAbilities {
    /// True if the server has resources.
    pub resources: bool,
    /// True if the server supports subscriptions to resource updates.
    pub subscribe: bool,
    /// True if the server has prompts.
    pub prompts: bool,
    /// True if the server completes arguments of prompts and templates.
    pub complete: bool,
}

/// Format version that this code writes and reads.
const FORMAT_VERSION: u32 = 3;

/// Cache for descriptions of servers. Lost entries are fetched again.
pub trait DescriptionStore: Send + Sync {
    /// Returns the text stored under a key.
    fn read(&self, key: &str) -> Option<String>;
    /// Stores a text under a key.
    fn write(&self, key: &str, text: &str);
}

/// Record of a failure to start or reach a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartFailure {
    /// Time of the failure, in seconds since 1970.
    at: u64,
    code: ToolErrorCode,
    reason: String,
    #[serde(default, rename = "way_out")]
    remedies: Vec<String>,
}

/// Time in seconds for which a failed server is not started again to list its tools, because an attempt can take as
/// long as the start timeout.
pub(super) const RETRY_DELAY_SECS: u64 = 300;

impl StartFailure {
    /// Records a failure at the current time.
    pub(super) fn new(error: &ToolError) -> Self {
        Self {
            at: unix_seconds(),
            code: error.code,
            reason: error.message.clone(),
            remedies: error.remedies.to_vec(),
        }
    }

    /// Parses a stored failure. Returns `None` if the text is not valid or the failure is too old.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let failure: Self = serde_json::from_str(text).ok()?;
        // A clock that was set back must not make a failure last forever.
        let since = unix_seconds().checked_sub(failure.at)?;
        (since < RETRY_DELAY_SECS).then_some(failure)
    }

    /// Returns the error.
    pub(super) fn error(self) -> ToolError {
        ToolError::new(self.code, self.reason).with_remedies(self.remedies)
    }
}

fn unix_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs())
}

/// Maximum size in bytes of a server's whole description, which is cached in memory and on disk.
pub(super) const MAX_TOTAL_SIZE: usize = 8 << 20;

/// Maximum sizes in bytes of a server's names, descriptions and schemas. Longer ones do not help a model.
const MAX_NAME_SIZE: usize = 256;
const MAX_DESCRIPTION_SIZE: usize = 32 << 10;
const MAX_SCHEMA_SIZE: usize = 256 << 10;

/// A tool of a server, with its definition in mimir.
pub(super) struct RemoteTool {
    /// Name of the tool at the server.
    pub(super) name: String,
    pub(super) definition: ToolDefinition,
    flags: Vec<String>,
}

impl ServerDescription {
    /// Creates a description from the server's name, version and tools.
    pub(super) fn new(server: (String, String), tools: Vec<Value>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            server,
            tools,
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            abilities: ServerAbilities::default(),
            is_truncated: false,
        }
    }

    /// Returns the tools, prompts, resources or templates.
    pub(super) fn list(&self, kind: ServerListKind) -> &[Value] {
        match kind {
            ServerListKind::Tools => &self.tools,
            ServerListKind::Prompts => &self.prompts,
            ServerListKind::Resources => &self.resources,
            ServerListKind::Templates => &self.templates,
        }
    }

    /// Returns the reader tools for the server's resources and prompts.
    fn reader_tools(&self, spec: &ServerSpec) -> Vec<(EntryKind, ToolDefinition)> {
        let kinds = [
            (
                EntryKind::Resources,
                spec.resources && self.abilities.resources,
            ),
            (EntryKind::Prompts, spec.prompts && self.abilities.prompts),
        ];
        let kinds = kinds.into_iter().filter(|(_, enabled)| *enabled);
        kinds
            .filter_map(|(kind, _)| Some((kind, kind.definition(spec)?)))
            .collect()
    }

    /// Parses a stored description. Returns `None` if its format differs.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let description: Self = serde_json::from_str(text).ok()?;
        (description.format_version == FORMAT_VERSION).then_some(description)
    }

    /// Returns the tools that can be called, and those that are left out, with the reason. An invalid tool does not
    /// affect the others.
    pub(super) fn remote_tools(&self, spec: &ServerSpec) -> (Vec<RemoteTool>, Vec<Quarantined>) {
        let mut left_out = Vec::new();
        let mut quarantine = |name: &str, code, reason: String| {
            let name = text::visible(text::prefix(name, MAX_NAME_SIZE));
            left_out.push(Quarantined {
                location: format!("{} ({name})", spec.location()),
                code,
                reason,
            });
        };
        let mut named: Vec<(&str, &Value)> = Vec::new();
        for tool in self.tools.iter().take(MAX_ITEMS) {
            match tool["name"].as_str() {
                Some(name) if name.is_empty() || name.len() > MAX_NAME_SIZE => {
                    let reason = format!("the name of a tool must have 1 to {MAX_NAME_SIZE} bytes");
                    quarantine(name, ToolErrorCode::InvalidInput, reason);
                }
                Some(name) if named.iter().any(|(known, _)| *known == name) => quarantine(
                    name,
                    ToolErrorCode::AlreadyExists,
                    "the server has several tools of this name: only the first is used".to_owned(),
                ),
                Some(name) => named.push((name, tool)),
                None => quarantine(
                    "?",
                    ToolErrorCode::InvalidInput,
                    "the tool has no name".to_owned(),
                ),
            }
        }
        if self.is_truncated {
            let limit = text::bytes(MAX_TOTAL_SIZE as u64);
            let reason = format!(
                "the remaining tools of the server are left out: the limit per server is {MAX_ITEMS} tools or {limit}"
            );
            quarantine("…", ToolErrorCode::LimitExceeded, reason);
        }
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let unique = names::unique_names(&spec.prefix, &names);
        let mut remote = Vec::new();
        for ((name, tool), unique) in named.into_iter().zip(unique) {
            let Some(unique_name) = unique else {
                quarantine(
                    name,
                    ToolErrorCode::InvalidInput,
                    "the name of the tool cannot be converted to a valid tool name".to_owned(),
                );
                continue;
            };
            match parse_tool(name, unique_name, tool, &names) {
                Ok(tool) => remote.push(tool),
                Err(reason) => quarantine(name, ToolErrorCode::InvalidInput, reason),
            }
        }
        (remote, left_out)
    }

    /// Returns the tools for the registry. `backend` creates the backend of a tool from the server's name for it, and
    /// `reader` creates the backend of a reader tool.
    pub(super) fn tools(
        &self,
        spec: &ServerSpec,
        backend: impl Fn(&RemoteTool) -> Arc<dyn Backend>,
        reader: impl Fn(EntryKind) -> Arc<dyn Backend>,
    ) -> (Vec<Tool>, Vec<Quarantined>) {
        let (remote, left_out) = self.remote_tools(spec);
        let readers = self.reader_tools(spec);
        let imports = spec.identity();
        let mut hash = Sha256::new();
        let parts = imports.iter().map(String::as_bytes);
        parts.for_each(|part| hash_part(&mut hash, part));
        let definitions = remote.iter().map(|tool| &tool.definition);
        let definitions = definitions.chain(readers.iter().map(|(_, definition)| definition));
        let mut digests: Vec<String> = definitions.map(definition_digest).collect();
        digests.sort();
        digests
            .iter()
            .for_each(|digest| hash_part(&mut hash, digest.as_bytes()));
        let listed = resource_library::entries(spec, self);
        for entry in &listed {
            hash_part(&mut hash, entry.text.as_bytes());
        }
        let origin = Arc::new(ToolOrigin {
            plugin: spec.name.clone(),
            version: text::visible(text::prefix(&self.server.1, MAX_NAME_SIZE)),
            location: spec.location(),
            digest: format!("{:x}", hash.finalize()),
            declares_needs: true,
            imports,
            listed,
            ..ToolOrigin::default()
        });
        let remote = remote
            .into_iter()
            .map(|remote| (backend(&remote), remote.definition, remote.flags));
        let readers = readers
            .into_iter()
            .map(|(readers, definition)| (reader(readers), definition, Vec::new()));
        let tools = remote.chain(readers).map(|(backend, definition, flags)| {
            let (origin, trust) = (Arc::clone(&origin), ToolTrust::Untrusted);
            Tool::new(definition, ToolSource::Mcp, origin, trust, backend).with_flags(flags)
        });
        (tools.collect(), left_out)
    }
}

/// Masks known secrets in everything that a server says about itself, because models read it and it is stored. Text
/// that only looks like a secret remains, since `password` is the name of many a parameter.
pub(super) fn mask_known_secrets(redactor: &Redactor, value: &mut Value) {
    let mask = |text: &mut String| {
        let mut bytes = std::mem::take(text).into_bytes();
        redactor.mask_bytes(&mut bytes);
        *text = String::from_utf8_lossy(&bytes).into_owned();
    };
    match value {
        Value::String(text) => mask(text),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| mask_known_secrets(redactor, item)),
        Value::Object(map) => {
            let members = std::mem::take(map).into_iter();
            *map = members
                .map(|(mut key, mut value)| {
                    mask(&mut key);
                    mask_known_secrets(redactor, &mut value);
                    (key, value)
                })
                .collect();
        }
        _ => {}
    }
}

fn hash_part(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

/// Returns the digest of a definition: definitions that differ in anything visible have different digests.
pub(super) fn definition_digest(definition: &ToolDefinition) -> String {
    let text = serde_json::to_vec(definition).unwrap_or_default();
    format!("{:x}", Sha256::digest(text))
}

/// Parses a tool, or returns the reason why it cannot be used.
fn parse_tool(
    name: &str,
    unique_name: mimir_core::ToolName,
    tool: &Value,
    own: &[&str],
) -> Result<RemoteTool, String> {
    let text_of = |key: &str| tool[key].as_str().unwrap_or_default();
    let description = text_of("description");
    if description.len() > MAX_DESCRIPTION_SIZE {
        let limit = text::bytes(MAX_DESCRIPTION_SIZE as u64);
        return Err(format!(
            "the description of the tool is longer than {limit}"
        ));
    }
    let hints = &tool["annotations"];
    let title = match text_of("title") {
        "" => hints["title"].as_str().unwrap_or_default(),
        title => title,
    };
    let input_schema = match &tool["inputSchema"] {
        Value::Null => return Err("the tool has no input schema".to_owned()),
        schema => parse_schema("input", schema)?,
    };
    let output_schema = match &tool["outputSchema"] {
        Value::Null => None,
        schema => Some(parse_schema("output", schema)?),
    };
    let flags = find_flags(tool, own);
    let hint = |key: &str| hints[key].as_bool();
    let destructive = hint("destructiveHint") == Some(true);
    Ok(RemoteTool {
        name: name.to_owned(),
        definition: ToolDefinition {
            name: unique_name,
            title: (!title.is_empty())
                .then(|| text::visible(text::prefix(&escape_invisible(title), MAX_NAME_SIZE))),
            description: escape_invisible(description),
            group: ToolGroup::System,
            input_schema,
            output_schema,
            // Only the user can lower this, whatever the server's hints claim.
            approval: Decision::Ask,
            silent: true,
            risk: if destructive || !flags.is_empty() {
                RiskLevel::High
            } else {
                RiskLevel::Medium
            },
            hints: ToolHints {
                read_only: hint("readOnlyHint") == Some(true) && !destructive,
                destructive,
                idempotent: hint("idempotentHint") == Some(true),
                // A server may be connected to anything, whatever its hints claim.
                open_world: true,
            },
            needs: Needs::default(),
        },
        flags,
    })
}

fn parse_schema(which: &str, value: &Value) -> Result<Schema, String> {
    let mut value = value.clone();
    escape_invisible_in_value(&mut value);
    let text = value.to_string();
    if text.len() > MAX_SCHEMA_SIZE {
        let limit = text::bytes(MAX_SCHEMA_SIZE as u64);
        return Err(format!(
            "the {which} schema of the tool is longer than {limit}"
        ));
    }
    Schema::parse(&text).map_err(|error| {
        let error = error.to_string();
        format!(
            "the {which} schema of the tool is not valid: {}",
            text::visible(text::prefix(&error, MAX_NAME_SIZE))
        )
    })
}
