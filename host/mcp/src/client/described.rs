//! What a server says that its tools are: read leniently, tool by tool, made safe to show, and kept for the next time.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::backend::Backend;
use mimir_core::needs::Needs;
use mimir_core::redact::Redactor;
use mimir_core::registry::Quarantined;
use mimir_core::text;
use mimir_core::tool::{Origin, Source, Trust};
use mimir_core::{Code, Decision, Definition, Group, Hints, Risk, Schema, Tool, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::flags::{flags, show_value, shown};
use super::library;
use super::link::ITEMS_MOST;
use super::names;
use super::readers::Reads;
use super::spec::ServerSpec;
use super::wanted::Kind;

/// What a server said when it was asked last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// The form of this.
    pub form: u32,
    /// The server's own name and version.
    pub server: (String, String),
    /// Its tools, as it wrote them.
    pub tools: Vec<Value>,
    /// Its prompts, if it has any.
    pub prompts: Vec<Value>,
    /// Its resources.
    pub resources: Vec<Value>,
    /// What its other resources are addressed by.
    pub templates: Vec<Value>,
    /// What it can do beside tools.
    pub can: Can,
    /// Whether it has more tools than were read.
    pub more: bool,
}

/// What a server can do beside tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Can {
    /// It has resources.
    pub resources: bool,
    /// It says when one of them is another.
    pub subscribe: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It completes arguments of prompts and templates.
    pub complete: bool,
}

/// The form that this version writes and reads.
const FORM: u32 = 3;

/// Where it is kept what servers have said. What is lost is asked for again.
pub trait Store: Send + Sync {
    /// What was kept under this name.
    fn read(&self, key: &str) -> Option<String>;
    /// Keeps a text under this name.
    fn write(&self, key: &str, text: &str);
}

/// That a server could not be asked, and when.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failed {
    /// Seconds since 1970.
    at: u64,
    code: Code,
    reason: String,
    #[serde(default)]
    way_out: Vec<String>,
}

/// How long those who only look leave a server alone that failed: to try costs as long as it may take to start.
pub(super) const ALONE: u64 = 300;

impl Failed {
    /// It failed now.
    pub(super) fn now(error: &ToolError) -> Self {
        Self {
            at: seconds(),
            code: error.code,
            reason: error.message.clone(),
            way_out: error.way_out.to_vec(),
        }
    }

    /// What was kept, if it is not too long ago.
    pub(super) fn read(text: &str) -> Option<Self> {
        let failed: Self = serde_json::from_str(text).ok()?;
        // A clock that was set back makes no failure last for ever.
        let since = seconds().checked_sub(failed.at)?;
        (since < ALONE).then_some(failed)
    }

    /// Why.
    pub(super) fn error(self) -> ToolError {
        ToolError::new(self.code, self.reason).with_way_out(self.way_out)
    }
}

fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Bytes of all that a server says that it has: of what is longer no model reads the rest, and it is kept in memory and
/// on the disk.
pub(super) const ALL_MOST: usize = 8 << 20;

/// Bytes of a name of theirs, of a description and of a schema. Longer ones are no help to a model.
const NAME_MOST: usize = 256;
const WORDS_MOST: usize = 32 << 10;
const SCHEMA_MOST: usize = 256 << 10;

/// A tool of theirs, and what it becomes here.
pub(super) struct Theirs {
    /// What the server calls it.
    pub(super) name: String,
    pub(super) definition: Definition,
    flags: Vec<String>,
}

impl Described {
    /// What a server says now.
    pub(super) fn new(server: (String, String), tools: Vec<Value>) -> Self {
        Self {
            form: FORM,
            server,
            tools,
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            can: Can::default(),
            more: false,
        }
    }

    /// What it listed of this kind.
    pub(super) fn list(&self, kind: Kind) -> &[Value] {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
        }
    }

    /// What is read of it by tools of ours.
    fn reads(&self, spec: &ServerSpec) -> Vec<(Reads, Definition)> {
        let all = [
            (Reads::Resources, spec.resources && self.can.resources),
            (Reads::Prompts, spec.prompts && self.can.prompts),
        ];
        let all = all.into_iter().filter(|(_, there)| *there);
        all.filter_map(|(reads, _)| Some((reads, reads.definition(spec)?)))
            .collect()
    }

    /// What was kept, if it can be read.
    pub(super) fn read(text: &str) -> Option<Self> {
        let described: Self = serde_json::from_str(text).ok()?;
        (described.form == FORM).then_some(described)
    }

    /// The tools that can be called, and those that are left out. One that is broken harms no other.
    pub(super) fn theirs(&self, spec: &ServerSpec) -> (Vec<Theirs>, Vec<Quarantined>) {
        let mut left_out = Vec::new();
        let mut quarantine = |name: &str, code, reason: String| {
            let name = text::visible(text::prefix(name, NAME_MOST));
            left_out.push(Quarantined {
                location: format!("{} ({name})", spec.location()),
                code,
                reason,
            });
        };
        let mut named: Vec<(&str, &Value)> = Vec::new();
        for tool in self.tools.iter().take(ITEMS_MOST) {
            match tool["name"].as_str() {
                Some(name) if name.is_empty() || name.len() > NAME_MOST => {
                    let reason = format!("a tool's name has 1 to {NAME_MOST} bytes");
                    quarantine(name, Code::InvalidInput, reason);
                }
                Some(name) if named.iter().any(|(known, _)| *known == name) => quarantine(
                    name,
                    Code::AlreadyExists,
                    "the server has two tools of this name; the first one counts".to_owned(),
                ),
                Some(name) => named.push((name, tool)),
                None => quarantine("?", Code::InvalidInput, "a tool has no name".to_owned()),
            }
        }
        if self.more {
            let most = text::bytes(ALL_MOST as u64);
            let reason = format!(
                "the rest of its tools is left out: {ITEMS_MOST} of a server, or {most}, are looked at"
            );
            quarantine("…", Code::LimitExceeded, reason);
        }
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let fitted = names::fit(&spec.prefix, &names);
        let mut theirs = Vec::new();
        for ((name, tool), fitted) in named.into_iter().zip(fitted) {
            let Some(ours) = fitted else {
                quarantine(
                    name,
                    Code::InvalidInput,
                    "no name can be made of it".to_owned(),
                );
                continue;
            };
            match read(name, ours, tool, &names) {
                Ok(tool) => theirs.push(tool),
                Err(reason) => quarantine(name, Code::InvalidInput, reason),
            }
        }
        (theirs, left_out)
    }

    /// The tools as the registry has them; `backend` runs the one that the server calls so, and `reader` reads.
    pub(super) fn tools(
        &self,
        spec: &ServerSpec,
        backend: impl Fn(&Theirs) -> Arc<dyn Backend>,
        reader: impl Fn(Reads) -> Arc<dyn Backend>,
    ) -> (Vec<Tool>, Vec<Quarantined>) {
        let (theirs, left_out) = self.theirs(spec);
        let reads = self.reads(spec);
        let imports = spec.identity();
        let mut hash = Sha256::new();
        let parts = imports.iter().map(String::as_bytes);
        parts.for_each(|part| update(&mut hash, part));
        let all = theirs.iter().map(|tool| &tool.definition);
        let all = all.chain(reads.iter().map(|(_, definition)| definition));
        let mut prints: Vec<String> = all.map(print).collect();
        prints.sort();
        prints
            .iter()
            .for_each(|print| update(&mut hash, print.as_bytes()));
        let listed = library::entries(spec, self);
        for entry in &listed {
            update(&mut hash, entry.words.as_bytes());
        }
        let origin = Arc::new(Origin {
            prefix: String::new(),
            plugin: spec.name.clone(),
            version: text::visible(text::prefix(&self.server.1, NAME_MOST)),
            location: spec.location(),
            digest: format!("{:x}", hash.finalize()),
            speaks: true,
            imports,
            proofs: Vec::new(),
            listed,
        });
        let theirs = theirs
            .into_iter()
            .map(|theirs| (backend(&theirs), theirs.definition, theirs.flags));
        let reads = reads
            .into_iter()
            .map(|(reads, definition)| (reader(reads), definition, Vec::new()));
        let tools = theirs
            .chain(reads)
            .map(|(backend, definition, flags)| Tool {
                backend,
                definition,
                aliases: Vec::new(),
                source: Source::Mcp,
                origin: Arc::clone(&origin),
                trust: Trust::Untrusted,
                granted: Needs::default(),
                changes: None,
                flags,
                assessed: false,
                off: false,
                token_cost: None,
            });
        (tools.collect(), left_out)
    }
}

/// Masks values that are known to be secret in all that a server says of itself: models read it, and it is kept. What
/// only looks like a secret stays, since `password` is the name of many a parameter.
pub(super) fn mask_known(redactor: &Redactor, value: &mut Value) {
    let mask = |text: &mut String| {
        let mut bytes = std::mem::take(text).into_bytes();
        redactor.bytes(&mut bytes);
        *text = String::from_utf8_lossy(&bytes).into_owned();
    };
    match value {
        Value::String(text) => mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_known(redactor, item)),
        Value::Object(map) => {
            let all = std::mem::take(map).into_iter();
            *map = all
                .map(|(mut key, mut value)| {
                    mask(&mut key);
                    mask_known(redactor, &mut value);
                    (key, value)
                })
                .collect();
        }
        _ => {}
    }
}

fn update(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

/// What a definition is, in one word: two that differ in anything that anybody reads differ in this.
pub(super) fn print(definition: &Definition) -> String {
    let text = serde_json::to_vec(definition).unwrap_or_default();
    format!("{:x}", Sha256::digest(text))
}

/// One tool of theirs, or why it cannot be used.
fn read(
    name: &str,
    ours: mimir_core::ToolName,
    tool: &Value,
    own: &[&str],
) -> Result<Theirs, String> {
    let words = |key: &str| tool[key].as_str().unwrap_or_default();
    let description = words("description");
    if description.len() > WORDS_MOST {
        let most = text::bytes(WORDS_MOST as u64);
        return Err(format!("its description is longer than {most}"));
    }
    let hints = &tool["annotations"];
    let title = match words("title") {
        "" => hints["title"].as_str().unwrap_or_default(),
        title => title,
    };
    let input_schema = match &tool["inputSchema"] {
        Value::Null => return Err("it has no input schema".to_owned()),
        schema => self::schema("input", schema)?,
    };
    let output_schema = match &tool["outputSchema"] {
        Value::Null => None,
        schema => Some(self::schema("output", schema)?),
    };
    let flags = flags(tool, own);
    let hint = |key: &str| hints[key].as_bool();
    let destructive = hint("destructiveHint") == Some(true);
    Ok(Theirs {
        name: name.to_owned(),
        definition: Definition {
            name: ours,
            title: (!title.is_empty())
                .then(|| text::visible(text::prefix(&shown(title), NAME_MOST))),
            description: shown(description),
            group: Group::System,
            input_schema,
            output_schema,
            // Whatever it says of itself: only a person makes this less.
            approval: Decision::Ask,
            silent: true,
            risk: match destructive || !flags.is_empty() {
                true => Risk::High,
                false => Risk::Medium,
            },
            hints: Hints {
                read_only: hint("readOnlyHint") == Some(true) && !destructive,
                destructive,
                idempotent: hint("idempotentHint") == Some(true),
                // Nobody knows where a server is connected to, whatever it says.
                open_world: true,
            },
            needs: Needs::default(),
        },
        flags,
    })
}

fn schema(which: &str, theirs: &Value) -> Result<Schema, String> {
    let mut theirs = theirs.clone();
    show_value(&mut theirs);
    let text = theirs.to_string();
    if text.len() > SCHEMA_MOST {
        let most = text::bytes(SCHEMA_MOST as u64);
        return Err(format!("its {which} schema is longer than {most}"));
    }
    Schema::parse(&text).map_err(|error| {
        let error = error.to_string();
        format!(
            "its {which} schema is none: {}",
            text::visible(text::prefix(&error, NAME_MOST))
        )
    })
}
