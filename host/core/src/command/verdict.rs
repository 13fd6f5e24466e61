//! What was said of one simple command of a program.

use serde::Serialize;

use crate::decision::Decision;

/// The strictest word about one simple command, and the first rule that said it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandVerdict {
    /// The command as a person reads it.
    pub command: String,
    /// What becomes of it.
    pub decision: Decision,
    /// The rule, in its own spelling.
    pub rule: String,
    /// Why, in one sentence.
    pub why: String,
    /// Where it stands in the text, in bytes: from, and up to.
    pub span: (usize, usize),
}
