//! Why a policy is refused.

use crate::config::OutOfRange;
use crate::paths::PatternError;

/// A config whose rules cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A glob over paths is none.
    #[error("{place}: {error}")]
    Pattern {
        /// Where it is written.
        place: String,
        /// What is wrong with it.
        error: PatternError,
    },
    /// A bound cannot be held.
    #[error("{place}: {error}")]
    Limit {
        /// Where it is written.
        place: String,
        /// Which, and what could be held.
        error: OutOfRange,
    },
    /// A deny list with an exception, which could lift what another file denies.
    #[error("{place}: `{glob}` is an exception, and a deny list has none; name what is denied")]
    Exception {
        /// Where it is written.
        place: String,
        /// The exception.
        glob: String,
    },
    /// A rule that cannot be read.
    #[error("{place}: {text}")]
    Rule {
        /// Where it is written.
        place: String,
        /// What is wrong with it.
        text: String,
    },
    /// A rule that does not do what its own examples say.
    #[error("{place}: {rule} {fault}: {example}")]
    Example {
        /// Where it is written.
        place: String,
        /// The rule.
        rule: String,
        /// What it should have done and did not.
        fault: &'static str,
        /// The example, as JSON.
        example: String,
    },
}
