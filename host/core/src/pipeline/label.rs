//! Sixth stage: how far the result can be trusted.

use crate::outcome::{DataClass, Label, TrustLevel};
use crate::tool::{Group, Source, Tool};

use super::sanitize::Clean;
use super::trail::Trail;

/// A result that says how far it can be trusted.
pub struct Labeled {
    pub(super) clean: Clean,
    pub(super) label: Label,
}

pub(super) fn label(clean: Clean, trail: &Trail) -> Labeled {
    let label = match trail.tool() {
        Some(tool) if clean.ran => Label {
            trust: trust(tool),
            data_class: DataClass::Internal,
            origin: format!("{}:{}", tool.source.as_str(), tool.name()),
        },
        // A refusal is mimir's own word.
        _ => Label {
            trust: TrustLevel::System,
            data_class: DataClass::Public,
            origin: "mimir".to_owned(),
        },
    };
    Labeled { clean, label }
}

/// What the person's own files say is the person's; what comes from the network, or from a plugin
/// whose author nobody knows, is anyone's.
fn trust(tool: &Tool) -> TrustLevel {
    match (tool.source, tool.definition.group) {
        (Source::BuiltIn, Group::Fs) => TrustLevel::Verified,
        (Source::BuiltIn, Group::Runtime | Group::Memory | Group::System) => TrustLevel::User,
        (Source::BuiltIn, Group::Net | Group::Browser) => TrustLevel::Untrusted,
        (Source::Custom | Source::Mcp | Source::Teams, _) => TrustLevel::Untrusted,
    }
}
