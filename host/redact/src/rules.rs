//! The rules as tables: gitleaks' and a few of our own. Nothing is compiled here.

use super::REACH;
use super::own::OWN;

/// How a rule is found once one of its anchors is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A match begins at the anchor, behind the lead.
    Here(Lead),
    /// A match is somewhere around the anchor: so many bytes before its start and after its end.
    Around {
        /// Bytes before the anchor's start.
        before: usize,
        /// Bytes after the anchor's end.
        after: usize,
    },
}

/// What has to stand before an anchor that begins a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// Anything.
    Free,
    /// A word boundary.
    Word,
    /// The beginning of an identifier, which belongs to the match; behind it an assignment.
    Identifier,
}

/// What an allow-list looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The secret.
    Secret,
    /// All that the rule matched.
    Match,
    /// The lines in which it did.
    Line,
}

/// What is no secret although a rule says so.
#[derive(Debug)]
pub(super) struct Allow {
    /// What the expression is held against.
    pub target: Target,
    /// No expression if empty.
    pub regex: &'static str,
    /// Whether a word of `stopwords.txt` in the secret excuses it.
    pub stopwords: bool,
}

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its name; rules that begin in more than one way have an entry for each.
    pub id: &'static str,
    /// Words to look for, in lower case.
    pub anchors: &'static [&'static str],
    /// A word that must be somewhere in the text as well, if not empty.
    pub gate: &'static str,
    /// How to go on from an anchor.
    pub shape: Shape,
    /// The longest match in bytes, of a rule that is found where its anchor is.
    pub width: usize,
    /// What it matches. The first group that takes part is the secret; without one, everything is.
    pub regex: &'static str,
    /// What may follow a secret and is another, if not empty.
    pub more: &'static str,
    /// Secrets have more bits per byte than this.
    pub entropy: f64,
    /// What it lets pass.
    pub allow: &'static [Allow],
}

/// gitleaks' file.
pub(super) struct Table {
    /// Its rules.
    pub rules: &'static [Rule],
    /// What all rules let pass.
    pub allow: Allow,
    /// Secrets with one of these inside pass.
    pub stopwords: &'static [&'static str],
}

pub(super) const RULE: Rule = Rule {
    id: "",
    anchors: &[],
    gate: "",
    shape: Shape::Here(Lead::Free),
    width: 0,
    regex: "",
    more: "",
    entropy: 0.0,
    allow: &[],
};

pub(super) const ALLOW: Allow = Allow {
    target: Target::Secret,
    regex: "",
    stopwords: false,
};

/// gitleaks' rules.
pub(super) static GITLEAKS: Table = include!("gitleaks/rules.rs.in");

/// All rules, gitleaks' first.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    GITLEAKS.rules.iter().chain(OWN)
}
