//! Tools: name, schemas, needs, origin and backend.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::decision::Decision;
use crate::grants::GrantChanges;
use crate::name_suggestions;
use crate::needs::Needs;
use crate::schema::Schema;

/// The name of a tool: 1 to 64 characters of `a-z`, `0-9`, `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

/// Maximum length of a tool name. Every model provider accepts names of this length.
const NAME_MAX: usize = 64;

impl ToolName {
    /// Validates a name. The error suggests the nearest valid name if possible.
    pub fn new(name: &str) -> Result<Self, InvalidToolName> {
        let is_name_byte = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name_byte) {
            let shown: String = name.chars().take(NAME_MAX).collect();
            // Authors of TypeScript plugins often write the camel-case function name.
            let candidate = name_suggestions::snake(&shown);
            let fits = candidate.len() <= NAME_MAX && candidate.bytes().any(|c| c != b'_');
            let suggestion =
                if fits && name.len() <= NAME_MAX && candidate.bytes().all(is_name_byte) {
                    format!(". Did you mean `{candidate}`?")
                } else {
                    String::new()
                };
            return Err(InvalidToolName(crate::text::visible(&shown), suggestion));
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name that is not a valid tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid tool name: use 1 to 64 characters of a-z, 0-9 and _{1}")]
pub struct InvalidToolName(String, String);

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;
    fn try_from(name: String) -> Result<Self, InvalidToolName> {
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

/// The area of a tool's effects. Policies can refer to groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolGroup {
    /// Programs and code.
    Runtime,
    /// Files and directories.
    Fs,
    /// The network.
    Net,
    /// A web browser.
    Browser,
    /// Notes stored between sessions.
    Memory,
    /// Anything else.
    System,
}

impl ToolGroup {
    /// Returns the spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolGroup::Runtime => "runtime",
            ToolGroup::Fs => "fs",
            ToolGroup::Net => "net",
            ToolGroup::Browser => "browser",
            ToolGroup::Memory => "memory",
            ToolGroup::System => "system",
        }
    }
}

/// The source of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolSource {
    /// Shipped inside mimir.
    BuiltIn,
    /// A file placed in `.mimir/tools` by a person.
    Custom,
    /// Another program's MCP server.
    Mcp,
    /// A team's registry.
    Teams,
}

impl ToolSource {
    /// All sources, in the order in which their tools are loaded.
    pub const ALL: [Self; 4] = [Self::BuiltIn, Self::Teams, Self::Mcp, Self::Custom];

    /// Returns the spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolSource::BuiltIn => "built-in",
            ToolSource::Custom => "custom",
            ToolSource::Mcp => "mcp",
            ToolSource::Teams => "teams",
        }
    }

    /// Returns the badge for tool listings.
    pub const fn badge(self) -> &'static str {
        match self {
            ToolSource::BuiltIn => "[Built-in]",
            ToolSource::Custom => "[Custom]",
            ToolSource::Mcp => "[MCP]",
            ToolSource::Teams => "[Teams]",
        }
    }
}

/// The damage that a wrong call could do, in the author's judgment.
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
pub enum RiskLevel {
    /// No loss.
    Low,
    /// A loss that can be recovered.
    Medium,
    /// A permanent loss.
    High,
    /// Damage beyond this workspace.
    Critical,
}

impl RiskLevel {
    /// Returns the spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            RiskLevel::Low => "low",
            RiskLevel::Medium => "medium",
            RiskLevel::High => "high",
            RiskLevel::Critical => "critical",
        }
    }
}

/// A tool's hints about its effects, which can only tighten the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolHints {
    /// True if the tool has no side effects.
    pub read_only: bool,
    /// True if the tool may remove or overwrite data.
    pub destructive: bool,
    /// True if a second call with the same arguments has no further effect.
    pub idempotent: bool,
    /// True if the tool accesses systems outside this machine.
    pub open_world: bool,
}

/// The definition of a tool, as its author wrote it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The canonical name.
    pub name: ToolName,
    /// The display name.
    pub title: Option<String>,
    /// The description, for models.
    pub description: String,
    /// The group.
    pub group: ToolGroup,
    /// The schema of the arguments: JSON Schema 2020-12 with an object as its root.
    pub input_schema: Schema,
    /// The schema of the structured result, if any.
    pub output_schema: Option<Schema>,
    /// The decision if no rule matches.
    pub approval: Decision,
    /// True if the author has not set `approval`: then `approval.default` in the settings applies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The damage that a wrong call could do.
    pub risk: RiskLevel,
    /// Hints about its effects.
    pub hints: ToolHints,
    /// The requested permissions.
    pub needs: Needs,
}

/// The exact origin of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOrigin {
    /// The plugin's own name.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// The location: `built-in`, or a file below the workspace.
    pub location: String,
    /// sha256 of the file in lower-case hex.
    pub digest: String,
    /// True if the plugin can declare its needs. For a component that was not written for mimir, a person sets them.
    #[serde(default, rename = "speaks")]
    pub declares_needs: bool,
    /// The prefix that a person has set for its tool names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Interfaces that the component imports: the capabilities that it could use if granted.
    pub imports: Vec<String>,
    /// Conclusions from the imports, each a predicate about the plugin, such as `cannot run commands`.
    #[serde(default)]
    pub proofs: Vec<String>,
    /// The prompts, resources and templates that a server lists besides its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<ListedEntry>,
}

impl ToolOrigin {
    /// Creates the origin of a tool that is compiled into the program. `digest` is the sha256 of what identifies it, such
    /// as its description and schema.
    pub fn compiled_in(plugin: &str, digest: String) -> Self {
        Self {
            plugin: plugin.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            location: format!("built-in/{plugin}"),
            digest,
            declares_needs: true,
            ..Self::default()
        }
    }
}

/// A prompt, a resource or a template listed by a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedEntry {
    /// The text of the entry, in one line.
    #[serde(rename = "words")]
    pub text: String,
    /// True if a person has trusted the server with this text.
    #[serde(default)]
    pub is_seen: bool,
}

/// The host's trust in a tool's own statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolTrust {
    /// Shipped with mimir, or granted by a person: the tool's default decision and assessor apply unchanged.
    Trusted,
    /// The tool has no needs, and its imports give access to nothing.
    Harmless,
    /// Not granted. Every call needs approval at least: the tool's default decision can tighten that, but not relax it.
    Untrusted,
}

/// End of the name of a file with the operations of an HTTP API.
pub const API_FILE_SUFFIX: &str = ".openapi.yml";

/// A tool that can be called.
#[derive(Clone)]
pub struct Tool {
    /// The author's definition.
    pub definition: ToolDefinition,
    /// Other names that are accepted in calls and policies.
    pub aliases: Vec<ToolName>,
    /// The kind of source.
    pub source: ToolSource,
    /// The exact origin.
    pub origin: Arc<ToolOrigin>,
    /// The trust in its statements.
    pub trust: ToolTrust,
    /// The needs that a person has granted permanently.
    pub granted: Needs,
    /// Changes of the plugin since it was granted, if it was granted.
    pub changes: Option<GrantChanges>,
    /// Suspicious properties of its texts, each a sentence for the person who decides.
    pub flags: Vec<String>,
    /// True if the plugin assesses the tool's calls.
    pub assessed: bool,
    /// True if the tool's file disables it. The settings can enable it.
    pub off: bool,
    /// True if a team requires the tool: files of users and projects cannot disable it.
    pub enforced: bool,
    /// Number of prompt tokens stated by the author, which overrides the estimate.
    pub token_cost: Option<u32>,
    /// The backend that runs its calls.
    pub backend: Arc<dyn Backend>,
}

impl Tool {
    /// Creates an enabled tool without aliases, flags or an assessor. A trusted or harmless tool is granted all its
    /// needs, an untrusted tool none.
    pub fn new(
        definition: ToolDefinition,
        source: ToolSource,
        origin: Arc<ToolOrigin>,
        trust: ToolTrust,
        backend: Arc<dyn Backend>,
    ) -> Self {
        let granted = match trust {
            ToolTrust::Trusted | ToolTrust::Harmless => definition.needs.clone(),
            ToolTrust::Untrusted => Needs::default(),
        };
        Self {
            definition,
            aliases: Vec::new(),
            source,
            origin,
            trust,
            granted,
            changes: None,
            flags: Vec::new(),
            assessed: false,
            off: false,
            enforced: false,
            token_cost: None,
            backend,
        }
    }

    /// Sets the other names that are accepted in calls and policies.
    #[must_use]
    pub fn with_aliases(mut self, aliases: Vec<ToolName>) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the suspicious properties of its texts.
    #[must_use]
    pub fn with_flags(mut self, flags: Vec<String>) -> Self {
        self.flags = flags;
        self
    }

    /// Sets whether the plugin assesses the tool's calls.
    #[must_use]
    pub fn with_assessor(mut self, assessed: bool) -> Self {
        self.assessed = assessed;
        self
    }

    /// Sets whether the tool's file disables it.
    #[must_use]
    pub fn with_off(mut self, off: bool) -> Self {
        self.off = off;
        self
    }

    /// Sets whether a team requires the tool.
    #[must_use]
    pub fn with_enforced(mut self, enforced: bool) -> Self {
        self.enforced = enforced;
        self
    }

    /// Sets the number of prompt tokens stated by the author.
    #[must_use]
    pub fn with_token_cost(mut self, token_cost: Option<u32>) -> Self {
        self.token_cost = token_cost;
        self
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &ToolName {
        &self.definition.name
    }

    /// Returns the name within the plugin, without the configured prefix.
    pub fn own_name(&self) -> &str {
        let name = self.name().as_str();
        name.strip_prefix(self.origin.prefix.as_str())
            .unwrap_or(name)
    }

    /// Returns the argument of `mimir tools trust` that names the plugin of this tool, quoted for a shell: the tool's
    /// name, or the path of a component that is outside of `.mimir/tools`, such as in an exported bundle.
    pub fn trust_argument(&self) -> String {
        let location = self.origin.location.as_str();
        let is_outside = !location.starts_with(".mimir/") && location.contains('/');
        if self.source != ToolSource::Custom || !is_outside || !location.ends_with(".wasm") {
            return self.name().to_string();
        }
        let is_plain = |c: char| c.is_alphanumeric() || "/.-_=@:,+%".contains(c);
        let shown = crate::text::visible(location);
        if shown.chars().all(is_plain) {
            shown
        } else {
            format!("'{}'", shown.replace('\'', r"'\''"))
        }
    }

    /// Returns true if a second run with the same arguments has no further effect, because the tool changes nothing or is
    /// idempotent. Statements of plugins and servers that were not granted do not count.
    pub fn may_run_again(&self) -> bool {
        let hints = self.definition.hints;
        self.trust != ToolTrust::Untrusted && (hints.read_only || hints.idempotent)
    }

    /// Returns the needs that an approval gives to a call of a plugin without a grant: all needs, except for the kinds
    /// that were withheld from the previous build.
    pub fn requested_needs(&self) -> Needs {
        let mut needs = self.definition.needs.clone();
        let withheld = self.changes.iter().flat_map(|changes| &changes.withheld);
        withheld.for_each(|kind| needs.clear(*kind));
        needs
    }

    /// Returns true for an operation of an HTTP API, whose file has many tools.
    pub fn is_api_operation(&self) -> bool {
        self.source == ToolSource::Custom && self.origin.location.ends_with(API_FILE_SUFFIX)
    }

    /// Returns true for the built-in tool `run_code`.
    pub fn runs_code(&self) -> bool {
        self.source == ToolSource::BuiltIn && self.name().as_str() == "run_code"
    }

    /// Returns true if `name` is the tool's name or an alias.
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
    fn tool_new_grants_no_needs_to_an_untrusted_tool() {
        let new = |trust| {
            let mut other = crate::pipeline::tests::tool("fetch");
            other.definition.needs.model = true;
            Tool::new(
                other.definition,
                other.source,
                other.origin,
                trust,
                other.backend,
            )
        };
        assert!(new(ToolTrust::Untrusted).granted.is_empty());
        for trust in [ToolTrust::Trusted, ToolTrust::Harmless] {
            let tool = new(trust);
            assert_eq!(tool.granted, tool.definition.needs, "{trust:?}");
        }
    }

    #[test]
    fn tool_name_is_validated() {
        assert!(ToolName::new("read_file").is_ok());
        for bad in ["", "Read", "a-b", "ä", "a b", &"x".repeat(65)] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<ToolName>("\"A\"").is_err());
    }
}
