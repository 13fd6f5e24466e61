//! Path rules: the protection, the layer, and the text quoted in refusals.

use std::fmt;

/// The protection of a path, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtectionLevel {
    /// Can be read and listed, but not created, changed, removed, renamed or linked.
    ReadOnly,
    /// Cannot be accessed, and is omitted from listings.
    Hidden,
}

/// The layer of a rule, which determines who can lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathRuleLayer {
    /// Built-in rules, which cannot be lifted.
    Protected,
    /// Built-in rules for secret files. A person can lift them for single files by exact path.
    Secrets,
    /// A person's `deny` globs. Only a `!` glob in the same list lifts them.
    Denied,
    /// Names that Windows reads as other names. Only another spelling or name helps.
    WindowsName,
}

impl PathRuleLayer {
    /// The number of layers.
    pub(super) const COUNT: usize = 4;
}

/// A rule with its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    pub(super) text: Box<str>,
    pub(super) protection: ProtectionLevel,
    pub(super) layer: PathRuleLayer,
    /// True for an exception, which lifts earlier rules of the layer.
    pub(super) is_exception: bool,
    /// True if the rule matches only exact paths, and only if they are not directories.
    pub(super) leaf: bool,
}

impl PathRule {
    /// Returns the rule as written, with the `!` of an exception.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true for the rule that hides the folders of skills that are not trusted.
    pub fn is_of_skills(&self) -> bool {
        self.layer == PathRuleLayer::Protected && super::protected::SKILLS.contains(&self.text())
    }

    /// Returns the protection of matching paths.
    pub fn protection(&self) -> ProtectionLevel {
        self.protection
    }

    /// Returns the layer of the rule.
    pub fn layer(&self) -> PathRuleLayer {
        self.layer
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
