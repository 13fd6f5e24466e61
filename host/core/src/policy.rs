//! The rules that decide, and where they are written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::{Config, Profile, ToolSettings};
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::limits::Limits;
use crate::paths::{PathRules, PatternError};
use crate::tool::{Group, Source, Tool, Trust};

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
    longest: Option<Duration>,
    profile: Profile,
    files: Vec<Policy>,
    /// Compiled when a tool is first called.
    paths: Arc<Mutex<HashMap<String, PathRules>>>,
}

/// A config whose rules cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A glob is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A deny list with an exception, which could lift what another file denies.
    #[error(
        "tools.{tool}.deny: `{glob}` is an exception, and a deny list has none; name what is denied"
    )]
    Exception {
        /// The tool.
        tool: String,
        /// The exception.
        glob: String,
    },
}

/// Tools of which each does one operation of a tool in [`COMPACT`].
const FINE: [&str; 6] = [
    "read_file",
    "write_file",
    "edit_file",
    "list_directory",
    "delete_file",
    "file_info",
];

/// Tools that do several operations.
const COMPACT: [&str; 1] = ["file_operations"];

impl Policy {
    /// The policy that a config file states; `source` names the file.
    pub fn new(config: &Config, source: impl Into<String>) -> Result<Self, PolicyError> {
        for (tool, settings) in &config.tools.each {
            if let Some(glob) = settings.deny.iter().find(|glob| glob.starts_with('!')) {
                return Err(PolicyError::Exception {
                    tool: tool.clone(),
                    glob: glob.clone(),
                });
            }
            if !settings.deny.is_empty() {
                // Only checked here, so that the fault is told with its file.
                PathRules::none().deny(&settings.deny)?;
            }
        }
        Ok(Self {
            source: source.into(),
            allow: config.policy.allow.clone(),
            deny: config.policy.deny.clone(),
            allow_groups: config.policy.groups.allow.clone(),
            deny_groups: config.policy.groups.deny.clone(),
            tools: config.tools.each.clone(),
            limits: config.limits(),
            longest: config.tools.max_execution_time.map(Duration::from_millis),
            profile: config.profile,
            files: Vec::new(),
            paths: Arc::default(),
        })
    }

    /// These settings and bounds, judged by the rules of several files. Each file speaks for itself, so
    /// that what one of them forbids stays forbidden.
    #[must_use]
    pub fn judged_by(mut self, files: Vec<Policy>) -> Self {
        self.files = files;
        self
    }

    /// The files whose rules count.
    fn voices(&self) -> &[Policy] {
        if self.files.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.files
        }
    }

    /// The paths below the workspace that calls of this tool may not reach or change.
    pub fn paths(&self, tool: &Tool) -> PathRules {
        let mut kept = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = kept.get(tool.name().as_str()) {
            return rules.clone();
        }
        let globs = self.voices().iter().flat_map(|file| file.settings(tool));
        let mut globs = globs.flat_map(|settings| &settings.deny).peekable();
        let rules = match globs.peek() {
            None => PathRules::protected(),
            // The globs were checked when the file was read; were one broken all the same, nothing is reachable.
            Some(_) => PathRules::protected()
                .deny(globs)
                .unwrap_or_else(|_| PathRules::nothing()),
        };
        kept.insert(tool.name().to_string(), rules.clone());
        rules
    }

    /// All that is set for this tool, under its name and under its aliases.
    pub fn settings<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a ToolSettings> {
        let names = std::iter::once(tool.name()).chain(&tool.aliases);
        names.filter_map(|name| self.tools.get(name.as_str()))
    }

    /// Whether the tool may be listed and called at all.
    pub fn is_enabled(&self, tool: &Tool) -> bool {
        let mut voices = self.voices().iter();
        voices.all(|file| !file.is_off(tool))
    }

    fn is_off(&self, tool: &Tool) -> bool {
        let mut settings = self.settings(tool);
        settings.any(|settings| settings.enabled == Some(false))
    }

    /// The rule that refuses every call of the tool, if there is one.
    pub fn refusal(&self, tool: &Tool) -> Option<Reason> {
        let mut evaluation = Evaluation::default();
        self.evaluate(tool, &mut evaluation);
        let mut reasons = evaluation.reasons().iter();
        reasons
            .find(|reason| reason.decision == Decision::Deny)
            .cloned()
    }

    /// Whether models see it: it can be called, and it is the form of its kind that the profile chooses.
    pub fn is_listed(&self, tool: &Tool) -> bool {
        let hidden: &[&str] = match self.profile {
            Profile::Fine => &COMPACT,
            Profile::Compact => &FINE,
        };
        let other_form = tool.source == Source::BuiltIn && hidden.contains(&tool.name().as_str());
        !other_form && self.refusal(tool).is_none()
    }

    /// The bounds of a call of this tool.
    pub fn limits(&self, tool: &Tool) -> Limits {
        let mut limits = self
            .settings(tool)
            .fold(self.limits, |base, settings| settings.limits.over(base));
        limits.wall = limits.wall.min(self.longest.unwrap_or(Duration::MAX));
        limits
    }

    /// What the layers before the tool's own word say, and whether a person has set its approval.
    pub(crate) fn evaluate(&self, tool: &Tool, evaluation: &mut Evaluation) -> bool {
        let mut any = false;
        for file in self.voices() {
            file.enabled(tool, evaluation);
            file.lists(tool, evaluation);
            any |= file.approval(tool, evaluation);
        }
        any
    }

    fn approval(&self, tool: &Tool, evaluation: &mut Evaluation) -> bool {
        let mut any = false;
        for decision in self.settings(tool).filter_map(|settings| settings.approval) {
            any = true;
            evaluation.push(Reason {
                layer: Layer::ToolApproval,
                decision,
                rule: format!("tools.{}.approval: {}", tool.name(), decision.as_str()),
                source: self.source.clone(),
                text: format!("the config sets `{}` to {}", tool.name(), decision.as_str()),
            });
        }
        any
    }

    fn enabled(&self, tool: &Tool, evaluation: &mut Evaluation) {
        if self.is_off(tool) {
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
            deny(
                format!("policy.deny: [{name}]"),
                format!("`{}` is in the deny list", tool.name()),
            );
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
            let names: Vec<_> = self
                .allow_groups
                .iter()
                .map(|group| group.as_str())
                .collect();
            deny(
                format!("policy.groups.allow: [{}]", names.join(", ")),
                format!(
                    "tools of the group `{}` are not among the allowed groups",
                    group.as_str()
                ),
            );
        }
    }
}

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
    evaluation.push(Reason {
        layer,
        decision,
        rule: format!("{}: {}", tool.name(), decision.as_str()),
        source: source.to_owned(),
        text: text.to_owned(),
    });
}

/// What is not granted is asked for, whatever was said about the tool's own word: a name in a config
/// says nothing about which component answers to it.
pub(crate) fn trust(tool: &Tool, evaluation: &mut Evaluation) {
    let source = tool.origin.location.as_str();
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
