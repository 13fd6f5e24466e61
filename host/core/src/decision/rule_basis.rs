//! The properties of a rule, besides its name and text, that a stored approval depends on.

use std::sync::Arc;

use crate::command::ShellWord;

/// The properties of a rule that stored approvals and remedies depend on. Never shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleBasis {
    /// A digest of the rule's content, if name and text do not identify the rule: another rule may have them later.
    pub(crate) content: Option<Arc<str>>,
    /// The arguments that the rule reads.
    pub(crate) reads: RuleArguments,
    /// True for an `allow` that does not count until a person accepts its file.
    pub(crate) withheld: bool,
    /// True if the text comes from an untrusted source, such as an unaccepted file or a tool.
    pub(crate) untrusted_text: bool,
    /// The exact setting or command that would allow the call, if it does not follow from the rule's name.
    pub(crate) remedy: Option<Arc<str>>,
    /// The similar commands that an approval can cover, if the rule asks about one simple command.
    pub(crate) offer: Option<Arc<ApprovalOffer>>,
    /// True if the rule depends only on the origin and method of a request, so that an approval covers all its URLs.
    pub(crate) per_origin: bool,
    /// True if an approval covers only this call, and is never stored.
    pub(crate) each_time: bool,
}

/// A set of commands that a person can approve at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalOffer {
    /// The command in question.
    pub(crate) words: Vec<ShellWord>,
    /// The pattern that the answer "always" stores. It covers the command.
    pub(crate) pattern: String,
    /// The workspace files that the command executes. An empty path means an unknown file.
    pub(crate) code: Vec<String>,
    /// True if the command runs project code from files that it does not name, as `make` does.
    pub(crate) builds: bool,
}

/// The arguments that a rule reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum RuleArguments {
    /// Possibly all arguments.
    #[default]
    Everything,
    /// Only the arguments with these names.
    Only(Arc<[String]>),
}

impl RuleArguments {
    /// Returns an empty set, for a rule about the tool or about the effects of the call as a whole.
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
