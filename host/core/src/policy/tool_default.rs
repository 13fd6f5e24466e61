//! The tool's own default, and the relation of its plugin to its grant.

use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::text;
use crate::tool::{RiskLevel, Tool, ToolSource, ToolTrust};

/// Evaluates the tool's own default, as far as it is trusted. A person's setting replaces it.
pub(crate) fn evaluate_tool_default(
    tool: &Tool,
    assessed: Option<Decision>,
    evaluation: &mut PolicyEvaluation,
) {
    let source = tool.origin.location.as_str();
    let (layer, decision, text) = match assessed {
        Some(decision) => (
            PolicyLayer::Assessor,
            decision,
            "the tool's own assessment of this call",
        ),
        None if is_too_risky(tool) => (
            PolicyLayer::ToolDefault,
            Decision::Ask,
            "the tool allows its calls by default, but declares a high risk",
        ),
        None => (
            PolicyLayer::ToolDefault,
            tool.definition.approval,
            "the tool's own default",
        ),
    };
    let reason = DecisionReason {
        layer,
        decision,
        rule: format!("{}: {}", tool.name(), decision.as_str()),
        source: source.to_owned(),
        text: text.to_owned(),
    };
    // A remembered answer may cover more than the exact call only for tools whose decision depends on the affected
    // file, and not on the content.
    evaluation.push_with_basis(reason, RuleArguments::none().into());
}

/// Returns true if the tool allows its calls by default although it declares a high risk.
fn is_too_risky(tool: &Tool) -> bool {
    tool.definition.approval == Decision::Allow && tool.definition.risk >= RiskLevel::High
}

/// Returns true if no person has seen the present description of this tool of an MCP server. It is hidden from models
/// then: a description has effects before anything is called.
pub(crate) fn is_unseen(tool: &Tool) -> bool {
    let changes = tool.changes.as_ref();
    // A new version with the same description counts as seen.
    let is_unchanged = changes.is_some_and(|changes| changes.lines.is_empty());
    tool.source == ToolSource::Mcp && tool.trust == ToolTrust::Untrusted && !is_unchanged
}

/// Returns true if a server's tool differs from the one that a person has seen: then it cannot be called and is hidden
/// from models, until a person has seen the difference.
pub(crate) fn is_withdrawn(tool: &Tool) -> bool {
    let changed = |changes: &crate::grants::GrantChanges| !changes.lines.is_empty();
    tool.source == ToolSource::Mcp
        && tool.trust == ToolTrust::Untrusted
        && tool.changes.as_ref().is_some_and(changed)
}

/// Asks about missing grants, whatever the settings say about the tool: a name in a settings file does not identify a
/// component.
pub(crate) fn evaluate_trust(tool: &Tool, evaluation: &mut PolicyEvaluation) {
    let source = tool.origin.location.as_str();
    if tool.trust != ToolTrust::Untrusted {
        return;
    }
    let plugin = text::visible(&tool.origin.plugin);
    let changes = tool.changes.as_ref();
    let (rule, text) = match changes.map(|changes| changes.lines.as_slice()) {
        None => (
            "a plugin with needs that were not granted",
            format!("the needs of `{plugin}` were not granted"),
        ),
        Some([]) => (
            "a plugin that was rebuilt since it was granted",
            format!("`{plugin}` was rebuilt since it was granted; it requests the same as before"),
        ),
        Some(_) if is_withdrawn(tool) => (
            "a tool of a server that has changed since a person saw it",
            format!(
                "`{plugin}` describes `{}` differently than when a person saw it",
                tool.name()
            ),
        ),
        Some(_) => (
            "a plugin that has changed since it was granted",
            format!("`{plugin}` has changed since it was granted"),
        ),
    };
    let reason = DecisionReason {
        layer: PolicyLayer::Trust,
        decision: match is_withdrawn(tool) {
            true => Decision::Deny,
            false => Decision::Ask,
        },
        rule: rule.to_owned(),
        source: source.to_owned(),
        text,
    };
    // The card showed the changes and the withheld needs.
    let basis = RuleBasis {
        content: changes.map(|changes| changes.id().into()),
        ..RuleArguments::none().into()
    };
    evaluation.push_untrusted_with_basis(reason, basis);
}
