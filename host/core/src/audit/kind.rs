//! The kinds of audit events.

use std::fmt;

use serde::Serialize;

/// The kind of an event. The spelling is part of the log's format and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
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

impl EventKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [EventKind; 12] = [
        EventKind::Call,
        EventKind::Approval,
        EventKind::Grant,
        EventKind::Revoke,
        EventKind::Effect,
        EventKind::ConfigChange,
        EventKind::SecretSet,
        EventKind::SecretRemoved,
        EventKind::Undo,
        EventKind::RedactionException,
        EventKind::Rotated,
        EventKind::Recovered,
    ];

    /// Returns true for kinds that only the log itself may write: readers act on them.
    pub const fn is_own(self) -> bool {
        matches!(self, EventKind::Rotated | EventKind::Recovered)
    }

    /// The spelling in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Call => "call",
            EventKind::Approval => "approval",
            EventKind::Grant => "grant",
            EventKind::Revoke => "revoke",
            EventKind::Effect => "effect",
            EventKind::ConfigChange => "config-change",
            EventKind::SecretSet => "secret-set",
            EventKind::SecretRemoved => "secret-removed",
            EventKind::Undo => "undo",
            EventKind::RedactionException => "redaction-exception",
            EventKind::Rotated => "rotated",
            EventKind::Recovered => "recovered",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
