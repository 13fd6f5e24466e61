//! Errors of tools: a stable code, a one-sentence message, optional details.

use std::fmt;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::bindings::mimir::tool::types as wit;
use crate::text;

/// Result of a fallible function of a tool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The stable codes of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The arguments are not valid.
    InvalidInput,
    /// A path that is malformed or leads out of the workspace.
    InvalidPath,
    /// An object other than a path doesn't exist.
    NotFound,
    /// A path that doesn't exist.
    FileNotFound,
    /// The target already exists.
    AlreadyExists,
    /// The host or the system denied access.
    PermissionDenied,
    /// A person denied approval. Reserved for the host, like [`Timeout`](Self::Timeout) and
    /// [`Cancelled`](Self::Cancelled): if a tool returns one of these codes, the caller receives
    /// [`Execution`](Self::Execution), with the returned code in the details.
    ApprovalDenied,
    /// A time limit was reached. Passed on to the caller only if a network request of the tool timed out.
    Timeout,
    /// The caller cancelled the call. Reserved for the host.
    Cancelled,
    /// A limit was exceeded.
    LimitExceeded,
    /// The network failed.
    Network,
    /// The operation ran and failed.
    Execution,
    /// Not available here or now.
    Unavailable,
    /// A code defined by the tool.
    Other(String),
}

/// A failed call. Programs read the code; the model and the person read the message.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    code: Code,
    message: String,
    details: Option<Value>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        impl Error {
            $($(#[$doc])* pub fn $name(message: impl fmt::Display) -> Self { Self::new(Code::$code, message) })*
        }
    };
}

constructors! {
    /// The arguments are not valid.
    invalid_input => InvalidInput;
    /// A path is malformed or leads out of the workspace.
    invalid_path => InvalidPath;
    /// An object other than a path doesn't exist.
    not_found => NotFound;
    /// A path doesn't exist.
    file_not_found => FileNotFound;
    /// The target already exists.
    already_exists => AlreadyExists;
    /// The host or the system denied access.
    permission_denied => PermissionDenied;
    /// A person denied approval.
    approval_denied => ApprovalDenied;
    /// A time limit was reached.
    timeout => Timeout;
    /// The caller cancelled the call.
    cancelled => Cancelled;
    /// A limit was exceeded.
    limit_exceeded => LimitExceeded;
    /// The network failed.
    network => Network;
    /// The operation ran and failed.
    execution => Execution;
    /// Not available here or now.
    unavailable => Unavailable;
}

impl Error {
    /// Creates an error with any code.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            details: None,
        }
    }

    /// Creates an error with a code defined by the tool.
    pub fn other(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::new(Code::Other(code.into()), message)
    }

    /// Creates an error for a failed file operation. `path` is the path as the caller wrote it; long paths are
    /// shortened in the message.
    pub fn io(error: &io::Error, path: impl AsRef<Path>) -> Self {
        Self::new(
            code_of(error),
            format_args!(
                "{}: {}",
                text::brief(&path.as_ref().to_string_lossy()),
                without_os_code(error)
            ),
        )
    }

    /// Sets the details for programs. Details that cannot be serialized are dropped.
    #[must_use]
    pub fn with_details(mut self, details: impl Serialize) -> Self {
        self.details = serde_json::to_value(details).ok();
        self
    }

    /// The stable code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The details.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::execution(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::execution(message)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::execution(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(code_of(&error), without_os_code(&error))
    }
}

/// Maps a system error to a code of the contract.
fn code_of(error: &io::Error) -> Code {
    use io::ErrorKind as K;
    match error.kind() {
        K::NotFound | K::NotADirectory => Code::FileNotFound,
        K::PermissionDenied | K::ReadOnlyFilesystem => Code::PermissionDenied,
        K::AlreadyExists | K::DirectoryNotEmpty => Code::AlreadyExists,
        K::InvalidInput | K::IsADirectory => Code::InvalidInput,
        K::InvalidFilename => Code::InvalidPath,
        K::TimedOut => Code::Timeout,
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge | K::OutOfMemory => Code::LimitExceeded,
        K::Unsupported => Code::Unavailable,
        K::ConnectionRefused
        | K::ConnectionReset
        | K::ConnectionAborted
        | K::HostUnreachable
        | K::NetworkUnreachable
        | K::NetworkDown
        | K::NotConnected
        | K::AddrNotAvailable => Code::Network,
        _ => Code::Execution,
    }
}

/// Formats an error without its suffix `(os error 2)`, which is of no use to a model.
fn without_os_code(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl From<Error> for wit::Error {
    fn from(error: Error) -> Self {
        let code = match error.code {
            Code::InvalidInput => wit::ErrorCode::InvalidInput,
            Code::InvalidPath => wit::ErrorCode::InvalidPath,
            Code::NotFound => wit::ErrorCode::NotFound,
            Code::FileNotFound => wit::ErrorCode::FileNotFound,
            Code::AlreadyExists => wit::ErrorCode::AlreadyExists,
            Code::PermissionDenied => wit::ErrorCode::PermissionDenied,
            Code::ApprovalDenied => wit::ErrorCode::ApprovalDenied,
            Code::Timeout => wit::ErrorCode::Timeout,
            Code::Cancelled => wit::ErrorCode::Cancelled,
            Code::LimitExceeded => wit::ErrorCode::LimitExceeded,
            Code::Network => wit::ErrorCode::Network,
            Code::Execution => wit::ErrorCode::Execution,
            Code::Unavailable => wit::ErrorCode::Unavailable,
            Code::Other(code) => wit::ErrorCode::Other(code),
        };
        let details = error.details.map(|details| details.to_string());
        Self {
            code,
            message: error.message,
            details,
        }
    }
}

impl From<wit::Error> for Error {
    fn from(error: wit::Error) -> Self {
        let code = match error.code {
            wit::ErrorCode::InvalidInput => Code::InvalidInput,
            wit::ErrorCode::InvalidPath => Code::InvalidPath,
            wit::ErrorCode::NotFound => Code::NotFound,
            wit::ErrorCode::FileNotFound => Code::FileNotFound,
            wit::ErrorCode::AlreadyExists => Code::AlreadyExists,
            wit::ErrorCode::PermissionDenied => Code::PermissionDenied,
            wit::ErrorCode::ApprovalDenied => Code::ApprovalDenied,
            wit::ErrorCode::Timeout => Code::Timeout,
            wit::ErrorCode::Cancelled => Code::Cancelled,
            wit::ErrorCode::LimitExceeded => Code::LimitExceeded,
            wit::ErrorCode::Network => Code::Network,
            wit::ErrorCode::Execution => Code::Execution,
            wit::ErrorCode::Unavailable => Code::Unavailable,
            wit::ErrorCode::Other(code) => Code::Other(code),
        };
        let details = error
            .details
            .and_then(|text| serde_json::from_str(&text).ok());
        Self {
            code,
            message: error.message,
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_get_the_codes_of_the_contract() {
        let missing = std::fs::read("no/such/file").unwrap_err();
        assert_eq!(*Error::from(missing).code(), Code::FileNotFound);
        let taken = io::Error::from(io::ErrorKind::AlreadyExists);
        assert_eq!(*Error::from(taken).code(), Code::AlreadyExists);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(*Error::from(full).code(), Code::LimitExceeded);
    }

    #[test]
    fn error_of_a_path_omits_the_errno() {
        let missing = std::fs::read("no/such/file").unwrap_err();
        let error = Error::io(&missing, "a/b.txt");
        assert!(error.message().starts_with("a/b.txt: "), "{error}");
        assert!(!error.message().contains("os error"), "{error}");
    }

    #[test]
    fn error_round_trips_through_wit() {
        let error = Error::other("odd", "it is odd").with_details(vec![1, 2]);
        assert_eq!(Error::from(wit::Error::from(error.clone())), error);
    }
}
