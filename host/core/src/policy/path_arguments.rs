//! Evaluates the path rules before a call of a built-in file tool, so that a person is not asked about an access that
//! the sandbox denies anyway, and `policy explain` can show the denial.
//!
//! Out of scope: enforcement. Only the sandbox's file system (mimir-wasm) knows the real target of a path and the
//! content of a folder. It checks each access against the same rules.

use serde_json::Value;

use crate::backend::RealPath;
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::paths::{self, PathRule, PathRules};
use crate::text;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::link_resolver::LinkResolver;
use super::remedies::IN_CONFIG;
use super::spelling;

/// The arguments of the built-in file tools that are paths.
const PATH_ARGUMENTS: [&str; 3] = ["path", "from", "to"];

/// Adds a denial for each path argument that the tool may not reach, or if the tool writes, may not change.
/// `equivalent` is the fine-grained tool with the same effect as a call of the compact form.
pub(crate) fn evaluate_path_arguments(
    tool: &Tool,
    equivalent: Option<&Tool>,
    arguments: &Value,
    rules: &PathRules,
    links: &LinkResolver<'_>,
    evaluation: &mut PolicyEvaluation,
) {
    if tool.source != ToolSource::BuiltIn || tool.definition.group != ToolGroup::Fs {
        return;
    }
    let reads = equivalent.unwrap_or(tool).definition.hints.read_only;
    for name in PATH_ARGUMENTS {
        let Some(given) = arguments.get(name).and_then(Value::as_str) else {
            continue;
        };
        let Some(path) = resolve(given, links) else {
            continue;
        };
        let verdict = rules.check(&path);
        let rule = if reads {
            verdict.against_reading()
        } else {
            verdict.against_writing()
        };
        if let Some(rule) = rule {
            let verb = if reads { "reach" } else { "change" };
            let reason = DecisionReason {
                layer: PolicyLayer::Paths,
                decision: Decision::Deny,
                rule: path_rule_name(rule),
                source: String::new(),
                text: format!("no tool may {verb} `{}`", text::visible(&path)),
            };
            let basis = RuleBasis {
                reads: RuleArguments::Only([name.to_owned()].into()),
                remedy: Some(remedy(rule, tool, &path).into()),
                ..RuleBasis::default()
            };
            evaluation.push_with_basis(reason, basis);
        }
    }
}

/// Returns the paths that the arguments of a built-in file tool name, for the record. `None` for other tools.
pub(crate) fn named_paths(tool: &Tool, arguments: &Value) -> Option<String> {
    if tool.source != ToolSource::BuiltIn || tool.definition.group != ToolGroup::Fs {
        return None;
    }
    let given = PATH_ARGUMENTS
        .iter()
        .filter_map(|name| arguments.get(name)?.as_str());
    let patch = arguments.get("patch").and_then(Value::as_str);
    let patched = patch.filter(|_| super::is_patch_tool(tool));
    let patched = patched.map_or_else(Vec::new, super::patched_paths);
    let mut named: Vec<String> = given
        .chain(patched.iter().map(String::as_str))
        .map(text::visible)
        .collect();
    named.dedup();
    (!named.is_empty()).then(|| named.join(", "))
}

/// Resolves a path in the workspace. `None` for a path that leads outside, which is denied elsewhere.
fn resolve(given: &str, links: &LinkResolver<'_>) -> Option<String> {
    match links.resolve(given) {
        RealPath::AsWritten => spelling::lexical(given).map(String::from),
        RealPath::Other(path) => Some(path),
        RealPath::Outside => None,
    }
}

/// Returns the name of a rule in the reasons of decisions. Patterns written by a person are left out, because models see
/// the name.
pub fn path_rule_name(rule: &PathRule) -> String {
    match rule.layer() {
        paths::PathRuleLayer::Protected => format!("protected: {rule}"),
        paths::PathRuleLayer::Secrets => format!("secrets files: {rule}"),
        paths::PathRuleLayer::Denied => "files.deny, or `deny` of the tool".to_owned(),
        paths::PathRuleLayer::WindowsName => "names on Windows".to_owned(),
    }
}

/// Returns the remedy that lifts the rule for this path.
pub(super) fn remedy(rule: &PathRule, tool: &Tool, path: &str) -> String {
    let name = tool.name();
    match rule.layer() {
        paths::PathRuleLayer::Protected if rule.is_of_skills() => {
            "the file is part of a skill that no person has trusted: `mimir skills trust NAME` accepts it, and \
             `load_skill` returns the files of an added skill"
                .to_owned()
        }
        paths::PathRuleLayer::Protected => {
            "no setting lifts this; change the file without a tool".to_owned()
        }
        paths::PathRuleLayer::Secrets => format!("`tools.{name}.reveal: [{path}]` {IN_CONFIG}"),
        paths::PathRuleLayer::Denied => {
            format!(
                "take `{rule}` out of `files.deny`, of `tools.{name}.deny`, or of a worker's `toolsets.filesystem.deny`"
            )
        }
        paths::PathRuleLayer::WindowsName => rule.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::tests::tool;
    use serde_json::json;

    /// Returns the reasons that deny a call, each with its remedy.
    fn denials(reads: bool, arguments: &Value) -> Vec<(String, String)> {
        let mut sample = tool("sample");
        sample.source = ToolSource::BuiltIn;
        sample.definition.group = ToolGroup::Fs;
        sample.definition.hints.read_only = reads;
        let rules = PathRules::protected().deny(["kept/**"]).unwrap();
        let mut evaluation = PolicyEvaluation::default();
        let links = LinkResolver::none();
        evaluate_path_arguments(&sample, None, arguments, &rules, &links, &mut evaluation);
        let of_denied = evaluation.reasons_with_decision(Decision::Deny);
        let each = of_denied.map(|(reason, basis)| {
            let remedy = basis.remedy.as_deref().unwrap_or_default();
            (
                format!("{} ({})", reason.text, reason.rule),
                remedy.to_owned(),
            )
        });
        each.collect()
    }

    #[test]
    fn path_arguments_denied_by_rules_are_reported_before_asking() {
        let secret = &denials(true, &json!({"path": "./sub/../.env"}))[0];
        assert_eq!(secret.0, "no tool may reach `.env` (secrets files: *.env)");
        assert!(
            secret.1.starts_with("`tools.sample.reveal: [.env]`"),
            "{secret:?}"
        );
        let person = &denials(false, &json!({"from": "kept/a", "to": "b"}));
        assert_eq!(person.len(), 1, "{person:?}");
        assert!(!person[0].0.contains("kept/**"), "{person:?}");
        assert!(person[0].1.contains("`kept/**`"), "{person:?}");
        let settings = json!({"path": ".mimir/config.yml"});
        assert!(denials(true, &settings).is_empty());
        assert!(denials(false, &settings)[0].1.contains("no setting lifts"));
        // Values that are not paths are not checked; paths that lead outside are denied elsewhere.
        for arguments in [
            json!({"path": "a.txt", "content": ".env"}),
            json!({"path": "../.env"}),
            json!({"path": 1}),
        ] {
            assert!(denials(false, &arguments).is_empty(), "{arguments}");
        }
    }
}
