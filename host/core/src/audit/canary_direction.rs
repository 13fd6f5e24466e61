//! The ways on which a canary secret was seen leaving.

use std::fmt;

use serde::Serialize;

/// The way on which a canary secret was seen: a planted value that no tool has a reason to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryDirection {
    /// In the arguments of a call.
    Arguments,
    /// In a request of a tool to another host.
    Request,
    /// In a command of a tool.
    Command,
    /// In a tool's question to the language model.
    Prompt,
    /// In the result, the progress or the log of a call, where it was masked.
    Result,
}

impl CanaryDirection {
    /// Returns the spelling in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            CanaryDirection::Arguments => "arguments",
            CanaryDirection::Request => "request",
            CanaryDirection::Command => "command",
            CanaryDirection::Prompt => "prompt",
            CanaryDirection::Result => "result",
        }
    }

    /// Returns the description of an alarm, one sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            CanaryDirection::Arguments => {
                "the arguments of a call contained a canary; the call was not made"
            }
            CanaryDirection::Request => "a request contained a canary; it was not sent",
            CanaryDirection::Command => "a command contained a canary; it was not run",
            CanaryDirection::Prompt => {
                "a question to the model contained a canary; it was not sent"
            }
            CanaryDirection::Result => "the output of a call contained a canary, which was masked",
        }
    }
}

impl fmt::Display for CanaryDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
