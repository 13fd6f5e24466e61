//! The ordered answer to "may this run?", and the answer with its reasons.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{CommandVerdict, Word};

/// What a gate says. The order is the law: the strictest that anyone said wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may run.
    #[serde(alias = "auto", alias = "preApproved")]
    Allow,
    /// A person must say yes first.
    Ask,
    /// It may not run.
    #[serde(alias = "always_deny", alias = "blocked")]
    Deny,
}

impl Decision {
    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// Which layer of the policy a reason comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Anything that a team's policy says.
    TeamPolicy,
    /// `tools.NAME.enabled`.
    Enabled,
    /// The allow and deny lists of tools and groups.
    ToolPolicy,
    /// The approval that a person set for this tool in the config.
    ToolApproval,
    /// `execApprovals`: which commands may run.
    Commands,
    /// Which files no tool may reach or change.
    Paths,
    /// `policy.rules` and `tools.NAME.rules`.
    ArgumentRule,
    /// `tools.NAME.approval.dangerPatterns`.
    Danger,
    /// `tools.NAME.approval.conditions`.
    Condition,
    /// The tool's own judgement of this call.
    Assessor,
    /// The tool's own default.
    ToolDefault,
    /// Whether a person has granted this plugin what it needs.
    Trust,
    /// What the session has read before.
    Taint,
    /// What the settings and the grant say of a host.
    Network,
    /// Secrets: data that leaves the machine and has the form of a secret.
    Secrets,
}

impl Layer {
    /// Whether what it says holds for the tool or the session, and not for what is in the arguments.
    pub(crate) fn is_about_the_tool(self) -> bool {
        matches!(
            self,
            Layer::ToolApproval | Layer::ToolDefault | Layer::Trust | Layer::Taint
        )
    }
}

/// One rule that spoke: what it said and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Where in the order of layers it stands.
    pub layer: Layer,
    /// What this rule alone says.
    pub decision: Decision,
    /// The rule in its own spelling, such as `deny: [browser]`.
    pub rule: String,
    /// Where the rule is written, such as `.mimir/config.yml`.
    pub source: String,
    /// One plain sentence.
    pub text: String,
}

impl Reason {
    /// Where the rule is written, or its name, where it is the same wherever it stands.
    pub fn place(&self) -> &str {
        match self.source.as_str() {
            "" => &self.rule,
            source => source,
        }
    }

    /// The same without a word that strangers have chosen.
    fn told(&self) -> Self {
        let text = match self.layer {
            Layer::Assessor => "the tool could not judge this call".to_owned(),
            Layer::Trust => "nobody has granted what this plugin needs as it is now".to_owned(),
            _ => format!(
                "this project's settings say {}; the reason in the file is not shown before the file is accepted",
                self.decision.as_str()
            ),
        };
        let mut told = self.without_place();
        told.text = text;
        // What comes behind the key is a name, a pattern or a list.
        let end = told.rule.find([' ', ':']).unwrap_or(told.rule.len());
        if !told.is_the_tools() {
            told.rule.truncate(end);
        }
        told
    }

    /// The name of a component's file is chosen by whoever made it.
    fn without_place(&self) -> Self {
        let mut told = self.clone();
        if self.is_the_tools() {
            told.source = "the tool".to_owned();
        }
        told
    }

    fn is_the_tools(&self) -> bool {
        matches!(
            self.layer,
            Layer::Assessor | Layer::ToolDefault | Layer::Trust
        )
    }
}

/// Why what a file allows does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// It does when a person accepts the file.
    Unaccepted,
    /// It never does: what the file says is to narrow others.
    Narrowed,
}

impl Withheld {
    fn words(self) -> &'static str {
        match self {
            Self::Unaccepted => "it does not count: nobody has accepted the file",
            Self::Narrowed => "a worker may do nothing that its caller may not",
        }
    }
}

/// Where what mimir itself says of commands stands: no file has this place.
pub(crate) const OURS: &str = "mimir";

/// What a rule judged by, as far as a remembered answer has to know it. It is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Basis {
    /// Names what the rule says, where its name and its words do not: another rule may come to stand in its
    /// place.
    pub(crate) content: Option<Arc<str>>,
    /// The arguments that it looks at.
    pub(crate) reads: Reads,
    /// Whether it would allow, and does not count before a person has accepted its file.
    pub(crate) withheld: bool,
    /// Whether its words are neither mimir's nor those of somebody whom the person has accepted.
    pub(crate) strange: bool,
    /// The exact line or command that lets it, where the rule's name alone does not say.
    pub(crate) way: Option<Arc<str>>,
    /// If it asks about one simple command and a person can say yes to all that are like it: to which.
    pub(crate) offer: Option<Arc<Offer>>,
    /// True if it asks about the origin and the method of a request alone, so that a yes holds for every URL there.
    pub(crate) per_origin: bool,
}

/// Commands that a person can say yes to at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The command that is asked about.
    pub(crate) words: Vec<Word>,
    /// The pattern that "always" stores, which covers it.
    pub(crate) pattern: String,
    /// The files of the workspace that it runs; an empty path is one that is not known.
    pub(crate) code: Vec<String>,
    /// Whether it runs what the project says, in files that are named nowhere.
    pub(crate) builds: bool,
}

/// The arguments that a rule looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Reads {
    /// Any of them: what is not known to be narrower.
    #[default]
    Everything,
    /// These, by name.
    Only(Arc<[String]>),
}

impl Reads {
    /// None: the rule is about the tool, or about what the call does as a whole.
    pub(crate) fn nothing() -> Self {
        Reads::Only(Arc::default())
    }

    fn includes(&self, argument: &str) -> bool {
        match self {
            Reads::Everything => true,
            Reads::Only(names) => names.iter().any(|name| name == argument),
        }
    }
}

impl From<Reads> for Basis {
    fn from(reads: Reads) -> Self {
        Self {
            reads,
            ..Self::default()
        }
    }
}

/// A decision with every rule that spoke. With no rule at all the answer is `ask`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Evaluation {
    reasons: Vec<Reason>,
    /// What was said of each simple command, if the call runs some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<CommandVerdict>,
    /// One for each reason.
    #[serde(skip)]
    bases: Vec<Basis>,
    /// Files of the workspace that the call runs.
    #[serde(skip)]
    code: Vec<String>,
}

impl Evaluation {
    /// Adds what one rule says.
    pub fn push(&mut self, reason: Reason) {
        self.push_from(reason, Basis::default());
    }

    /// Adds what one rule says, and what it judged by.
    pub(crate) fn push_from(&mut self, reason: Reason, basis: Basis) {
        self.reasons.push(reason);
        self.bases.push(basis);
    }

    /// Adds what one rule says in the words of strangers, which a model does not get to read as mimir's.
    pub(crate) fn push_strange(&mut self, reason: Reason) {
        self.push_strange_from(reason, Basis::default());
    }

    /// The same, and what it judged by.
    pub(crate) fn push_strange_from(&mut self, reason: Reason, basis: Basis) {
        let strange = true;
        self.push_from(reason, Basis { strange, ..basis });
    }

    /// Says that the words of the reasons from the one numbered `from` are those of strangers.
    pub(crate) fn estrange(&mut self, from: usize) {
        for basis in self.bases.iter_mut().skip(from) {
            basis.strange = true;
        }
    }

    /// The same in words that can be handed to a model as mimir's own. A person reads what is really written.
    #[must_use]
    pub fn told(&self) -> Self {
        let told = |(reason, basis): (&Reason, &Basis)| match basis.strange {
            true => reason.told(),
            false => reason.without_place(),
        };
        Self {
            reasons: self.reasons.iter().zip(&self.bases).map(told).collect(),
            bases: self.bases.clone(),
            commands: self.commands.clone(),
            code: self.code.clone(),
        }
    }

    /// Adds files of the workspace that the call runs, by their paths; an empty one is not known.
    pub(crate) fn run(&mut self, code: &[String]) {
        self.code.extend_from_slice(code);
    }

    /// The files of the workspace that the call runs.
    pub(crate) fn code(&self) -> impl Iterator<Item = &String> {
        self.code.iter()
    }

    /// Says of each `allow` from the one numbered `from` that it does not count, and why.
    pub(crate) fn withhold(&mut self, from: usize, why: Withheld) {
        let both = self.reasons.iter_mut().zip(&mut self.bases);
        for (reason, basis) in both.skip(from) {
            if reason.decision == Decision::Allow {
                reason.text = format!("{} ({})", reason.text, why.words());
                basis.withheld = why == Withheld::Unaccepted;
            }
        }
    }

    /// Adds what others have said after this.
    pub(crate) fn append(&mut self, mut later: Evaluation) {
        self.reasons.append(&mut later.reasons);
        self.bases.append(&mut later.bases);
        self.commands.append(&mut later.commands);
        self.code.append(&mut later.code);
    }

    /// Adds what others have said after this, and was not said before.
    pub(crate) fn append_new(&mut self, later: Evaluation) {
        for (reason, basis) in later.reasons.into_iter().zip(later.bases) {
            if !self.reasons.contains(&reason) {
                self.push_from(reason, basis);
            }
        }
    }

    /// Leaves out the questions that were answered before.
    pub(crate) fn settle(&mut self, answered: impl Fn(&Reason) -> bool) {
        let both = self.reasons.drain(..).zip(self.bases.drain(..));
        let left = both
            .filter(|(reason, _)| reason.decision != Decision::Ask || !answered(reason))
            .collect::<Vec<_>>();
        (self.reasons, self.bases) = left.into_iter().unzip();
    }

    /// Says that the reasons from the one numbered `from` are a team's.
    pub(crate) fn sign_team(&mut self, from: usize) {
        for reason in self.reasons.iter_mut().skip(from) {
            reason.layer = Layer::TeamPolicy;
        }
    }

    /// Masks what is secret in the words.
    pub(crate) fn mask(&mut self, redactor: &crate::redact::Redactor) {
        for reason in &mut self.reasons {
            // Of most reasons only the text is not mimir's own words, and there are many of a long script.
            if reason.source == OURS {
                redactor.text(&mut reason.text);
                redactor.text(&mut reason.rule);
            } else {
                redactor.parts([&mut reason.text, &mut reason.rule, &mut reason.source]);
            }
        }
        for verdict in &mut self.commands {
            redactor.parts([&mut verdict.command, &mut verdict.rule, &mut verdict.why]);
        }
    }

    /// Adds what was said of one simple command.
    pub(crate) fn note(&mut self, verdict: CommandVerdict) {
        match self
            .commands
            .iter_mut()
            .find(|one| one.span == verdict.span && one.command == verdict.command)
        {
            Some(known) if known.decision >= verdict.decision => {}
            Some(known) => *known = verdict,
            None => self.commands.push(verdict),
        }
    }

    /// What was said of each simple command, in the order of the text; none if the call runs no commands.
    pub fn commands(&self) -> &[CommandVerdict] {
        &self.commands
    }

    /// Whether a danger pattern spoke.
    pub(crate) fn is_dangerous(&self) -> bool {
        self.asking().any(|reason| reason.layer == Layer::Danger)
    }

    /// The strictest that any rule said.
    pub fn decision(&self) -> Decision {
        self.reasons
            .iter()
            .map(|reason| reason.decision)
            .max()
            .unwrap_or(Decision::Ask)
    }

    /// Every rule that spoke, in the order of the layers.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// The rules that say a person must be asked.
    pub fn asking(&self) -> impl Iterator<Item = &Reason> {
        let reasons = self.reasons.iter();
        reasons.filter(|reason| reason.decision == Decision::Ask)
    }

    /// The rules that say a person must be asked, each with what it judged by.
    pub(crate) fn asking_from(&self) -> impl Iterator<Item = (&Reason, &Basis)> {
        let both = self.reasons.iter().zip(&self.bases);
        both.filter(|(reason, _)| reason.decision == Decision::Ask)
    }

    /// The reasons of a decision, each with what it judged by.
    pub(crate) fn of_decision(
        &self,
        decision: Decision,
    ) -> impl Iterator<Item = (&Reason, &Basis)> {
        let both = self.reasons.iter().zip(&self.bases);
        both.filter(move |(reason, _)| reason.decision == decision)
    }

    /// Returns true if all questions are about the origin and the method of a request.
    pub(crate) fn asks_per_origin(&self) -> bool {
        let mut asking = self.asking_from().peekable();
        asking.peek().is_some() && asking.all(|(_, basis)| basis.per_origin)
    }

    /// The evaluation reduced to the questions about a host that is on no list.
    pub(crate) fn about_host(&self) -> Self {
        let mut about = Self::default();
        for (reason, basis) in self.asking_from() {
            if basis.per_origin && reason.layer == Layer::Network {
                about.push_from(reason.clone(), basis.clone());
            }
        }
        about
    }

    /// Whether what is asked about could lie in this argument.
    pub(crate) fn asks_about(&self, argument: &str) -> bool {
        let mut asking = self.asking_from();
        asking.any(|(_, basis)| basis.reads.includes(argument))
    }

    /// The rules that would allow, and do not count before a person has accepted their file.
    pub(crate) fn withheld(&self) -> impl Iterator<Item = &Reason> {
        let both = self.reasons.iter().zip(&self.bases);
        let withheld = both.filter(|(_, basis)| basis.withheld);
        withheld.map(|(reason, _)| reason)
    }

    /// The first rule whose word became the decision.
    pub fn decisive(&self) -> Option<&Reason> {
        let decision = self.decision();
        self.reasons
            .iter()
            .find(|reason| reason.decision == decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(decision: Decision) -> Reason {
        Reason {
            layer: Layer::ToolDefault,
            decision,
            rule: String::new(),
            source: String::new(),
            text: decision.as_str().to_owned(),
        }
    }

    #[test]
    fn strictest_wins_in_any_order() {
        let mut evaluation = Evaluation::default();
        assert_eq!(evaluation.decision(), Decision::Ask, "silence asks");
        evaluation.push(reason(Decision::Allow));
        assert_eq!(evaluation.decision(), Decision::Allow);
        evaluation.push(reason(Decision::Deny));
        evaluation.push(reason(Decision::Ask));
        assert_eq!(evaluation.decision(), Decision::Deny);
        assert_eq!(evaluation.decisive().map(|r| r.text.as_str()), Some("deny"));
    }

    #[test]
    fn seed_spellings_are_read() {
        for (text, decision) in [
            ("auto", Decision::Allow),
            ("preApproved", Decision::Allow),
            ("ask", Decision::Ask),
            ("always_deny", Decision::Deny),
            ("blocked", Decision::Deny),
        ] {
            let read: Decision = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read, decision);
        }
    }
}
