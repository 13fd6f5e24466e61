//! The rules of all settings files, with their origin.

use std::collections::BTreeMap;

use mimir_core::config::{Config, ExecMode, RuleSettings, ToolSettings};
use mimir_core::paths::{PathRule, PathRuleLayer, PathRules, ProtectionLevel};
use mimir_core::policy::{DEFAULT_LIST, path_rule_name};
use mimir_core::redact::Redactor;
use mimir_core::text::prefix;
use mimir_core::{Decision, ToolError};
use serde_json::{Value, json};

use mimir::settings::{ConfigFile, ConfigLocation, ConfigOwner, ConfigSchema, LeafSetting};

use super::policy_edits::EditScope;
use super::stored_approvals::{listed_approvals, stored_approvals};
use super::workspace::LoadedWorkspace;

/// Returns the rules of each layer, in the order in which files are read, the stored approvals, and the files that can be
/// edited.
pub fn layers(workspace: &LoadedWorkspace, scope: EditScope) -> Result<Value, ToolError> {
    let setup = &workspace.setup;
    let redactor = workspace.redactor()?;
    let settings = &setup.settings;
    let mut layers: Vec<Value> = settings
        .files
        .iter()
        .map(|file| layer_value(file, &redactor, scope))
        .collect();
    layers.push(tool_defaults(workspace));
    layers.push(built_in_rules(&settings.config));
    let mut layers = Value::Array(layers);
    redactor.mask_value(&mut layers);
    let locations = ConfigLocation::all_locations(&setup.user_dirs, &setup.workspace);
    let is_editable = |owner| matches!(owner, ConfigOwner::User | ConfigOwner::Project);
    let files: Vec<Value> = locations
        .iter()
        .map(|location| {
            let file = settings
                .files
                .iter()
                .find(|file| file.path == location.path);
            json!({
                "name": location.owner.as_str(),
                "path": location.shown,
                "editable": is_editable(location.owner),
                "exists": file.is_some(),
                "digest": file.map(ConfigFile::digest),
            })
        })
        .collect();
    Ok(json!({
        "layers": layers,
        "precedence": PRECEDENCE,
        "files": files,
        "withheld": settings.withheld(),
        "approvals": listed_approvals(workspace, &stored_approvals(workspace)?)?,
        "keys": keys(scope),
        "rulesOnly": scope == EditScope::RulesOnly,
    }))
}

/// Returns the keys that can be edited, with the kinds of their values.
fn keys(scope: EditScope) -> Vec<Value> {
    let keys = ConfigSchema::default().describe_keys().into_iter();
    let keys = keys.filter(|key| is_in_scope(&key.path, scope));
    keys.map(|key| {
        json!({
            "key": key.path.join("."),
            "expected": key.expected,
            "purpose": key.purpose,
        })
    })
    .collect()
}

fn is_in_scope(path: &[String], scope: EditScope) -> bool {
    scope == EditScope::AllSettings || Config::is_rule_key(path)
}

fn layer_value(file: &ConfigFile, redactor: &Redactor, scope: EditScope) -> Value {
    let mut rules = LayerRules {
        lines: file.key_lines(),
        rules: Vec::new(),
    };
    rules.add_file(file);
    rules.add_settings(file);
    let editable = matches!(file.owner, ConfigOwner::User | ConfigOwner::Project);
    if editable {
        let values = file.leaf_settings();
        for rule in &mut rules.rules {
            let key = rule["rule"].as_str().unwrap_or_default();
            if let Some(edit) = edit_start(key, &values, redactor, scope) {
                rule["edit"] = edit;
            }
        }
    }
    json!({
        "name": file.owner.as_str(),
        "source": file.shown,
        "editable": editable,
        "rules": rules.rules,
    })
}

/// Returns the key and the value with which the edit of a row begins. `None` if the key cannot be edited here.
fn edit_start(
    row: &str,
    values: &[LeafSetting],
    redactor: &Redactor,
    scope: EditScope,
) -> Option<Value> {
    // A rule of a list is edited with its list.
    let key = row.split('[').next().unwrap_or(row);
    let is_row = |setting: &&LeafSetting| setting.path.join(".") == key;
    let LeafSetting { path, value } = values.iter().find(is_row)?;
    // A dot within a name cannot be written in a key.
    if path.iter().any(|part| part.contains('.')) || !is_in_scope(path, scope) {
        return None;
    }
    let text = serde_yaml::to_string(value).ok()?;
    let text = text.trim_end().to_owned();
    let mut masked = text.clone();
    redactor.mask_text(&mut masked);
    (masked == text).then(|| json!({ "key": key, "yaml": text }))
}

/// The order in which rules count.
const PRECEDENCE: &str = "The strictest rule of all files wins: deny, then ask, then allow. A rule of a file about a tool replaces the tool's own default. The built-in rules count in addition.";

/// Blocks whose settings decide something about calls. The values of other blocks may be passwords.
const SETTING_BLOCKS: [&str; 9] = [
    "approvals",
    "audit",
    "enforcement",
    "files",
    "limits",
    "network",
    "sandbox",
    "secrets",
    "tools",
];

/// Maximum length of a value in a row, in characters.
const VALUE_MAX: usize = 300;

/// Returns the defaults of the tools themselves, which apply where no file says otherwise.
fn tool_defaults(workspace: &LoadedWorkspace) -> Value {
    let snapshot = workspace.snapshot();
    let mut by_decision: BTreeMap<Decision, Vec<&str>> = BTreeMap::new();
    for tool in snapshot.registry.tools() {
        let names = by_decision.entry(tool.definition.approval).or_default();
        names.push(tool.name().as_str());
    }
    let rules: Vec<Value> = by_decision
        .iter()
        .map(|(decision, tools)| {
            json!({
                "rule": "default",
                "decision": decision,
                "tools": tools,
                "text": format!("{} tools declare `{}` by default", tools.len(), decision.as_str()),
            })
        })
        .collect();
    json!({ "name": "tools", "source": "", "editable": false, "rules": rules })
}

/// Returns the rules that apply without any setting, under the names that refusals have.
fn built_in_rules(config: &Config) -> Value {
    let protected = PathRules::protected();
    let mut rules: Vec<Value> = protected.rules().iter().map(built_in_path_rule).collect();
    let network = config.network.block_private_ips != Some(false);
    if network {
        rules.push(json!({
            "rule": "network.blockPrivateIPs",
            "decision": Decision::Deny,
            "tools": [],
            "text": "requests to this machine and to private networks, on by default",
        }));
    }
    if config.exec_approvals.mode.is_none() {
        rules.push(json!({
            "rule": DEFAULT_LIST,
            "decision": Decision::Ask,
            "tools": [],
            "text": "commands that are not known to be harmless, as `execApprovals.mode` is not set",
        }));
    }
    json!({ "name": "built-in", "source": "", "editable": false, "rules": rules })
}

fn built_in_path_rule(rule: &PathRule) -> Value {
    let (decision, text) = match (rule.text().starts_with('!'), rule.protection()) {
        (true, _) => (Decision::Allow, "an exception from the rules before it"),
        (false, ProtectionLevel::Hidden) => (Decision::Deny, "no tool may reach matching files"),
        (false, ProtectionLevel::ReadOnly) => (Decision::Deny, "no tool may change matching files"),
    };
    let text = match (rule.layer(), decision) {
        (PathRuleLayer::Secrets, Decision::Deny) => {
            format!("{text}, unless `tools.NAME.reveal` lists them")
        }
        _ => text.to_owned(),
    };
    json!({ "rule": path_rule_name(rule), "decision": decision, "tools": [], "text": text })
}

/// Formats an item of a list in one line.
fn one_line(value: &serde_yaml::Value) -> String {
    match value {
        serde_yaml::Value::String(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

struct LayerRules {
    lines: BTreeMap<String, u64>,
    rules: Vec<Value>,
}

impl LayerRules {
    fn add(&mut self, key: &str, decision: Option<Decision>, tools: &[String], text: String) {
        let mut rule = json!({ "rule": key, "decision": decision, "tools": tools, "text": text });
        if let Some(line) = self.lines.get(key) {
            rule["line"] = json!(line);
        }
        self.rules.push(rule);
    }

    fn add_file(&mut self, file: &ConfigFile) {
        let config = &file.config;
        let deny = Some(Decision::Deny);
        let policy = &config.policy;
        if !policy.allow.is_empty() {
            let text = "only these tools are available".to_owned();
            self.add("policy.allow", deny, &policy.allow, text);
        }
        if !policy.deny.is_empty() {
            let text = "these tools are not available".to_owned();
            self.add("policy.deny", deny, &policy.deny, text);
        }
        for (key, groups, text) in [
            (
                "policy.groups.allow",
                &policy.groups.allow,
                "only tools of these groups are available",
            ),
            (
                "policy.groups.deny",
                &policy.groups.deny,
                "tools of these groups are not available",
            ),
        ] {
            let names: Vec<String> = groups
                .iter()
                .map(|group| group.as_str().to_owned())
                .collect();
            if !names.is_empty() {
                self.add(key, deny, &names, text.to_owned());
            }
        }
        for (at, rule) in policy.rules.iter().enumerate() {
            self.add_rule(&format!("policy.rules[{at}]"), rule, &rule.tools);
        }
        if let Some(decision) = config.approval.default {
            let text = "custom tools without another setting".to_owned();
            self.add("approval.default", Some(decision), &[], text);
        }
        for (name, decision) in &config.approval.tools {
            let key = format!("approval.tools.{name}");
            self.add(
                &key,
                Some(*decision),
                std::slice::from_ref(name),
                "all calls".to_owned(),
            );
        }
        for (name, tool) in &config.tools.each {
            self.add_tool(name, tool);
        }
        self.add_commands(file);
        if !config.files.deny.is_empty() {
            let text = format!("tools cannot access {}", config.files.deny.join(", "));
            self.add("files.deny", deny, &[], text);
        }
        let enforcement = &config.enforcement;
        if enforcement.disable_local_tools {
            let text = "custom tools and skills of workspaces are not loaded".to_owned();
            self.add("enforcement.disableLocalTools", deny, &[], text);
        }
        if enforcement.require_signature {
            let text = "custom tools without a trusted signature are not loaded".to_owned();
            self.add("enforcement.requireSignature", deny, &[], text);
        }
        if !enforcement.allow_tools.is_empty() {
            let text = "only these tools can be used".to_owned();
            self.add(
                "enforcement.allowTools",
                deny,
                &enforcement.allow_tools,
                text,
            );
        }
    }

    /// Adds the settings that are not rules, but decide something about calls, such as hosts and limits.
    fn add_settings(&mut self, file: &ConfigFile) {
        let shown: Vec<String> = self
            .rules
            .iter()
            .filter_map(|rule| rule["rule"].as_str())
            .map(|rule| rule.split('[').next().unwrap_or(rule).to_owned())
            .collect();
        for LeafSetting { path, value } in file.leaf_settings() {
            let key = path.join(".");
            let is_shown = shown.iter().any(|rule| {
                let rest = key.strip_prefix(rule.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            let decides = path
                .first()
                .is_some_and(|block| SETTING_BLOCKS.contains(&block.as_str()));
            if is_shown || !decides {
                continue;
            }
            let tools: Vec<String> = match path.as_slice() {
                [block, tool, _, ..] if block == "tools" => vec![tool.clone()],
                _ => Vec::new(),
            };
            let text = serde_yaml::to_string(&value).unwrap_or_default();
            let text = match &value {
                serde_yaml::Value::Sequence(items) => {
                    let items: Vec<String> = items.iter().map(one_line).collect();
                    items.join(", ")
                }
                _ => text.trim_end().to_owned(),
            };
            let cut = prefix(&text, VALUE_MAX);
            let dots = if cut.len() < text.len() { "…" } else { "" };
            self.add(&key, None, &tools, format!("{cut}{dots}"));
            if let Some(row) = self.rules.last_mut() {
                row["kind"] = json!("setting");
            }
        }
    }

    fn add_tool(&mut self, name: &str, tool: &ToolSettings) {
        let own = [name.to_owned()];
        if tool.enabled == Some(false) {
            let key = format!("tools.{name}.enabled");
            self.add(&key, Some(Decision::Deny), &own, "switched off".to_owned());
        }
        if let Some(decision) = tool.approval.level() {
            let key = match tool.approval.block() {
                Some(_) => format!("tools.{name}.approval.level"),
                None => format!("tools.{name}.approval"),
            };
            self.add(&key, Some(decision), &own, "all calls".to_owned());
        }
        if let Some(block) = tool.approval.block() {
            let key = format!("tools.{name}.approval.dangerPatterns");
            if !block.danger_patterns.is_empty() {
                let text = format!("arguments that match {}", block.danger_patterns.join(", "));
                self.add(&key, Some(Decision::Ask), &own, text);
            }
        }
        for (at, rule) in tool.rules.iter().enumerate() {
            self.add_rule(&format!("tools.{name}.rules[{at}]"), rule, &own);
        }
        if !tool.deny.is_empty() {
            let key = format!("tools.{name}.deny");
            let text = format!("the tool cannot access {}", tool.deny.join(", "));
            self.add(&key, Some(Decision::Deny), &own, text);
        }
    }

    fn add_rule(&mut self, key: &str, rule: &RuleSettings, tools: &[String]) {
        let conditions: Vec<String> = rule
            .when
            .iter()
            .map(|(argument, matcher)| {
                let matcher = serde_json::to_string(matcher).unwrap_or_default();
                format!("{argument}: {matcher}")
            })
            .collect();
        let groups = rule.groups.iter().map(|group| group.as_str());
        let sources = rule.sources.iter().map(|source| source.as_str());
        let scope: Vec<&str> = groups.chain(sources).collect();
        let parts = [
            rule.name.clone().unwrap_or_default(),
            rule.reason.clone().unwrap_or_default(),
            conditions.join(", "),
            scope.join(", "),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let text = if parts.is_empty() {
            "all calls".to_owned()
        } else {
            parts.join("; ")
        };
        self.add(key, Some(rule.decision), tools, text);
    }

    fn add_commands(&mut self, file: &ConfigFile) {
        let commands = &file.config.exec_approvals;
        let mode = match commands.mode {
            None => None,
            Some(ExecMode::Full) => Some((Decision::Allow, "all commands may run")),
            Some(ExecMode::Allowlist) => Some((
                Decision::Ask,
                "commands that match no pattern are asked about",
            )),
            Some(ExecMode::Deny) => Some((Decision::Deny, "no commands may run")),
        };
        if let Some((decision, text)) = mode {
            self.add("execApprovals.mode", Some(decision), &[], text.to_owned());
        }
        for (at, approval) in commands.approvals.iter().enumerate() {
            let key = format!("execApprovals.approvals[{at}]");
            let text = format!("commands `{}`", approval.pattern);
            self.add(&key, Some(Decision::Allow), &[], text);
        }
    }
}
