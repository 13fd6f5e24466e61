//! One path rule: its protection, its layer, and the text that a refusal quotes.

use std::fmt;

/// The protection of a path, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtectionLevel {
    /// May be read and listed; never created, changed, removed, renamed or linked.
    ReadOnly,
    /// No access at all; listings omit it.
    Hidden,
}

/// The layer of a rule, which determines who can lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathRuleLayer {
    /// Always on; cannot be lifted.
    Protected,
    /// Files that hold secrets; a person lifts one by its exact path.
    Secrets,
    /// A person's `deny` globs; only a `!` glob of the same list lifts one.
    Denied,
}

impl PathRuleLayer {
    /// The number of layers.
    pub(super) const COUNT: usize = 3;
}

/// A rule with its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    pub(super) text: Box<str>,
    pub(super) protection: ProtectionLevel,
    pub(super) layer: PathRuleLayer,
    /// True for an exception, which lifts earlier rules of its layer.
    pub(super) is_exception: bool,
    /// True if it matches only the exact path, and only if that is not a directory.
    pub(super) leaf: bool,
}

impl PathRule {
    /// The original text of the rule, with the `!` of an exception.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The protection of matching paths.
    pub fn protection(&self) -> ProtectionLevel {
        self.protection
    }

    /// The layer of the rule.
    pub fn layer(&self) -> PathRuleLayer {
        self.layer
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
