//! A tool: what it is called, what it takes, what it needs, and who runs it.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::decision::Decision;
use crate::grants::Changes;
use crate::names;
use crate::needs::Needs;
use crate::schema::Schema;

/// 1 to 64 characters of `a-z`, `0-9`, `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

/// The longest name that every model provider accepts.
const NAME_MAX: usize = 64;

impl ToolName {
    /// Checks and takes a name.
    pub fn new(name: &str) -> Result<Self, BadName> {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(good) {
            let shown: String = name.chars().take(NAME_MAX).collect();
            // A tool of a plugin in TypeScript is often called by what its function is called.
            let near = names::snake(&shown);
            let fits = near.len() <= NAME_MAX && near.bytes().any(|c| c != b'_');
            let near = match fits && name.len() <= NAME_MAX && near.bytes().all(good) {
                true => format!(". Did you mean `{near}`?"),
                false => String::new(),
            };
            return Err(BadName(crate::text::visible(&shown), near));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name that no tool can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no tool name: 1 to 64 characters of a-z, 0-9 and _{1}")]
pub struct BadName(String, String);

impl TryFrom<String> for ToolName {
    type Error = BadName;
    fn try_from(name: String) -> Result<Self, BadName> {
        Self::new(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What kind of thing a tool does; policies can address a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Runs programs or code.
    Runtime,
    /// Files and directories.
    Fs,
    /// The network.
    Net,
    /// A web browser.
    Browser,
    /// Notes kept between sessions.
    Memory,
    /// Anything else.
    System,
}

impl Group {
    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Group::Runtime => "runtime",
            Group::Fs => "fs",
            Group::Net => "net",
            Group::Browser => "browser",
            Group::Memory => "memory",
            Group::System => "system",
        }
    }
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Shipped inside mimir.
    BuiltIn,
    /// Dropped into `.mimir/tools` by a person.
    Custom,
    /// Another program's MCP server.
    Mcp,
    /// A team's registry.
    Teams,
}

impl Source {
    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::BuiltIn => "built-in",
            Source::Custom => "custom",
            Source::Mcp => "mcp",
            Source::Teams => "teams",
        }
    }

    /// The badge of the seeds' listing.
    pub const fn badge(self) -> &'static str {
        match self {
            Source::BuiltIn => "[Built-in]",
            Source::Custom => "[Custom]",
            Source::Mcp => "[MCP]",
            Source::Teams => "[Teams]",
        }
    }
}

/// How bad a wrong call could be, in the author's own judgement.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Nothing is lost.
    Low,
    /// Something is lost that can be had again.
    Medium,
    /// Something is lost for good.
    High,
    /// More than this workspace is at stake.
    Critical,
}

impl Risk {
    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
            Risk::Critical => "critical",
        }
    }
}

/// Statements of a tool about its effects; used only to tighten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may remove or overwrite.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It deals with things outside this machine.
    pub open_world: bool,
}

/// What a tool says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Definition {
    /// The canonical name.
    pub name: ToolName,
    /// A name for people.
    pub title: Option<String>,
    /// Written for the model that chooses the tool.
    pub description: String,
    /// Its group.
    pub group: Group,
    /// JSON Schema 2020-12; the root is an object.
    pub input_schema: Schema,
    /// The schema of the structured result, if it has one.
    pub output_schema: Option<Schema>,
    /// What happens when no rule says otherwise.
    pub approval: Decision,
    /// Whether the author has said nothing of approvals: then `approval.default` of the settings stands in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// How bad a wrong call could be.
    pub risk: Risk,
    /// Its own statements about its effects.
    pub hints: Hints,
    /// What it asks for.
    pub needs: Needs,
}

/// Where exactly a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The plugin's own name.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// Where it was found: `built-in`, or a file below the workspace.
    pub location: String,
    /// sha256 of the file in lower-case hex.
    pub digest: String,
    /// Whether it can say of itself what it needs. A component of another family cannot: a person names hosts for it.
    #[serde(default)]
    pub speaks: bool,
    /// The prefix that a person has set for the names of its tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Interfaces that the component imports: what it could reach if it were granted.
    pub imports: Vec<String>,
    /// What follows from the imports alone, each the end of a sentence about the plugin: `cannot run commands`.
    #[serde(default)]
    pub proofs: Vec<String>,
    /// The prompts, resources and templates that a server lists beside its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<ListedEntry>,
}

/// A prompt, a resource or a template that a server lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedEntry {
    /// The words of the entry, in one line.
    pub words: String,
    /// True if a person has trusted the server while it said these words.
    #[serde(default)]
    pub is_seen: bool,
}

/// How far the host trusts what a tool says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Shipped with mimir, or granted by a person: its default and assessor count as they are.
    Trusted,
    /// It asks for nothing and imports nothing that could reach anything.
    Harmless,
    /// Its default may raise `ask` and never lower it.
    Untrusted,
}

/// A tool that can be called.
#[derive(Clone)]
pub struct Tool {
    /// What it says of itself.
    pub definition: Definition,
    /// Other names that are accepted in calls and policies.
    pub aliases: Vec<ToolName>,
    /// Which kind of source.
    pub source: Source,
    /// Which source exactly.
    pub origin: Arc<Origin>,
    /// How far it is trusted.
    pub trust: Trust,
    /// What of its needs a person has granted for good.
    pub granted: Needs,
    /// What is different since a person granted its plugin, if one ever did.
    pub changes: Option<Changes>,
    /// What is odd about its words, each a sentence for the person who decides.
    pub flags: Vec<String>,
    /// Whether its plugin judges its own calls.
    pub assessed: bool,
    /// Whether its own file says that it is not in use: it is, where the settings switch it on.
    pub off: bool,
    /// What its author says it costs in a prompt, in tokens; it goes before what is counted.
    pub token_cost: Option<u32>,
    /// What runs it.
    pub backend: Arc<dyn Backend>,
}

impl Tool {
    /// The canonical name.
    pub fn name(&self) -> &ToolName {
        &self.definition.name
    }

    /// The name that its plugin knows it by: without the prefix that a person has put before it.
    pub fn own_name(&self) -> &str {
        let name = self.name().as_str();
        name.strip_prefix(self.origin.prefix.as_str())
            .unwrap_or(name)
    }

    /// What a person's yes gives to a call of it while its plugin has no grant: all that it needs, but for the
    /// kinds that were withheld from the build before.
    pub fn wanted(&self) -> Needs {
        let mut needs = self.definition.needs.clone();
        let withheld = self.changes.iter().flat_map(|changes| &changes.withheld);
        withheld.for_each(|kind| needs.clear(*kind));
        needs
    }

    /// Whether it is the tool of the binary that runs code which a model writes.
    pub fn runs_code(&self) -> bool {
        self.source == Source::BuiltIn && self.name().as_str() == "run_code"
    }

    /// Whether `name` is its name or one of its aliases.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name().as_str() == name || self.aliases.iter().any(|alias| alias.as_str() == name)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", self.name())
            .field("source", &self.source)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(ToolName::new("read_file").is_ok());
        for bad in ["", "Read", "a-b", "ä", "a b", &"x".repeat(65)] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<ToolName>("\"A\"").is_err());
    }
}
