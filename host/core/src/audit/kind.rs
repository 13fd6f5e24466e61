//! What can be on record.

use std::fmt;

use serde::Serialize;

/// What happened. The spelling is part of the log's format and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A tool was called, or its call was refused.
    Call,
    /// A person's answer was more than a yes or a no to one call: it was remembered, or other arguments were
    /// put in place.
    Approval,
    /// A person granted a tool what it needs.
    Grant,
    /// A grant or a remembered approval was taken back.
    Revoke,
    /// A gate judged something in the middle of a call: a request, a command, a secret.
    Effect,
    /// The settings or the rules that are in force have changed, or the tools that are there.
    ConfigChange,
    /// A secret was stored.
    SecretSet,
    /// A secret was removed.
    SecretRemoved,
    /// A change to files was taken back.
    Undo,
    /// Something that looks like a secret was let through, because an exception says so.
    RedactionException,
    /// The last line of a file of the log: the next file goes on.
    Rotated,
    /// The log goes on after a crash, or after somebody has changed it.
    Recovered,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Kind; 12] = [
        Kind::Call,
        Kind::Approval,
        Kind::Grant,
        Kind::Revoke,
        Kind::Effect,
        Kind::ConfigChange,
        Kind::SecretSet,
        Kind::SecretRemoved,
        Kind::Undo,
        Kind::RedactionException,
        Kind::Rotated,
        Kind::Recovered,
    ];

    /// Whether the log says it about itself, and nobody else may: readers act on it.
    pub const fn is_own(self) -> bool {
        matches!(self, Kind::Rotated | Kind::Recovered)
    }

    /// The spelling in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Approval => "approval",
            Kind::Grant => "grant",
            Kind::Revoke => "revoke",
            Kind::Effect => "effect",
            Kind::ConfigChange => "config-change",
            Kind::SecretSet => "secret-set",
            Kind::SecretRemoved => "secret-removed",
            Kind::Undo => "undo",
            Kind::RedactionException => "redaction-exception",
            Kind::Rotated => "rotated",
            Kind::Recovered => "recovered",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
