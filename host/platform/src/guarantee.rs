//! Guarantees that depend on the operating system and its configuration.

use std::borrow::Cow;
use std::fmt;

/// How far this machine enforces a guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforcement {
    /// The guarantee holds.
    Enforced,
    /// The guarantee holds in part.
    Weaker {
        /// The part that does not hold, and its cause.
        because: Cow<'static, str>,
    },
    /// The guarantee cannot be given; a setting that asks for it is an error.
    Refused {
        /// The cause.
        because: Cow<'static, str>,
    },
}

/// A guarantee, and how far this machine enforces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformGuarantee {
    /// The guarantee in a few words, such as `memory`.
    pub name: &'static str,
    /// How far it is enforced.
    pub enforcement: Enforcement,
}

impl PlatformGuarantee {
    /// Creates a guarantee that holds.
    pub fn enforced(name: &'static str) -> Self {
        let enforcement = Enforcement::Enforced;
        Self { name, enforcement }
    }

    /// Creates a guarantee that holds in part.
    pub fn weaker(name: &'static str, because: impl Into<Cow<'static, str>>) -> Self {
        let because = because.into();
        let enforcement = Enforcement::Weaker { because };
        Self { name, enforcement }
    }

    /// Creates a guarantee that cannot be given.
    pub fn refused(name: &'static str, because: impl Into<Cow<'static, str>>) -> Self {
        let because = because.into();
        let enforcement = Enforcement::Refused { because };
        Self { name, enforcement }
    }

    /// Returns true if the guarantee holds without exception.
    pub fn is_enforced(&self) -> bool {
        self.enforcement == Enforcement::Enforced
    }
}

impl fmt::Display for PlatformGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.enforcement {
            Enforcement::Enforced => write!(f, "{}: enforced", self.name),
            Enforcement::Weaker { because } => write!(f, "{}: {because}", self.name),
            Enforcement::Refused { because } => {
                write!(f, "{}: not available: {because}", self.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarantee_line_names_the_cause() {
        let lines = [
            PlatformGuarantee::enforced("memory"),
            PlatformGuarantee::weaker("memory", "limited for each process only"),
            PlatformGuarantee::refused("memory", "no control group"),
        ];
        assert!(lines[0].is_enforced() && !lines[1].is_enforced() && !lines[2].is_enforced());
        assert_eq!(
            lines.map(|line| line.to_string()),
            [
                "memory: enforced",
                "memory: limited for each process only",
                "memory: not available: no control group"
            ]
        );
    }
}
