//! Danger patterns and conditions, which require an approval for calls with certain effects.

use std::sync::OnceLock;

use mimir_commands::CommandDanger;
use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;

use crate::command::{ParsedCommand, display_line};
use crate::config::{ApprovalBlock, ApprovalConditions};
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::network::RequestTarget;
use crate::tool::Tool;

use super::commands::built_in_reason;
use super::error::PolicyError;
use super::regex_budget::{RegexBudget, SET_MAX};
use super::source::RuleSource;
use super::spelling;

/// The danger patterns and conditions in the `approval` block of one tool.
#[derive(Debug, Clone)]
pub(super) struct DangerRules {
    /// The config key of the block.
    key: String,
    patterns: Vec<String>,
    /// The compiled patterns, compiled at the tool's first call. `None` if compiling fails.
    set: OnceLock<Option<RegexSet>>,
    conditions: ApprovalConditions,
}

impl DangerRules {
    /// Reads the `approval` block at the config key `key`.
    pub(super) fn new(
        key: String,
        block: &ApprovalBlock,
        source: &RuleSource,
        budget: &mut RegexBudget,
    ) -> Result<Self, PolicyError> {
        let patterns: Vec<String> = block
            .danger_patterns
            .iter()
            .map(|text| from_javascript(text))
            .collect();
        for (at, pattern) in patterns.iter().enumerate() {
            let key = format!("{key}.dangerPatterns[{at}]");
            budget.take(pattern).map_err(|text| PolicyError::Rule {
                location: source.at(&key),
                text: format!("{key}: {text}"),
            })?;
        }
        Ok(Self {
            key,
            patterns,
            set: OnceLock::new(),
            conditions: block.conditions.clone(),
        })
    }

    /// Adds a reason to ask for each matching pattern and condition.
    pub(super) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        source: &RuleSource,
        evaluation: &mut PolicyEvaluation,
    ) {
        let mut ask = |layer, key: String, text: String| {
            evaluation.push(DecisionReason {
                layer,
                decision: Decision::Ask,
                source: source.at(&key),
                rule: key,
                text,
            });
        };
        let mut matches = self.matching_patterns(arguments);
        if !self.patterns.is_empty()
            && let Some(decoded) = spelling::with_decoded_content(arguments)
        {
            matches.extend(self.matching_patterns(&decoded));
            matches.sort_unstable();
            matches.dedup();
        }
        for at in matches {
            let key = format!("{}.dangerPatterns[{at}]", self.key);
            let pattern = self.patterns.get(at).map_or("", String::as_str);
            ask(
                PolicyLayer::Danger,
                key,
                format!("the arguments match the danger pattern `{pattern}`"),
            );
        }
        let methods = &self.conditions.method_requires_approval;
        let is_listed = |method: &String| {
            methods
                .iter()
                .any(|listed| listed.eq_ignore_ascii_case(method))
        };
        if !methods.is_empty()
            && let Some(method) = request_method(tool, arguments).filter(is_listed)
        {
            let key = format!("{}.conditions.methodRequiresApproval", self.key);
            let method = method.to_ascii_uppercase();
            ask(
                PolicyLayer::Condition,
                key,
                format!("requests with {method} are asked about"),
            );
        }
        if self.conditions.unknown_host_requires_approval
            && let Some(url) = arguments["url"].as_str()
            && !is_granted_host(url, tool)
        {
            let key = format!("{}.conditions.unknownHostRequiresApproval", self.key);
            let text = format!("`{}` was not granted the host of this address", tool.name());
            ask(PolicyLayer::Condition, key, text);
        }
    }

    /// Returns the indexes of the matching patterns. They are tested on each string in the arguments, and on the
    /// arguments as JSON.
    fn matching_patterns(&self, arguments: &Value) -> Vec<usize> {
        if self.patterns.is_empty() {
            return Vec::new();
        }
        let json = arguments.to_string();
        let compile = || {
            let set = RegexSetBuilder::new(&self.patterns)
                .size_limit(SET_MAX)
                .build();
            set.inspect_err(|error| tracing::error!("{}: the patterns: {error}", self.key))
                .ok()
        };
        let Some(set) = self.set.get_or_init(compile) else {
            // A compile error must not disable the patterns, so all patterns count as matching.
            return (0..self.patterns.len()).collect();
        };
        let mut is_hit: Vec<bool> = vec![false; self.patterns.len()];
        let mut check = |text: &str| {
            for at in &set.matches(text) {
                is_hit[at] = true;
            }
        };
        check(&json);
        for_each_string(arguments, &mut check);
        (0..is_hit.len()).filter(|&at| is_hit[at]).collect()
    }
}

/// Creates the reason to ask about a dangerous command.
pub(super) fn danger_reason(simple: &ParsedCommand, danger: CommandDanger) -> DecisionReason {
    let text = format!("`{}` {}", display_line(simple), danger.effect);
    built_in_reason(
        PolicyLayer::Danger,
        Decision::Ask,
        &format!("danger: {}", danger.name),
        text,
    )
}

/// Creates the reason to ask about an unknown part of a script in `mode: full`. `why` describes the part.
pub(super) fn unparsed_reason(why: &str) -> DecisionReason {
    let text = format!("the command may run anything, because it cannot be analyzed: {why}");
    built_in_reason(
        PolicyLayer::Danger,
        Decision::Ask,
        "danger: unknown command",
        text,
    )
}

/// Returns the method of a request: the argument `method`, or else its default in the schema.
fn request_method(tool: &Tool, arguments: &Value) -> Option<String> {
    if let Some(method) = arguments.get("method") {
        return method.as_str().map(str::to_owned);
    }
    let schema = tool.definition.input_schema.to_value();
    schema["properties"]["method"]["default"]
        .as_str()
        .map(str::to_owned)
}

fn for_each_string(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_string(item, check)),
        Value::Object(map) => map.values().for_each(|item| for_each_string(item, check)),
        _ => {}
    }
}

/// Converts a JavaScript pattern such as `/…/i` to the syntax of the regex crate. Flags without an equivalent are
/// dropped.
fn from_javascript(text: &str) -> String {
    let slashed = text
        .strip_prefix('/')
        .and_then(|rest| rest.rsplit_once('/'))
        .filter(|(_, flags)| flags.chars().all(|flag| "gimsuy".contains(flag)));
    match slashed {
        Some((body, flags)) => {
            let supported: String = flags.chars().filter(|flag| "ims".contains(*flag)).collect();
            let body = body.replace("\\/", "/");
            if supported.is_empty() {
                body
            } else {
                format!("(?{supported}){body}")
            }
        }
        None => text.to_owned(),
    }
}

/// Returns true if the tool was granted the host of `url`, and false for an invalid URL. For a tool that may request
/// any host, the list of hosts is checked at each request.
fn is_granted_host(url: &str, tool: &Tool) -> bool {
    let Ok(target) = RequestTarget::parse(url) else {
        return false;
    };
    let patterns = tool.granted.hosts.iter();
    let mut patterns = patterns.filter_map(|need| need.pattern().ok());
    patterns.any(|pattern| pattern.matches(&target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::HostNeed;
    use crate::pipeline::tests::tool;

    #[test]
    fn danger_patterns_accept_javascript_regex_literals() {
        assert_eq!(from_javascript("rm\\s+-rf"), "rm\\s+-rf");
        assert_eq!(from_javascript("/curl.*\\|\\s*sh/i"), "(?i)curl.*\\|\\s*sh");
        assert_eq!(from_javascript("/>\\s*\\/dev\\/sd/g"), ">\\s*/dev/sd");
        assert_eq!(from_javascript("/etc/passwd"), "/etc/passwd");
    }

    #[test]
    fn danger_known_host_requires_an_unambiguous_url() {
        let mut sample = tool("sample");
        sample.granted.hosts = ["api.example.com", "example.com", "good.com"]
            .map(|host| HostNeed {
                host: host.to_owned(),
                methods: vec!["GET".to_owned()],
                reason: String::new(),
            })
            .to_vec();
        for known in ["https://API.example.com:443/x", "https://example.com./"] {
            assert!(is_granted_host(known, &sample), "{known}");
        }
        for odd in [
            "https://good.com@evil.com/",
            "https://good.com\\@evil.com",
            "ftp://good.com/",
            "good.com",
            "https://",
            "https://[::1]/",
            "https://gооd.com/",
        ] {
            assert!(!is_granted_host(odd, &sample), "{odd}");
        }
    }
}
