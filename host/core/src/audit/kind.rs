//! The kinds of audit events.

use std::fmt;

use serde::Serialize;

/// The kind of an event. The spelling is part of the log format and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A tool was called, or its call was refused.
    Call,
    /// An attempt of a call failed, and the call is retried.
    Attempt,
    /// A person's answer was stored, or a person edited the arguments of a call.
    Approval,
    /// A person granted the needs of a tool.
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
    /// A person logged in to the console of a server, or was refused.
    ConsoleLogin,
    /// Text that looks like a secret was not masked because of an exception.
    RedactionException,
    /// A planted secret was seen leaving.
    Canary,
    /// The log continues in the next file. Always the last line of a file.
    Rotated,
    /// The log continues after a crash, or after another program has modified it.
    Recovered,
    /// A call is about to take effect. Its outcome follows, also if the process that runs it ends before. Only in the log
    /// of a cluster.
    Announced,
    /// The first line of a writer in the log of a cluster.
    Opened,
    /// The last line of a writer in the log of a cluster.
    Closed,
    /// Exported lines are removed from the log of a cluster.
    Pruned,
}

impl EventKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [EventKind; 19] = [
        EventKind::Call,
        EventKind::Attempt,
        EventKind::Approval,
        EventKind::Grant,
        EventKind::Revoke,
        EventKind::Effect,
        EventKind::ConfigChange,
        EventKind::SecretSet,
        EventKind::SecretRemoved,
        EventKind::Undo,
        EventKind::ConsoleLogin,
        EventKind::RedactionException,
        EventKind::Canary,
        EventKind::Rotated,
        EventKind::Recovered,
        EventKind::Announced,
        EventKind::Opened,
        EventKind::Closed,
        EventKind::Pruned,
    ];

    /// Returns true for kinds that only the log itself may write, because readers act on them.
    pub const fn is_own(self) -> bool {
        matches!(
            self,
            EventKind::Rotated
                | EventKind::Recovered
                | EventKind::Announced
                | EventKind::Opened
                | EventKind::Closed
                | EventKind::Pruned
        )
    }

    /// Returns the spelling in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Call => "call",
            EventKind::Attempt => "attempt",
            EventKind::Approval => "approval",
            EventKind::Grant => "grant",
            EventKind::Revoke => "revoke",
            EventKind::Effect => "effect",
            EventKind::ConfigChange => "config-change",
            EventKind::SecretSet => "secret-set",
            EventKind::SecretRemoved => "secret-removed",
            EventKind::Undo => "undo",
            EventKind::ConsoleLogin => "console-login",
            EventKind::RedactionException => "redaction-exception",
            EventKind::Canary => "canary",
            EventKind::Rotated => "rotated",
            EventKind::Recovered => "recovered",
            EventKind::Announced => "announced",
            EventKind::Opened => "opened",
            EventKind::Closed => "closed",
            EventKind::Pruned => "pruned",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
