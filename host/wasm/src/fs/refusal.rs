//! Reasons for refused operations, with messages for the user.

use super::wasi_types;
use mimir_core::ToolErrorCode;
use mimir_core::paths::{PathRule, PathRuleLayer, ProtectionLevel};
use std::fmt;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// A refused operation: the path and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRefusal {
    /// Path from the workspace root; as written by the guest if it leads outside.
    pub path: String,
    /// The reason.
    pub cause: RefusalCause,
}

/// Reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalCause {
    /// A rule protects the path.
    Rule(PathRule),
    /// A rule protects an existing or future path below it, and the operation would circumvent the rule.
    Below(PathRule),
    /// The path leads out of the granted directory.
    Outside,
    /// The link climbs (`..`) after a name, which may be or become a link itself.
    ClimbsAfterName,
    /// The directory was granted for reading only.
    ReadOnlyMount,
    /// The object is neither a file nor a directory.
    NotAFile,
    /// A link in a directory that would move leads out of the granted directory from there, or may.
    LinkWouldEscape,
    /// A directory to be moved could not be searched completely for such links.
    NotScanned,
    /// The system does not permit listing or removing the contents of the directory.
    NotEmptied,
    /// The directory has too many entries to check that all of them may be removed.
    TooMuchToEmpty,
    /// The directory was moved or replaced since it was opened, so the target of the link is unknown.
    Displaced,
    /// The original could not be recorded, so the change could not be undone.
    NotRecorded {
        /// The reason.
        why: String,
        /// Hint on how to make the change anyway.
        remedy: &'static str,
        /// The code of the failure.
        code: ToolErrorCode,
    },
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "."
        } else {
            &self.path
        };
        match &self.cause {
            RefusalCause::Rule(rule) if rule.protection() == ProtectionLevel::ReadOnly => {
                write!(f, "`{path}` is read-only by the rule `{rule}`")
            }
            RefusalCause::Rule(rule) if rule.layer() == PathRuleLayer::WindowsName => {
                write!(f, "`{path}` is not usable as a path: {rule}")
            }
            RefusalCause::Rule(rule) => write!(f, "`{path}` is hidden by the rule `{rule}`"),
            RefusalCause::Below(rule) => write!(
                f,
                "`{path}` contains or would contain a path protected by the rule `{rule}`"
            ),
            RefusalCause::Outside => write!(f, "`{path}` leads out of the granted directory"),
            RefusalCause::ClimbsAfterName => write!(
                f,
                "`{path}` has `..` after a name, so the target of the link is uncertain; put every `..` first"
            ),
            RefusalCause::ReadOnlyMount => write!(
                f,
                "`{path}` is in a directory that was granted for reading only"
            ),
            RefusalCause::NotAFile => write!(f, "`{path}` is neither a file nor a directory"),
            RefusalCause::LinkWouldEscape => write!(
                f,
                "after the move the link `{path}` could lead out of the granted directory; change or remove it first"
            ),
            RefusalCause::NotScanned => write!(
                f,
                "`{path}` has too many entries, or cannot be read, to search for links that would lead out of the granted directory after the move; move its entries separately"
            ),
            RefusalCause::NotEmptied => write!(
                f,
                "the permissions of `{path}` do not allow removing its entries"
            ),
            RefusalCause::TooMuchToEmpty => write!(
                f,
                "`{path}` has too many entries to check that all of them may be removed; remove them in parts"
            ),
            RefusalCause::NotRecorded { why, remedy, .. } => write!(
                f,
                "`{path}` was not changed: the original cannot be recorded for `mimir undo` ({why}); {remedy}"
            ),
            RefusalCause::Displaced => write!(
                f,
                "`{path}` is in a directory that was moved since it was opened, so the target of the link is uncertain"
            ),
        }
    }
}

/// The failure of an operation.
#[derive(Debug)]
pub(super) enum FsFault {
    Code(ErrorCode),
    Refused(Box<PathRefusal>),
    TooManyOpen,
}

impl FsFault {
    pub(super) fn refused(path: &str, cause: RefusalCause) -> Self {
        Self::Refused(Box::new(PathRefusal {
            path: path.to_owned(),
            cause,
        }))
    }
}

impl From<ErrorCode> for FsFault {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<std::io::Error> for FsFault {
    fn from(error: std::io::Error) -> Self {
        Self::Code(wasi_types::error_code(&error))
    }
}
