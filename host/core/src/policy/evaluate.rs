//! The evaluation of a call: the reasons that each layer of each file gives, in the order of the layers.

use serde_json::Value;

use super::{LinkResolver, Policy, PolicyFile};
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, WithheldCause,
};
use crate::tool::{Tool, ToolSource};

impl Policy {
    /// Evaluates the layers before the tool's own default. Returns true if a person has set its approval.
    pub(crate) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        links: &LinkResolver<'_>,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let mut set = self.evaluate_tool_rules(tool, evaluation);
        for file in &self.files {
            let before = evaluation.reasons().len();
            file.commands.forbid(tool, &file.source, evaluation);
            let ours = file.rules.evaluate(tool, arguments, links, evaluation);
            set |= ours && file.allows_count();
            if !file.danger.is_empty() {
                let names = std::iter::once(tool.name()).chain(&tool.aliases);
                for danger in names.filter_map(|name| file.danger.get(name.as_str())) {
                    danger.evaluate(tool, arguments, &file.source, evaluation);
                }
            }
            file.sign(before, evaluation);
        }
        set
    }

    /// Evaluates the rules that hold for every call of the tool, whatever its arguments. Returns true if a person has
    /// set its approval.
    pub(super) fn evaluate_tool_rules(
        &self,
        tool: &Tool,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let mut set = false;
        if self.is_left_off(tool) {
            evaluation.push(DecisionReason {
                layer: PolicyLayer::Enabled,
                decision: Decision::Deny,
                source: tool.origin.location.clone(),
                rule: "enabled: false".to_owned(),
                text: format!("`{}` is switched off in its own file", tool.name()),
            });
        }
        for file in &self.files {
            let before = evaluation.reasons().len();
            file.enabled(tool, evaluation);
            file.lists.evaluate(tool, &file.source, evaluation);
            // The tool's own default is evaluated as well in any case.
            set |= file.approval(tool, evaluation) && file.allows_count();
            file.sign(before, evaluation);
        }
        set
    }
}

impl PolicyFile {
    /// Marks the reasons from `from` on with the state of this file: those of a team are in the team's layer, and those
    /// that do not count yet are withheld.
    pub(super) fn sign(&self, from: usize, evaluation: &mut PolicyEvaluation) {
        if !self.is_accepted {
            evaluation.withhold(from, WithheldCause::Unaccepted);
        }
        if self.is_worker() {
            evaluation.withhold(from, WithheldCause::Narrowed);
        }
        if self.has_untrusted_text || !self.is_accepted {
            evaluation.mark_untrusted(from);
        }
        if self.is_team() {
            evaluation.attribute_to_team(from);
        }
    }

    /// Evaluates the approval that a person has set. A setting for this very tool replaces the tool's own default; the
    /// default for all custom tools is combined with it, or replaces it if the tool has none.
    pub(super) fn approval(&self, tool: &Tool, evaluation: &mut PolicyEvaluation) -> bool {
        let mut any = false;
        let mut say = |key: String, decision: Decision, text: String| {
            let reason = DecisionReason {
                layer: PolicyLayer::ToolApproval,
                decision,
                source: self.source.at(&key),
                rule: format!("{key}: {}", decision.as_str()),
                text,
            };
            evaluation.push_with_basis(reason, RuleArguments::none().into());
        };
        let set = |decision: Decision| {
            format!("the config sets `{}` to {}", tool.name(), decision.as_str())
        };
        for (name, settings) in self.settings.named(tool) {
            if let Some(decision) = settings.approval.level() {
                any = true;
                say(format!("tools.{name}.approval"), decision, set(decision));
            }
        }
        if self.approval.is_empty() {
            return any;
        }
        for name in std::iter::once(tool.name()).chain(&tool.aliases) {
            if let Some(decision) = self.approval.tools.get(name.as_str()) {
                any = true;
                say(format!("approval.tools.{name}"), *decision, set(*decision));
            }
        }
        if let (false, Some(decision)) = (any, self.approval.default)
            && tool.source == ToolSource::Custom
        {
            let text = format!("the config sets custom tools to {}", decision.as_str());
            say("approval.default".to_owned(), decision, text);
            any = tool.definition.silent;
        }
        any
    }

    fn enabled(&self, tool: &Tool, evaluation: &mut PolicyEvaluation) {
        for (name, settings) in self.settings.named(tool) {
            if settings.enabled == Some(false) {
                let key = format!("tools.{name}.enabled");
                evaluation.push(DecisionReason {
                    layer: PolicyLayer::Enabled,
                    decision: Decision::Deny,
                    source: self.source.at(&key),
                    rule: format!("{key}: false"),
                    text: format!("`{}` is switched off in the config", tool.name()),
                });
            }
        }
    }
}
