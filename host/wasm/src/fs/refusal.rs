//! Why an operation was refused, in words for the person.

use super::code;
use mimir_core::paths::{Rule, Shield};
use std::fmt;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// A path that a guest was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// From the workspace root; as the guest wrote it where it leads outside.
    pub path: String,
    /// Why.
    pub cause: Cause,
}

/// What stood behind a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A rule shields the path.
    Rule(Rule),
    /// A rule shields what is or would be below the path, and the operation would get round it.
    Below(Rule),
    /// The path leads out of the directory that was granted.
    Outside,
    /// The link climbs (`..`) after a name, which may be or become a link itself.
    Winding,
    /// The directory was granted for reading only.
    ReadOnlyMount,
    /// It is neither a file nor a directory.
    NotAFile,
    /// A link in a directory that would move leads out of the granted directory from there, or may.
    WouldLeave,
    /// Whether there are such links in a directory that would move is not known.
    NotLookedThrough,
    /// The system does not let what is in the directory be listed or removed.
    NotEmptied,
    /// Whether everything in the directory may be removed is not known.
    TooMuchToEmpty,
    /// The directory was moved or replaced since it was opened, so where the link would lead is not known.
    Displaced,
    /// What is there could not be kept, for this reason, and so nobody could take the change back.
    Unkept(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "."
        } else {
            &self.path
        };
        match &self.cause {
            Cause::Rule(rule) if rule.shield() == Shield::ReadOnly => {
                write!(f, "`{path}` is read-only by the rule `{rule}`")
            }
            Cause::Rule(rule) => write!(f, "`{path}` is hidden by the rule `{rule}`"),
            Cause::Below(rule) => write!(
                f,
                "`{path}` holds or would hold what the rule `{rule}` shields"
            ),
            Cause::Outside => write!(f, "`{path}` leads out of the granted directory"),
            Cause::Winding => write!(
                f,
                "`{path}` has `..` after a name, so nobody can tell where the link would lead"
            ),
            Cause::ReadOnlyMount => write!(
                f,
                "`{path}` is in a directory that was granted for reading only"
            ),
            Cause::NotAFile => write!(f, "`{path}` is neither a file nor a directory"),
            Cause::WouldLeave => write!(
                f,
                "after the move the link `{path}` could lead out of the granted directory; change or remove it first"
            ),
            Cause::NotLookedThrough => write!(
                f,
                "`{path}` holds too much, or can't be read, to look for links that would lead out of the granted directory after the move; move its parts"
            ),
            Cause::NotEmptied => write!(
                f,
                "the permissions of `{path}` are against removing what is in it"
            ),
            Cause::TooMuchToEmpty => write!(
                f,
                "`{path}` holds too much to look whether all of it may be removed; remove its parts"
            ),
            Cause::Unkept(why) => write!(
                f,
                "`{path}` is not changed, since what is there cannot be kept for `mimir undo` ({why}); write to another file, or run it with `backend: process`"
            ),
            Cause::Displaced => write!(
                f,
                "`{path}` is in a directory that was moved since it was opened, so nobody can tell where the link would lead"
            ),
        }
    }
}

/// How an operation fails.
#[derive(Debug)]
pub(super) enum Fault {
    Code(ErrorCode),
    Refused(Box<Refusal>),
    TooManyOpen,
}

impl Fault {
    pub(super) fn refused(path: &str, cause: Cause) -> Self {
        Self::Refused(Box::new(Refusal {
            path: path.to_owned(),
            cause,
        }))
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Code(code::of(&error))
    }
}
