//! Errors in a policy.

use crate::config::OutOfRangeError;
use crate::paths::PathPatternError;

/// An invalid rule or setting in a policy file.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// An invalid path pattern.
    #[error("{location}: {error}")]
    Pattern {
        /// The location in the file.
        location: String,
        /// The fault.
        error: PathPatternError,
    },
    /// A limit out of range.
    #[error("{location}: {error}")]
    Limit {
        /// The location in the file.
        location: String,
        /// The limit with its range.
        error: OutOfRangeError,
    },
    /// An exception in a deny list. Exceptions are refused because they could lift the denial of another file.
    #[error(
        "{location}: `{glob}`: exceptions with `!` are not supported in deny lists; list the paths to deny"
    )]
    Exception {
        /// The location in the file.
        location: String,
        /// The pattern with `!`.
        glob: String,
    },
    /// An invalid rule.
    #[error("{location}: {text}")]
    Rule {
        /// The location in the file.
        location: String,
        /// The fault.
        text: String,
    },
    /// A rule that contradicts its own examples.
    #[error("{location}: {rule} {fault}: {example}")]
    Example {
        /// The location in the file.
        location: String,
        /// The rule.
        rule: String,
        /// The contradiction.
        fault: &'static str,
        /// The example, as JSON.
        example: String,
    },
}
