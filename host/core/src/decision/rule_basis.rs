//! Facts that a stored approval depends on, beside the name and the text of a rule.

use std::sync::Arc;

use crate::command::ShellWord;

/// The inputs of a rule, as far as a stored approval depends on them. Never shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleBasis {
    /// Identifies the content of the rule if its name and text do not: another rule may take its place later.
    pub(crate) content: Option<Arc<str>>,
    /// The arguments that it reads.
    pub(crate) reads: RuleArguments,
    /// True for an `allow` that does not count until a person accepts its file.
    pub(crate) withheld: bool,
    /// True if the text comes from an unaccepted (untrusted) source.
    pub(crate) untrusted_text: bool,
    /// The exact line or command that would allow it, if the rule's name alone does not tell.
    pub(crate) remedy: Option<Arc<str>>,
    /// For a question about one simple command that can be approved for all similar ones: these commands.
    pub(crate) offer: Option<Arc<ApprovalOffer>>,
    /// True if it asks about the origin and the method of a request alone, so that an approval covers every URL there.
    pub(crate) per_origin: bool,
}

/// A set of commands that a person can approve at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalOffer {
    /// The command in question.
    pub(crate) words: Vec<ShellWord>,
    /// The pattern that "always" stores; it covers the command.
    pub(crate) pattern: String,
    /// The workspace files that it executes; an empty path stands for an unknown file.
    pub(crate) code: Vec<String>,
    /// True if it runs code of the project from files that are not named anywhere.
    pub(crate) builds: bool,
}

/// The arguments that a rule looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum RuleArguments {
    /// Any of them, unless a narrower set is known.
    #[default]
    Everything,
    /// These, by name.
    Only(Arc<[String]>),
}

impl RuleArguments {
    /// No arguments: the rule is about the tool, or about the effects of the call as a whole.
    pub(crate) fn none() -> Self {
        RuleArguments::Only(Arc::default())
    }

    pub(super) fn includes(&self, argument: &str) -> bool {
        match self {
            RuleArguments::Everything => true,
            RuleArguments::Only(names) => names.iter().any(|name| name == argument),
        }
    }
}

impl From<RuleArguments> for RuleBasis {
    fn from(reads: RuleArguments) -> Self {
        Self {
            reads,
            ..Self::default()
        }
    }
}
