//! What a tool says of itself, and how its plugin stands to what a person has granted.

use crate::decision::{Basis, Decision, Evaluation, Layer, Reads, Reason};
use crate::text;
use crate::tool::{Risk, Source, Tool, Trust};

/// What the tool itself says, as far as it is trusted. A person's word replaces it.
pub(crate) fn own_word(tool: &Tool, assessed: Option<Decision>, evaluation: &mut Evaluation) {
    let source = tool.origin.location.as_str();
    let (layer, decision, text) = match assessed {
        Some(decision) => (
            Layer::Assessor,
            decision,
            "the tool judges this call itself",
        ),
        None if is_too_risky(tool) => (
            Layer::ToolDefault,
            Decision::Ask,
            "the tool would not ask, and says that a wrong call could do much harm",
        ),
        None => (
            Layer::ToolDefault,
            tool.definition.approval,
            "the tool's own default",
        ),
    };
    let reason = Reason {
        layer,
        decision,
        rule: format!("{}: {}", tool.name(), decision.as_str()),
        source: source.to_owned(),
        text: text.to_owned(),
    };
    // Tools of which more than the very same call is remembered judge by what their call would do to a file, and
    // not by what they write into it.
    evaluation.push_from(reason, Reads::nothing().into());
}

/// Whether its own judgement of the risk speaks against its own default.
fn is_too_risky(tool: &Tool) -> bool {
    tool.definition.approval == Decision::Allow && tool.definition.risk >= Risk::High
}

/// Returns true if no person has seen the present description of this tool of an MCP server. No model reads it then: a
/// description has effects before anything is called.
pub(crate) fn is_unseen(tool: &Tool) -> bool {
    let changes = tool.changes.as_ref();
    // A new version whose words are the same has been seen.
    let same = changes.is_some_and(|changes| changes.lines.is_empty());
    tool.source == Source::Mcp && tool.trust == Trust::Untrusted && !same
}

/// Whether a tool of somebody's server is not the one that a person has seen: then nobody calls it and no model reads
/// of it, until a person has seen the difference.
pub(crate) fn is_withdrawn(tool: &Tool) -> bool {
    let changed = |changes: &crate::grants::Changes| !changes.lines.is_empty();
    tool.source == Source::Mcp
        && tool.trust == Trust::Untrusted
        && tool.changes.as_ref().is_some_and(changed)
}

/// What is not granted is asked for, whatever was said about the tool's own word: a name in a config
/// says nothing about which component answers to it.
pub(crate) fn trust(tool: &Tool, evaluation: &mut Evaluation) {
    let source = tool.origin.location.as_str();
    if tool.trust != Trust::Untrusted {
        return;
    }
    let plugin = text::visible(&tool.origin.plugin);
    let changes = tool.changes.as_ref();
    let (rule, text) = match changes.map(|changes| changes.lines.as_slice()) {
        None => (
            "a plugin with needs that nobody has granted",
            format!("nobody has granted what `{plugin}` needs"),
        ),
        Some([]) => (
            "a plugin that was rebuilt since it was granted",
            format!("`{plugin}` was rebuilt since it was granted; it asks for the same as before"),
        ),
        Some(_) if is_withdrawn(tool) => (
            "a tool of a server that is not as it was when a person saw it",
            format!(
                "`{plugin}` says something else of `{}` than it did when a person saw it",
                tool.name()
            ),
        ),
        Some(_) => (
            "a plugin that has changed since it was granted",
            format!("`{plugin}` has changed since it was granted"),
        ),
    };
    let reason = Reason {
        layer: Layer::Trust,
        decision: match is_withdrawn(tool) {
            true => Decision::Deny,
            false => Decision::Ask,
        },
        rule: rule.to_owned(),
        source: source.to_owned(),
        text,
    };
    // What is different, and what stays withheld, was on the card.
    let basis = Basis {
        content: changes.map(|changes| changes.id().into()),
        ..Reads::nothing().into()
    };
    evaluation.push_strange_from(reason, basis);
}
