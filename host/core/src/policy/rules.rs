//! Argument rules, which allow, ask about or deny calls with certain arguments.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::RuleSettings;
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::text;
use crate::tool::{Tool, ToolGroup, ToolName, ToolSource};

use super::compiled_rules::CompiledRules;
use super::condition::{self, ArgumentCondition};
use super::error::PolicyError;
use super::link_resolver::LinkResolver;
use super::regex_budget::RegexBudget;
use super::source::RuleSource;

mod blanket;
mod unused;

pub(super) use blanket::TeamRuleExceptions;
pub(super) use unused::is_every_text;

/// The argument rules of one file. The rules of a tool are compiled at its first call.
#[derive(Debug, Default)]
pub(super) struct ArgumentRules {
    rules: Vec<ArgumentRule>,
    compiled: Mutex<HashMap<RuleToolKey, Arc<CompiledRules>>>,
}

/// The properties of a tool that determine which rules apply to it.
type RuleToolKey = (ToolName, ToolSource, ToolGroup);

#[derive(Debug)]
struct ArgumentRule {
    name: String,
    source: String,
    reason: String,
    decision: Decision,
    tools: Vec<String>,
    groups: Vec<ToolGroup>,
    sources: Vec<ToolSource>,
    conditions: Vec<ArgumentCondition>,
    basis: RuleBasis,
    examples: Vec<Value>,
    counterexamples: Vec<Value>,
}

/// Maximum number of argument rules in one file.
const RULES_MAX: usize = 10_000;

/// Maximum length of an example in a message, in characters.
const EXAMPLE_MAX: usize = 200;

impl ArgumentRules {
    /// Parses rules. Each comes with its config key and, for a rule in a tool's block, the name of the tool.
    pub(super) fn new<'a>(
        settings: impl IntoIterator<Item = (String, Option<&'a str>, &'a RuleSettings)>,
        source: &RuleSource,
        budget: &mut RegexBudget,
    ) -> Result<Self, PolicyError> {
        let mut rules = Vec::new();
        for (key, owner, settings) in settings {
            let rule = ArgumentRule::parse(&key, owner, settings, source, budget)?;
            rule.check_examples(settings, source.at(&key))?;
            rules.push(rule);
            if rules.len() > RULES_MAX {
                return Err(PolicyError::Rule {
                    location: source.at(&key),
                    text: format!("too many argument rules: a file can have at most {RULES_MAX}"),
                });
            }
        }
        Ok(Self {
            rules,
            compiled: Mutex::default(),
        })
    }

    /// Evaluates the rules for a call. Returns true if a rule allows it.
    pub(super) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        links: &LinkResolver<'_>,
        exceptions: TeamRuleExceptions,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        self.evaluate_matching(tool, arguments, links, evaluation, |rule| {
            exceptions.allow(rule, tool)
        })
    }

    /// Evaluates the rules for which `applies` returns true. Returns true if a rule allows the call.
    fn evaluate_matching(
        &self,
        tool: &Tool,
        arguments: &Value,
        links: &LinkResolver<'_>,
        evaluation: &mut PolicyEvaluation,
        applies: impl Fn(&ArgumentRule) -> bool,
    ) -> bool {
        let mut allowed = false;
        let mut push = |rule: &ArgumentRule| {
            if !applies(rule) {
                return;
            }
            allowed |= rule.decision == Decision::Allow;
            let reason = DecisionReason {
                layer: PolicyLayer::ArgumentRule,
                decision: rule.decision,
                rule: rule.name.clone(),
                source: rule.source.clone(),
                text: rule.reason.clone(),
            };
            evaluation.push_with_basis(reason, rule.basis.clone());
        };
        match self.compiled_rules(tool) {
            Ok(compiled) => compiled.for_each_match(arguments, links, |at| {
                if let Some(rule) = self.rules.get(at as usize) {
                    push(rule);
                }
            }),
            // Each rule compiled alone. Skipping the rules because they fail together would lift their denials.
            Err(why) => evaluation.push(DecisionReason {
                layer: PolicyLayer::ArgumentRule,
                decision: Decision::Deny,
                rule: "rules".to_owned(),
                source: String::new(),
                text: format!("the argument rules cannot be compiled together: {why}"),
            }),
        }
        allowed
    }

    /// Evaluates the rules that depend only on the arguments `names`, which all effects of this kind have.
    pub(super) fn evaluate_effect(
        &self,
        tool: &Tool,
        (effect, names): (&Value, &[&str]),
        evaluation: &mut PolicyEvaluation,
    ) {
        if self.rules.iter().any(|rule| rule.depends_only_on(names)) {
            self.evaluate_matching(tool, effect, &LinkResolver::none(), evaluation, |rule| {
                rule.depends_only_on(names)
            });
        }
    }

    /// Returns the compiled rules of this tool.
    fn compiled_rules(&self, tool: &Tool) -> Result<Arc<CompiledRules>, String> {
        let key = (tool.name().clone(), tool.source, tool.definition.group);
        let mut cache = self.compiled.lock();
        if let Some(compiled) = cache.get(&key) {
            return Ok(Arc::clone(compiled));
        }
        let applying = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.applies_to(tool));
        let compiled = CompiledRules::new(
            applying.map(|(at, rule)| (at as u32, rule.decision, rule.conditions.as_slice())),
        )?;
        let compiled = Arc::new(compiled);
        cache.insert(key, Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Returns the number of examples that were checked when the rules were read.
    pub(super) fn examples(&self) -> usize {
        let count = |rule: &ArgumentRule| rule.examples.len() + rule.counterexamples.len();
        self.rules.iter().map(count).sum()
    }
}

impl ArgumentRule {
    fn parse(
        key: &str,
        owner: Option<&str>,
        settings: &RuleSettings,
        source: &RuleSource,
        budget: &mut RegexBudget,
    ) -> Result<Self, PolicyError> {
        let name = match &settings.name {
            Some(name) => format!("{key} ({})", text::visible(text::prefix(name, 64))),
            None => key.to_owned(),
        };
        let fault = |text: String| PolicyError::Rule {
            location: source.at(key),
            text: format!("{name}: {text}"),
        };
        if let Some(invalid) = settings
            .tools
            .iter()
            .find(|name| ToolName::new(name).is_err())
        {
            return Err(fault(format!(
                "tools: `{}` is not a valid tool name",
                text::visible(invalid)
            )));
        }
        let mut tools = settings.tools.clone();
        if let Some(owner) = owner {
            if !tools.is_empty() {
                return Err(fault(
                    "a rule in a tool's block applies to that tool only; leave `tools` out".into(),
                ));
            }
            tools.push(owner.to_owned());
        }
        let reason = match &settings.reason {
            Some(reason) => text::visible(text::prefix(reason, 500)),
            None => format!("the rule `{name}` decides {}", settings.decision.as_str()),
        };
        let conditions = condition::parse_conditions(settings, budget).map_err(fault)?;
        Ok(Self {
            source: source.at(key),
            reason,
            decision: settings.decision,
            tools,
            groups: settings.groups.clone(),
            sources: settings.sources.clone(),
            basis: approval_basis(settings, &conditions),
            conditions,
            examples: settings.matches.clone(),
            counterexamples: settings.no_match.clone(),
            name,
        })
    }

    /// Checks the rule against its examples.
    fn check_examples(&self, settings: &RuleSettings, location: String) -> Result<(), PolicyError> {
        if settings.matches.is_empty() && settings.no_match.is_empty() {
            return Ok(());
        }
        let compiled = CompiledRules::new([(0, self.decision, self.conditions.as_slice())])
            .map_err(|why| PolicyError::Rule {
                location: location.clone(),
                text: format!("{}: {why}", self.name),
            })?;
        let matches = |arguments: &Value| {
            let mut is_match = false;
            compiled.for_each_match(arguments, &LinkResolver::none(), |_| is_match = true);
            is_match
        };
        let example_error = |fault, example: &Value| PolicyError::Example {
            location: location.clone(),
            rule: self.name.clone(),
            fault,
            example: text::visible(text::prefix(&example.to_string(), EXAMPLE_MAX)),
        };
        for example in self.examples.iter().chain(&self.counterexamples) {
            if !example.is_object() {
                return Err(example_error(
                    "has an example that is not a JSON object of arguments",
                    example,
                ));
            }
        }
        if let Some(example) = self.examples.iter().find(|example| !matches(example)) {
            return Err(example_error("does not match its `match` example", example));
        }
        if let Some(example) = self.counterexamples.iter().find(|example| matches(example)) {
            return Err(example_error("matches its `noMatch` example", example));
        }
        Ok(())
    }

    /// Returns true if all conditions of the rule test these arguments. False for a rule without conditions.
    fn depends_only_on(&self, names: &[&str]) -> bool {
        let is_among = |condition: &ArgumentCondition| {
            let argument = condition.path.argument_name();
            argument.is_some_and(|argument| names.contains(&argument))
                && condition.path.is_argument_name()
        };
        !self.conditions.is_empty() && self.conditions.iter().all(is_among)
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        let names_tool = |names: &[String]| names.iter().any(|name| tool.answers_to(name));
        (self.tools.is_empty() || names_tool(&self.tools))
            && (self.groups.is_empty() || self.groups.contains(&tool.definition.group))
            && (self.sources.is_empty() || self.sources.contains(&tool.source))
    }
}

/// Returns the properties of the rule that a stored approval depends on. The default for a rule that does not ask.
fn approval_basis(settings: &RuleSettings, conditions: &[ArgumentCondition]) -> RuleBasis {
    if settings.decision != Decision::Ask {
        return RuleBasis::default();
    }
    let names = conditions
        .iter()
        .map(|condition| condition.path.argument_name().map(str::to_owned));
    // A path that does not begin with a name, such as `*`, may match any argument.
    let names: Option<Vec<String>> = names.collect();
    let text = serde_json::to_vec(settings).unwrap_or_default();
    RuleBasis {
        content: Some(format!("{:x}", Sha256::digest(text)).into()),
        ..RuleBasis::from(names.map_or(RuleArguments::Everything, |names| {
            RuleArguments::Only(names.into())
        }))
    }
}

#[cfg(test)]
mod tests;
