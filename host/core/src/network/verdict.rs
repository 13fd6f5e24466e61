//! What the policy says of a request or an address, with the rule that said it.

use std::fmt;

use super::pattern::HostPattern;

/// What the policy says of a request. In the order of strictness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// It may be sent, as far as its addresses allow. With the entry that lets it, where one was needed.
    Allowed(Option<&'p HostPattern>),
    /// No entry lets it, and none forbids it: a person may say yes to this request.
    Unlisted(Refusal),
    /// It may not be sent, whatever a person says now.
    Refused(Refusal),
}

impl Verdict<'_> {
    /// Whether it may be sent.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Why not.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Allowed(_) => None,
            Self::Unlisted(refusal) | Self::Refused(refusal) => Some(refusal),
        }
    }

    /// The stricter of two. Of two that are equally strict, the first.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Allowed(_) => 0,
            Self::Unlisted(_) => 1,
            Self::Refused(_) => 2,
        };
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

/// Why a request is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The key that says so, such as `network.blockedPorts`.
    pub rule: String,
    /// One sentence, without a dot at its end.
    pub reason: String,
    /// What would let it, without a dot at its end; nothing does, where this is empty.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.rule)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
