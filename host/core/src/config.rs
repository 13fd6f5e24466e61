//! The types of the settings file. Unknown keys are errors, and every known key is enforced.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::limits::{Limits, WallClockSetting};
use crate::tool::ToolGroup;

mod agent;
mod approval;
mod browser;
mod cache;
mod cluster;
mod commands;
mod console;
mod embeddings;
mod enforcement;
mod execution;
mod files;
mod labels;
mod limits;
mod mcp;
mod model;
mod network;
mod registries;
mod retries;
mod roles;
mod rules;
mod sandbox;
mod team;
mod teams;
mod telemetry;
mod trust;
mod weakening;
mod web_search;

pub use agent::{AgentBudget, AgentSettings, CompactionMode};
pub use approval::{ApprovalBlock, ApprovalConditions, ApprovalDefaults, ToolApproval};
pub use browser::BrowserSettings;
pub use cache::CacheSettings;
pub use cluster::{ClusterSettings, WorkerRoute, WorkerRoutes};
pub use commands::{AddedBy, ExecApproval, ExecApprovals, ExecMode};
pub use console::{ConsoleMember, ConsolePersonClaims, ConsoleRoleSettings, ConsoleSettings};
pub(crate) use embeddings::uses_embeddings;
pub use embeddings::{EMBEDDINGS_VARIABLE, EmbeddingsEndpoint, EmbeddingsSettings};
pub use enforcement::{EnforcementSettings, ModelAddressFile, ModelAllowList};
pub use execution::{DeniedNetwork, ExecutionSettings, RequiredSandbox};
pub use files::FileSettings;
pub use labels::{LabelSettings, RedactionSettings, ToolAuditSettings};
pub use limits::{LimitSettings, OutOfRangeError};
pub use mcp::{
    McpOauthSettings, McpPackage, McpProtocol, McpServerError, McpServerSettings, McpSettings,
    PackageRegistry, UntrustedMarking, is_scope,
};
pub use model::{ChosenModel, ProviderApi, ProviderSettings, TokenPrice};
pub use network::{FixedHosts, NetworkSettings};
pub use registries::{RegistrySettings, is_catalog_file};
pub use retries::{RetriedError, RetryBlock, ToolRetries};
pub use roles::{DEFAULT_ROLE, RoleBudget, RoleList, RoleSettings, RoleTools};
pub use rules::{MatcherSettings, RuleSettings};
pub use sandbox::{
    BindMount, BindMountError, DEFAULT_MEMORY_MB, DEFAULT_PROCESSES, SandboxMode, SandboxSettings,
};
pub use teams::{TeamFeatures, TeamSettings};
pub use telemetry::{AlertSettings, TelemetrySettings, TelemetrySignal};
pub use trust::{KeySource, SignerIdentity, TrustLayer, TrustLayers, TrustRule};
pub(crate) use web_search::uses_web_search;
pub use web_search::{
    SEARCH_VARIABLE, WebSearchEndpoint, WebSearchFields, WebSearchProvider, WebSearchSettings,
};

/// The settings file, `.mimir/config.yml`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Selects which of several overlapping tools are listed.
    pub profile: ToolProfile,
    /// Lists all tools for MCP clients, or only the tools that search for other tools.
    pub tool_discovery: ToolDiscovery,
    /// Approximate number of tokens of the tool definitions that `auto` lists. Above it, the tools of the largest
    /// servers are only found by search.
    pub tool_discovery_tokens: Option<u64>,
    /// Settings of all tools, and one block per tool name.
    pub tools: ToolsSection,
    /// The tools available to the agents of this workspace.
    pub policy: ToolPolicy,
    /// Roles of the users of `mimir serve --issuer`, by the groups in their tokens. Those of a project apply after a
    /// person has accepted the project's file.
    pub roles: RoleList,
    /// Approval defaults of custom tools, in general and by name.
    pub approval: ApprovalDefaults,
    /// Files of the workspace that tools and commands cannot access.
    pub files: FileSettings,
    /// The commands that may run.
    pub exec_approvals: ExecApprovals,
    /// The sandbox that commands run in.
    pub sandbox: SandboxSettings,
    /// Secrets from environment variables of the host, by name. Those of a project apply after a person has accepted
    /// the project's file.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// Secrets of a project whose file is not accepted. Their values are masked, and no tool gets them.
    #[serde(skip)]
    pub masked_only: BTreeMap<String, SecretSettings>,
    /// The network access of tools. Keys in the block of a tool override keys of this one.
    pub network: NetworkSettings,
    /// The provider of web searches.
    pub web_search: Option<WebSearchSettings>,
    /// The embeddings endpoint, with which `memory_search` also finds memories by meaning.
    pub embeddings: Option<EmbeddingsSettings>,
    /// The browser of the browser tools.
    pub browser: Option<BrowserSettings>,
    /// Mirrors and catalogs of component registries. Those of a project apply after a person has accepted the project's
    /// file.
    pub registries: RegistrySettings,
    /// The trusted signers of the artifacts of registries. Rules of a project apply after a person has accepted the
    /// project's file.
    #[serde(deserialize_with = "trust::deserialize_rules")]
    pub trust: Vec<TrustRule>,
    /// File with the certificate authorities and logs of keyless signatures: sigstore's `trusted_root.json`.
    pub trust_root: Option<String>,
    /// The files of the trust settings that are not rules.
    #[serde(skip)]
    pub trust_layers: TrustLayers,
    /// Third-party MCP servers. Those of a project are started after a person has accepted the project's file.
    pub mcp: McpSettings,
    /// The model for `mimir run`, `mimir chat` and tools that were granted a model: PROVIDER/MODEL.
    pub model: Option<String>,
    /// Model providers, by name. Those of a project are used after a person has accepted the project's file.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The behaviour and the limits of the agent.
    pub agent: AgentSettings,
    /// Limits of every call.
    pub limits: LimitSettings,
    /// Settings of approval questions.
    pub approvals: ApprovalSettings,
    /// Settings of the audit log.
    pub audit: AuditSettings,
    /// Export of traces, metrics and logs. That of a project applies after a person has accepted the project's file.
    pub telemetry: Option<TelemetrySettings>,
    /// Alarms about canary secrets. Those of a project apply after a person has accepted the project's file.
    pub alerts: Option<AlertSettings>,
    /// The workers that run calls in a cluster. Those of a project apply after a person has accepted the project's file.
    pub cluster: Option<ClusterSettings>,
    /// The console of `mimir serve --issuer`. Those of a project have no effect.
    pub console: Option<ConsoleSettings>,
    /// Membership in a team.
    pub teams: TeamSettings,
    /// Restrictions of tools and models.
    pub enforcement: EnforcementSettings,
    /// The allowed models of each file with `enforcement.models`.
    #[serde(skip)]
    pub model_lists: Vec<ModelAllowList>,
}

/// Tool discovery: agents see all tools, or only three tools that search, describe and call the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolDiscovery {
    /// Lists all tools up to `toolDiscoveryTokens`.
    #[default]
    Auto,
    /// Lists all tools.
    Off,
    /// Lists only the three discovery tools.
    On,
}

/// Selection of overlapping tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProfile {
    /// One tool per operation: `read_file`, `write_file`, ….
    #[default]
    Fine,
    /// One tool for several operations: `file_operations`.
    Compact,
}

/// The available tools, by name and by group. Deny lists take precedence over allow lists.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPolicy {
    /// If not empty, only these tools are available.
    pub allow: Vec<String>,
    /// Tools that are not available.
    pub deny: Vec<String>,
    /// Allow and deny lists by group.
    pub groups: GroupPolicy,
    /// Rules for calls with certain arguments.
    pub rules: Vec<RuleSettings>,
}

/// The available groups of tools.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupPolicy {
    /// If not empty, only tools of these groups are available.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<ToolGroup>,
    /// Groups whose tools are not available.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<ToolGroup>,
}

/// The block `tools`: settings for all tools, and under tool names, for single tools.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ToolsSection {
    /// Loads tools from `.mimir/tools`.
    pub auto_load_custom_tools: bool,
    /// Shows the prompt cost of each tool in tool lists.
    pub show_token_costs: bool,
    /// The price of a million prompt tokens in dollars, for display only.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub token_price: f64,
    /// Maximum wall clock of a call in milliseconds.
    pub max_execution_time: Option<u64>,
    /// Settings per tool.
    #[schemars(flatten)]
    pub each: BTreeMap<String, ToolSettings>,
}

/// The range of the price of a million tokens in dollars. It also excludes NaN.
const TOKEN_PRICE_RANGE: std::ops::RangeInclusive<f64> = 0.0..=1_000_000.0;

fn parse_price<E: de::Error>(dollars: f64) -> Result<f64, E> {
    if TOKEN_PRICE_RANGE.contains(&dollars) {
        Ok(dollars)
    } else {
        Err(E::custom(format!(
            "tools.tokenPrice: {dollars} is out of range: expected {} to {} dollars for a million tokens",
            TOKEN_PRICE_RANGE.start(),
            TOKEN_PRICE_RANGE.end()
        )))
    }
}

impl Default for ToolsSection {
    fn default() -> Self {
        Self {
            auto_load_custom_tools: true,
            show_token_costs: true,
            // A common estimate; models differ by a factor of a hundred.
            token_price: 1.0,
            max_execution_time: None,
            each: BTreeMap::new(),
        }
    }
}

impl<'de> Deserialize<'de> for ToolsSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ToolsVisitor;
        impl<'de> Visitor<'de> for ToolsVisitor {
            type Value = ToolsSection;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("settings of tools")
            }
            fn visit_unit<E: de::Error>(self) -> Result<ToolsSection, E> {
                Ok(ToolsSection::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolsSection, A::Error> {
                let mut tools = ToolsSection::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "autoLoadCustomTools" => tools.auto_load_custom_tools = map.next_value()?,
                        "showTokenCosts" => tools.show_token_costs = map.next_value()?,
                        "tokenPrice" => tools.token_price = parse_price(map.next_value()?)?,
                        "maxExecutionTime" => tools.max_execution_time = Some(map.next_value()?),
                        // Tool names have no upper-case letters.
                        name if crate::tool::ToolName::new(name).is_err() => {
                            let schema = schemars::schema_for!(ToolsSection).to_value();
                            let known = schema["properties"].as_object().into_iter().flatten();
                            let known = known.map(|(key, _)| key.as_str());
                            let near = crate::name_suggestions::did_you_mean(name, known);
                            return Err(de::Error::custom(format!(
                                "unknown key `{name}`: neither a setting nor a tool name.{near}"
                            )));
                        }
                        _ => {
                            let settings = map.next_value()?;
                            if tools.each.insert(key.clone(), settings).is_some() {
                                return Err(de::Error::custom(format!("`{key}` is set twice")));
                            }
                        }
                    }
                }
                Ok(tools)
            }
        }
        from.deserialize_any(ToolsVisitor)
    }
}

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolSettings {
    /// `false` removes the tool from lists and refuses its calls.
    pub enabled: Option<bool>,
    /// The decision for calls of the tool, which overrides the tool's own default.
    pub approval: ToolApproval,
    /// The MCP server that the tool belongs to: `approval: allow` and milder `labels` of this block do not apply to a
    /// tool of this name from another source. `mimir mcp trust` writes this key.
    pub server: Option<String>,
    /// Rules for calls of the tool with certain arguments.
    pub rules: Vec<RuleSettings>,
    /// Globs of workspace paths that the tool cannot access.
    pub deny: Vec<String>,
    /// Secret files that the tool may read, each by its exact path below the workspace.
    pub reveal: Vec<String>,
    /// Labels of the tool's results, and the content that the tool accepts.
    pub labels: LabelSettings,
    /// Exceptions from masking in the tool's results.
    pub redaction: RedactionSettings,
    /// Audit settings for calls of the tool.
    pub audit: ToolAuditSettings,
    /// Network access of the tool. Unset keys are those of the top-level `network`.
    pub network: NetworkSettings,
    /// Limits of calls of the tool.
    pub limits: LimitSettings,
    /// Restrictions of how the tool runs.
    pub execution: ExecutionSettings,
    /// Retries of failed calls, if the tool only reads or is idempotent.
    pub retries: ToolRetries,
    /// Reuse of results, if the tool only reads.
    pub cache: Option<CacheSettings>,
}

/// The source of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSettings {
    /// The environment variable of the host that contains the secret.
    pub env: String,
}

/// Settings of approval questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalSettings {
    /// Time after which an unanswered question is denied, in milliseconds.
    pub timeout_ms: u64,
    /// Time after which the answer "always" expires, in days.
    pub lease_days: u32,
    /// Treatment of questions that a server's client cannot show to its user.
    pub unattended: UnattendedQuestions,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            // Long enough for a short absence, short enough that no client waits forever.
            timeout_ms: 600_000,
            // A quarter of a year.
            lease_days: 90,
            unattended: UnattendedQuestions::Refuse,
        }
    }
}

/// Treatment of questions that a server's client cannot show to its user, from the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnattendedQuestions {
    /// The call waits while a console of the workspace is open, and is refused at once otherwise.
    #[default]
    Refuse,
    /// The call waits for `mimir approvals answer`, up to `approvals.timeoutMs`.
    Wait,
}

/// Settings of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditSettings {
    /// When an event counts as recorded.
    pub durability: AuditDurability,
    /// Records the arguments of calls.
    pub log_args: bool,
    /// Treatment of calls that cannot be recorded.
    pub on_failure: AuditFailureMode,
    /// Maximum size of a log file in bytes. Then the next file begins.
    #[serde(deserialize_with = "deserialize_log_size")]
    #[schemars(range(min = 4096))]
    pub max_bytes: u64,
    /// Number of full log files to keep in addition to the current one.
    #[serde(deserialize_with = "deserialize_log_files")]
    #[schemars(range(min = 1, max = 10000))]
    pub keep: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            durability: AuditDurability::default(),
            log_args: false,
            on_failure: AuditFailureMode::default(),
            // About 25,000 calls per file, and half a million in all files.
            max_bytes: 16 << 20,
            keep: 20,
        }
    }
}

impl AuditSettings {
    /// Returns the keys of the settings with their values, as in a file.
    pub fn values(&self) -> [(&'static str, String); 5] {
        let durability = match self.durability {
            AuditDurability::Write => "write",
            AuditDurability::Fsync => "fsync",
        };
        let on_failure = match self.on_failure {
            AuditFailureMode::Refuse => "refuse",
            AuditFailureMode::Run => "run",
        };
        [
            ("audit.durability", durability.to_owned()),
            ("audit.logArgs", self.log_args.to_string()),
            ("audit.onFailure", on_failure.to_owned()),
            ("audit.maxBytes", self.max_bytes.to_string()),
            ("audit.keep", self.keep.to_string()),
        ]
    }
}

/// Treatment of calls that cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditFailureMode {
    /// The call is refused. If the tool has already run, its result is withheld.
    #[default]
    Refuse,
    /// The call runs, and the program's log reports the lost event.
    Run,
}

/// Minimum of `audit.maxBytes`. Smaller files would have only a few lines.
const LOG_SIZE_MIN: u64 = 4096;

fn deserialize_log_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(from)?;
    if bytes < LOG_SIZE_MIN {
        let message =
            format!("audit.maxBytes: {bytes} is out of range: expected at least {LOG_SIZE_MIN}");
        return Err(de::Error::custom(message));
    }
    Ok(bytes)
}

/// The range of `audit.keep`. Listing more files would take too long; at least one is needed to detect deleted files.
const LOG_FILES_RANGE: std::ops::RangeInclusive<u32> = 1..=10_000;

fn deserialize_log_files<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let files = u32::deserialize(from)?;
    if !LOG_FILES_RANGE.contains(&files) {
        let message = format!(
            "audit.keep: {files} is out of range: expected {} to {}",
            LOG_FILES_RANGE.start(),
            LOG_FILES_RANGE.end()
        );
        return Err(de::Error::custom(message));
    }
    Ok(files)
}

/// The point at which an event counts as recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditDurability {
    /// When it was passed to the operating system.
    #[default]
    Write,
    /// When it was flushed to the disk.
    Fsync,
}

impl Config {
    /// Returns the JSON Schema of a settings file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Config).to_value()
    }

    /// Checks that every limit is in range.
    pub fn check(&self) -> Result<(), OutOfRangeError> {
        self.limits.check("limits")?;
        self.sandbox.check("sandbox")?;
        self.mcp.check_times()?;
        self.roles.check()?;
        limits::check_time("tools.maxExecutionTime", self.tools.max_execution_time)?;
        for (tool, settings) in &self.tools.each {
            settings.limits.check(&format!("tools.{tool}.limits"))?;
            settings
                .execution
                .check(&format!("tools.{tool}.execution"))?;
            settings.retries.check(&format!("tools.{tool}.retries"))?;
            if let Some(cache) = settings.cache {
                cache.check(&format!("tools.{tool}.cache"))?;
            }
        }
        Ok(())
    }

    /// Returns the limits of calls of tools without limits of their own.
    pub fn limits(&self) -> Limits {
        let mut limits = self.limits.over(Limits::default());
        if let Some(millis) = self.tools.max_execution_time {
            let setting = WallClockSetting::MaxExecutionTime;
            limits.cap_wall(Duration::from_millis(millis), setting);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Decision;

    fn read(json: serde_json::Value) -> Result<Config, String> {
        serde_json::from_value(json).map_err(|e| e.to_string())
    }

    #[test]
    fn config_tools_block_is_read() {
        let config = read(serde_json::json!({"tools": {
            "file_operations": {"enabled": true},
            "git": {"enabled": false, "approval": "always_deny"},
            "autoLoadCustomTools": false,
            "maxExecutionTime": 5000,
        }}))
        .unwrap();
        assert_eq!(
            config.tools.each["git"].approval.level(),
            Some(Decision::Deny)
        );
        assert!(!config.tools.auto_load_custom_tools);
        assert_eq!(config.limits().wall, Duration::from_secs(5));
    }

    #[test]
    fn config_limits_out_of_range_name_their_key() {
        for (json, key) in [
            (serde_json::json!({"limits": {"fuel": 0}}), "limits.fuel"),
            (
                serde_json::json!({"tools": {"git": {"limits": {"instances": 65}}}}),
                "tools.git.limits.instances",
            ),
            (
                serde_json::json!({"tools": {"maxExecutionTime": 0}}),
                "tools.maxExecutionTime",
            ),
        ] {
            let error = read(json).unwrap().check().unwrap_err();
            assert_eq!(error.key, key);
        }
        let valid =
            serde_json::json!({"limits": {"fuel": 1_000}, "tools": {"maxExecutionTime": 1}});
        assert!(read(valid).unwrap().check().is_ok());
    }

    #[test]
    fn config_unknown_keys_are_rejected_everywhere() {
        for bad in [
            serde_json::json!({"polcy": {}}),
            serde_json::json!({"policy": {"alow": []}}),
            serde_json::json!({"tools": {"maxExecutiontime": 1}}),
            serde_json::json!({"tools": {"git": {"enable": true}}}),
            serde_json::json!({"tools": {"tokenPrice": -1}}),
            serde_json::json!({"tools": {"tokenPrice": "free"}}),
            serde_json::json!({"tools": {"showTokenCosts": "yes"}}),
            serde_json::json!({"limits": {"memory": 1}}),
            serde_json::json!({"audit": {"durability": "maybe"}}),
            serde_json::json!({"audit": {"onFailure": "ignore"}}),
            serde_json::json!({"audit": {"maxBytes": 100}}),
            serde_json::json!({"audit": {"keep": 0}}),
            serde_json::json!({"audit": {"keep": 100_000}}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        let error = read(serde_json::json!({"tools": {"maxExecutiontime": 1}})).unwrap_err();
        assert!(
            error.contains("Did you mean `maxExecutionTime`?"),
            "{error}"
        );
    }
}
