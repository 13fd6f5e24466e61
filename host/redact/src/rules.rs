//! The tables of rules: gitleaks' and mimir's own.

use super::REACH;
use super::own_rules::OWN;

/// The search method of a rule, once one of its anchors is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnchorPosition {
    /// A match begins at the anchor, with this text before it.
    Here(AnchorPrefix),
    /// A match is somewhere around the anchor, within these distances.
    Around {
        /// Bytes before the anchor's start.
        before: usize,
        /// Bytes after the anchor's end.
        after: usize,
    },
}

/// The required text before an anchor that begins a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnchorPrefix {
    /// Anything.
    Free,
    /// A word boundary.
    Word,
    /// The beginning of an identifier, which belongs to the match; an assignment follows.
    Identifier,
}

/// The text to which an allow list applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowTarget {
    /// The secret.
    Secret,
    /// The whole match.
    Match,
    /// The lines that contain the match.
    Line,
}

/// An exception from a rule.
#[derive(Debug)]
pub(super) struct AllowEntry {
    /// The text to which the expression applies.
    pub target: AllowTarget,
    /// The expression, or an empty string.
    pub regex: &'static str,
    /// True if a word of `stopwords.txt` in the secret excludes the match.
    pub stopwords: bool,
}

/// A rule.
#[derive(Debug)]
pub(super) struct SecretRule {
    /// Name of the rule. A rule with several kinds of beginnings has several entries.
    pub id: &'static str,
    /// Words in lower case for which the text is scanned: the rule is tried only at their positions.
    pub anchors: &'static [&'static str],
    /// A word that must also occur somewhere in the text, or an empty string.
    pub required_word: &'static str,
    /// The search method once an anchor is found.
    pub position: AnchorPosition,
    /// Maximum length of a match in bytes, for a rule that matches at its anchor.
    pub width: usize,
    /// The expression. The first group that matches is the secret, or the whole match without groups.
    pub regex: &'static str,
    /// An expression for further secrets after the first one, or an empty string.
    pub following: &'static str,
    /// Minimum entropy of a secret in bits per byte, exclusive.
    pub entropy: f64,
    /// The exceptions.
    pub allow: &'static [AllowEntry],
}

/// A table of rules, with exceptions for all of them.
pub(super) struct RuleTable {
    /// The rules.
    pub rules: &'static [SecretRule],
    /// The exceptions for all rules.
    pub allow: AllowEntry,
    /// Secrets that contain one of these are excluded.
    pub stopwords: &'static [&'static str],
}

pub(super) const RULE: SecretRule = SecretRule {
    id: "",
    anchors: &[],
    required_word: "",
    position: AnchorPosition::Here(AnchorPrefix::Free),
    width: 0,
    regex: "",
    following: "",
    entropy: 0.0,
    allow: &[],
};

pub(super) const ALLOW: AllowEntry = AllowEntry {
    target: AllowTarget::Secret,
    regex: "",
    stopwords: false,
};

/// gitleaks' rules.
pub(super) static GITLEAKS: RuleTable = include!("gitleaks/rules.rs.in");

/// All rules, gitleaks' first.
pub(super) fn all() -> impl Iterator<Item = &'static SecretRule> {
    GITLEAKS.rules.iter().chain(OWN)
}
