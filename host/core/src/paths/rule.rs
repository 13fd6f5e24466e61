//! One rule: what it shields, who put it there, and the words that a refusal quotes.

use std::fmt;

/// How far a rule closes a path. Ordered: the later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shield {
    /// May be read and listed; never created, changed, removed, renamed or linked.
    ReadOnly,
    /// No operation at all, and lists leave it out.
    Hidden,
}

/// Who put a rule there, and so who can lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Always on, lifted by nobody.
    Protected,
    /// Files that hold secrets; a person lifts one by its exact path.
    Secrets,
    /// A person's `deny` globs; only a `!` glob of the same list lifts one.
    Denied,
}

impl Layer {
    /// How many layers there are.
    pub(super) const COUNT: usize = 3;
}

/// A rule with the text that it was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(super) text: Box<str>,
    pub(super) shield: Shield,
    pub(super) layer: Layer,
    /// Whether it is an exception: what it matches is lifted from earlier rules of its layer.
    pub(super) lifts: bool,
    /// Whether it speaks only of the very path, and only when that is not a directory.
    pub(super) leaf: bool,
}

impl Rule {
    /// The text of the rule as it was written, with its `!` if it is an exception.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it does to the paths that it matches.
    pub fn shield(&self) -> Shield {
        self.shield
    }

    /// Who put it there.
    pub fn layer(&self) -> Layer {
        self.layer
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
