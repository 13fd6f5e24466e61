//! The kinds of audit events.

use std::fmt;

use serde::Serialize;

/// The kind of an event. The spelling is part of the log's format and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A tool was called, or its call was refused.
    Call,
    /// A person's answer with an effect beyond a yes or a no to one call: it was stored, or the arguments were edited.
    Approval,
    /// A person granted a tool what it needs.
    Grant,
    /// A grant or a stored approval was revoked.
    Revoke,
    /// An effect of a running call was checked: a request, a command, a secret.
    Effect,
    /// The active settings, rules or tools have changed.
    ConfigChange,
    /// A secret was stored.
    SecretSet,
    /// A secret was removed.
    SecretRemoved,
    /// A change to files was undone.
    Undo,
    /// Text that looks like a secret was let through because of an exception.
    RedactionException,
    /// The last line of a log file: the log continues in the next file.
    Rotated,
    /// The log continues after a crash, or after it was modified from outside.
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

    /// Returns true for kinds that only the log itself may write: readers act on them.
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
