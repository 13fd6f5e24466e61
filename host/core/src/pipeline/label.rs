//! Sixth stage: how far the result can be trusted.

use std::sync::{Mutex, PoisonError};

use crate::outcome::{DataClass, Label, TrustLevel};
use crate::tool::{Group, Source, Tool, Trust};

use super::Road;
use super::sanitize::Clean;
use super::trail::Trail;

/// A result that says how far it can be trusted.
pub struct Labeled {
    pub(super) clean: Clean,
    pub(super) label: Label,
}

/// The worst label of what a call has read through other tools.
#[derive(Debug, Default)]
pub struct Floor(Mutex<Option<(TrustLevel, DataClass)>>);

impl Floor {
    /// A nested call has ended with this label.
    pub(crate) fn note(&self, label: &Label) {
        let mut worst = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (label.trust, label.data_class);
        *worst = Some(worst.map_or(now, |worst| (worst.0.max(now.0), worst.1.max(now.1))));
    }

    fn worst(&self) -> Option<(TrustLevel, DataClass)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn label(road: &Road<'_>, clean: Clean, trail: &Trail) -> Labeled {
    let mut label = match trail.tool() {
        Some(tool) if clean.ran => {
            let mut label = Label {
                trust: TrustLevel::System,
                data_class: DataClass::Public,
                origin: format!("{}:{}", tool.source.as_str(), tool.name()),
            };
            for tool in trail.forms() {
                let set = road.world.policy.labels(tool);
                let own = set.output_trust.unwrap_or_else(|| trust(tool));
                let class = set.output_data_class.unwrap_or(DataClass::Internal);
                label.trust = label.trust.max(own);
                label.data_class = label.data_class.max(class);
            }
            label
        }
        // A refusal is mimir's own word.
        _ => Label {
            trust: TrustLevel::System,
            data_class: DataClass::Public,
            origin: "mimir".to_owned(),
        },
    };
    if let Some((trust, data_class)) = trail.floor().worst() {
        label.trust = label.trust.max(trust);
        label.data_class = label.data_class.max(data_class);
    }
    if clean.redactions > 0 {
        label.data_class = label.data_class.max(DataClass::Sensitive);
    }
    road.sessions.get(trail.session()).read(&label);
    Labeled { clean, label }
}

/// What the person's own files say is the person's; what a person has granted is vouched for, as far as
/// nobody else speaks through it; everything else is anyone's.
fn trust(tool: &Tool) -> TrustLevel {
    let reach = &tool.definition.needs;
    let closed = reach.hosts.is_empty() && reach.commands.is_empty() && !reach.model;
    match (tool.source, tool.definition.group) {
        (Source::BuiltIn, Group::Fs) => TrustLevel::Verified,
        (Source::BuiltIn, Group::Runtime | Group::Memory | Group::System) => TrustLevel::User,
        (Source::BuiltIn, Group::Net | Group::Browser) => TrustLevel::Untrusted,
        (Source::Custom, _) if tool.trust == Trust::Trusted && closed => TrustLevel::Verified,
        (Source::Custom | Source::Mcp | Source::Teams, _) => TrustLevel::Untrusted,
    }
}
