//! What a tool says of itself, and how its plugin stands to what a person has granted.

use crate::decision::{Basis, Decision, Evaluation, Layer, Reads, Reason};
use crate::text;
use crate::tool::{Tool, Trust};

/// What the tool itself says, as far as it is trusted. A person's word replaces it.
pub(crate) fn own_word(tool: &Tool, assessed: Option<Decision>, evaluation: &mut Evaluation) {
    let source = tool.origin.location.as_str();
    let (layer, decision, text) = match assessed {
        Some(decision) => (
            Layer::Assessor,
            decision,
            "the tool judges this call itself",
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
        Some(_) => (
            "a plugin that has changed since it was granted",
            format!("`{plugin}` has changed since it was granted"),
        ),
    };
    let reason = Reason {
        layer: Layer::Trust,
        decision: Decision::Ask,
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
