//! Evaluates the tool's own default, and the grant of its plugin.

use crate::backend::ToolAssessment;
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::text;
use crate::tool::{RiskLevel, Tool, ToolSource, ToolTrust};

/// Evaluates the assessment of the call, or without one, the tool's own default: `allow` becomes `ask` for a tool that
/// declares a high risk. Callers must not call it if a person's setting replaces the default.
pub(crate) fn evaluate_tool_default(
    tool: &Tool,
    assessment: Option<&ToolAssessment>,
    evaluation: &mut PolicyEvaluation,
) {
    let source = tool.origin.location.as_str();
    // The text is part of what a stored approval covers.
    let of_scope;
    let (layer, decision, text) = match assessment {
        Some(assessment) => {
            of_scope = match &assessment.scope {
                Some(scope) => {
                    format!(
                        "the tool's own assessment of calls on {}",
                        text::visible(scope)
                    )
                }
                None => "the tool's own assessment of this call".to_owned(),
            };
            (
                PolicyLayer::Assessor,
                assessment.approval,
                of_scope.as_str(),
            )
        }
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
    // The reason reads no arguments, so that an approval can cover other payloads. This is used only for built-in tools
    // whose decision depends on the affected file, and not on its content.
    let basis = RuleBasis {
        each_time: assessment.is_some_and(|assessment| assessment.each_time),
        ..RuleArguments::none().into()
    };
    evaluation.push_with_basis(reason, basis);
}

/// Returns true if the tool allows its calls by default although it declares a high risk.
fn is_too_risky(tool: &Tool) -> bool {
    tool.definition.approval == Decision::Allow && tool.definition.risk >= RiskLevel::High
}

/// Returns true for a tool of an MCP server whose current description no person has seen. Such a tool is hidden from
/// models, because a description affects them before any call.
pub(crate) fn is_unseen(tool: &Tool) -> bool {
    let changes = tool.changes.as_ref();
    // A new version without changes counts as seen.
    let is_unchanged = changes.is_some_and(|changes| changes.lines.is_empty());
    tool.source == ToolSource::Mcp && tool.trust == ToolTrust::Untrusted && !is_unchanged
}

/// Returns true if a server's tool has changed since a person saw it. Such a tool cannot be called and is hidden from
/// models until a person has seen the changes.
pub(crate) fn is_withdrawn(tool: &Tool) -> bool {
    let changed = |changes: &crate::grants::GrantChanges| !changes.lines.is_empty();
    tool.source == ToolSource::Mcp
        && tool.trust == ToolTrust::Untrusted
        && tool.changes.as_ref().is_some_and(changed)
}

/// Adds a reason to ask about, or deny, a call of a tool without a current grant. Settings for the tool do not lift it,
/// because a name in a settings file does not identify a component.
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
        decision: if is_withdrawn(tool) {
            Decision::Deny
        } else {
            Decision::Ask
        },
        rule: rule.to_owned(),
        source: source.to_owned(),
        text,
    };
    // An approval covers only the changes and withheld needs that the card showed.
    let basis = RuleBasis {
        content: changes.map(|changes| changes.id().into()),
        ..RuleArguments::none().into()
    };
    evaluation.push_untrusted_with_basis(reason, basis);
}
