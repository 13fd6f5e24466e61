//! The verdict on one simple command of a program.

use serde::{Deserialize, Serialize};

use crate::decision::Decision;

/// The strictest decision on one simple command, and the first rule with that decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandVerdict {
    /// The command, for display.
    pub command: String,
    /// The decision.
    pub decision: Decision,
    /// The rule, in its original spelling.
    pub rule: String,
    /// The reason, in one sentence.
    pub why: String,
    /// The byte range of the command in the program text: start and end.
    pub span: (usize, usize),
}
