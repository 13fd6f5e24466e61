//! The verdict of the network policy on a request or an address, with the rule behind it.

use std::fmt;

use super::pattern::HostPattern;

/// The verdict on a request, in the order of strictness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkVerdict<'p> {
    /// Allowed if its addresses are allowed, too. Has the list entry that allows the request, if any.
    Allowed(Option<&'p HostPattern>),
    /// Neither listed nor forbidden. A person may approve the request.
    Unlisted(NetworkRefusal),
    /// Forbidden. A person cannot approve the request.
    Refused(NetworkRefusal),
}

impl NetworkVerdict<'_> {
    /// Returns true if the request may be sent.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Returns the refusal, if any.
    pub fn refusal(&self) -> Option<&NetworkRefusal> {
        match self {
            Self::Allowed(_) => None,
            Self::Unlisted(refusal) | Self::Refused(refusal) => Some(refusal),
        }
    }

    /// Returns the stricter of two verdicts; `self` if they are equally strict.
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

/// Reason why a request is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRefusal {
    /// The key of the rule, such as `network.blockedPorts`.
    pub rule: String,
    /// One sentence, without a full stop.
    pub reason: String,
    /// The remedy, without a full stop; may be empty.
    pub remedy: String,
}

impl fmt::Display for NetworkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.rule)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for NetworkRefusal {}
