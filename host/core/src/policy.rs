//! The rules that decide, and where they are written.

use std::collections::BTreeMap;

use crate::config::{Config, ToolSettings};
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::limits::Limits;
use crate::tool::{Group, Tool, Trust};

/// What a person and a team have said about tools. Made from a [`Config`], asked by the decide stage.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    source: String,
    allow: Vec<String>,
    deny: Vec<String>,
    allow_groups: Vec<Group>,
    deny_groups: Vec<Group>,
    tools: BTreeMap<String, ToolSettings>,
    limits: Limits,
}

impl Policy {
    /// The policy that a config file states; `source` names the file.
    pub fn new(config: &Config, source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            allow: config.policy.allow.clone(),
            deny: config.policy.deny.clone(),
            allow_groups: config.policy.groups.allow.clone(),
            deny_groups: config.policy.groups.deny.clone(),
            tools: config.tools.each.clone(),
            limits: config.limits(),
        }
    }

    /// What is set for this tool, under its name or an alias.
    pub fn settings(&self, tool: &Tool) -> Option<&ToolSettings> {
        self.tools.get(tool.name().as_str()).or_else(|| {
            let mut aliases = tool.aliases.iter();
            aliases.find_map(|alias| self.tools.get(alias.as_str()))
        })
    }

    /// Whether the tool may be listed and called at all.
    pub fn is_enabled(&self, tool: &Tool) -> bool {
        self.settings(tool).and_then(|settings| settings.enabled) != Some(false)
    }

    /// The bounds of a call of this tool.
    pub fn limits(&self, tool: &Tool) -> Limits {
        match self.settings(tool) {
            Some(settings) => settings.limits.over(self.limits),
            None => self.limits,
        }
    }

    /// What the layers before the tool's own word say, and whether a person has set its approval.
    pub(crate) fn evaluate(&self, tool: &Tool, evaluation: &mut Evaluation) -> bool {
        self.enabled(tool, evaluation);
        self.lists(tool, evaluation);
        let set = self.settings(tool).and_then(|settings| settings.approval);
        if let Some(decision) = set {
            evaluation.push(Reason {
                layer: Layer::ToolApproval,
                decision,
                rule: format!("tools.{}.approval: {}", tool.name(), decision.as_str()),
                source: self.source.clone(),
                text: format!("the config sets `{}` to {}", tool.name(), decision.as_str()),
            });
        }
        set.is_some()
    }

    fn enabled(&self, tool: &Tool, evaluation: &mut Evaluation) {
        if !self.is_enabled(tool) {
            evaluation.push(Reason {
                layer: Layer::Enabled,
                decision: Decision::Deny,
                rule: format!("tools.{}.enabled: false", tool.name()),
                source: self.source.clone(),
                text: format!("`{}` is switched off in the config", tool.name()),
            });
        }
    }

    fn lists(&self, tool: &Tool, evaluation: &mut Evaluation) {
        let group = tool.definition.group;
        let mut deny = |rule: String, text: String| {
            evaluation.push(Reason {
                layer: Layer::ToolPolicy,
                decision: Decision::Deny,
                rule,
                source: self.source.clone(),
                text,
            });
        };
        if let Some(name) = self.deny.iter().find(|name| tool.answers_to(name)) {
            deny(format!("policy.deny: [{name}]"), format!("`{}` is in the deny list", tool.name()));
        }
        if !self.allow.is_empty() && !self.allow.iter().any(|name| tool.answers_to(name)) {
            deny(
                format!("policy.allow: [{}]", self.allow.join(", ")),
                format!("`{}` is not in the allow list", tool.name()),
            );
        }
        if self.deny_groups.contains(&group) {
            deny(
                format!("policy.groups.deny: [{}]", group.as_str()),
                format!("tools of the group `{}` are denied", group.as_str()),
            );
        }
        if !self.allow_groups.is_empty() && !self.allow_groups.contains(&group) {
            let names: Vec<_> = self.allow_groups.iter().map(|group| group.as_str()).collect();
            deny(
                format!("policy.groups.allow: [{}]", names.join(", ")),
                format!("tools of the group `{}` are not among the allowed groups", group.as_str()),
            );
        }
    }
}

/// What the tool itself says, as far as it is trusted. A person's word replaces it.
pub(crate) fn own_word(tool: &Tool, assessed: Option<Decision>, evaluation: &mut Evaluation) {
    let source = tool.origin.location.as_str();
    let (layer, decision, text) = match assessed {
        Some(decision) => (Layer::Assessor, decision, "the tool judges this call itself"),
        None => (Layer::ToolDefault, tool.definition.approval, "the tool's own default"),
    };
    evaluation.push(Reason {
        layer,
        decision,
        rule: format!("{}: {}", tool.name(), decision.as_str()),
        source: source.to_owned(),
        text: text.to_owned(),
    });
    if tool.trust == Trust::Untrusted {
        evaluation.push(Reason {
            layer: Layer::Trust,
            decision: Decision::Ask,
            rule: "a plugin with needs that nobody has granted".to_owned(),
            source: source.to_owned(),
            text: format!("nobody has granted what `{}` needs", tool.origin.plugin),
        });
    }
}

#[cfg(test)]
mod tests;
