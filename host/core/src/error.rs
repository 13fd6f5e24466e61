//! The stable error codes of calls, and the error that carries one.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The reason why a call failed. The spelling is part of the contract with every client and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    /// The arguments, a file or a setting do not have the required form.
    InvalidInput,
    /// A path is malformed or leaves the workspace.
    InvalidPath,
    /// A tool, or something else that the call refers to, does not exist.
    NotFound,
    /// A file or directory does not exist.
    FileNotFound,
    /// Something is there already and may not be replaced.
    AlreadyExists,
    /// The operating system or a grant does not allow it.
    PermissionDenied,
    /// A person refused the approval, or none was there to answer.
    ApprovalDenied,
    /// A policy rule denies it.
    PolicyDenied,
    /// The wall clock ran out.
    Timeout,
    /// The caller disconnected or cancelled the call.
    Cancelled,
    /// Fuel, memory, output or another limit ran out.
    LimitExceeded,
    /// A connection failed or broke.
    Network,
    /// The tool ran and failed.
    ExecutionError,
    /// A resource of the call is temporarily unavailable.
    Unavailable,
    /// A fault in mimir itself.
    Internal,
}

impl ToolErrorCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [ToolErrorCode; 15] = [
        ToolErrorCode::InvalidInput,
        ToolErrorCode::InvalidPath,
        ToolErrorCode::NotFound,
        ToolErrorCode::FileNotFound,
        ToolErrorCode::AlreadyExists,
        ToolErrorCode::PermissionDenied,
        ToolErrorCode::ApprovalDenied,
        ToolErrorCode::PolicyDenied,
        ToolErrorCode::Timeout,
        ToolErrorCode::Cancelled,
        ToolErrorCode::LimitExceeded,
        ToolErrorCode::Network,
        ToolErrorCode::ExecutionError,
        ToolErrorCode::Unavailable,
        ToolErrorCode::Internal,
    ];

    /// The stable spelling, as clients see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolErrorCode::InvalidInput => "INVALID_INPUT",
            ToolErrorCode::InvalidPath => "INVALID_PATH",
            ToolErrorCode::NotFound => "NOT_FOUND",
            ToolErrorCode::FileNotFound => "FILE_NOT_FOUND",
            ToolErrorCode::AlreadyExists => "ALREADY_EXISTS",
            ToolErrorCode::PermissionDenied => "PERMISSION_DENIED",
            ToolErrorCode::ApprovalDenied => "APPROVAL_DENIED",
            ToolErrorCode::PolicyDenied => "POLICY_DENIED",
            ToolErrorCode::Timeout => "TIMEOUT",
            ToolErrorCode::Cancelled => "CANCELLED",
            ToolErrorCode::LimitExceeded => "LIMIT_EXCEEDED",
            ToolErrorCode::Network => "NETWORK",
            ToolErrorCode::ExecutionError => "EXECUTION_ERROR",
            ToolErrorCode::Unavailable => "UNAVAILABLE",
            ToolErrorCode::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for ToolErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed call: a code for programs, one plain sentence for the model, details where they help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The kind of failure.
    pub code: ToolErrorCode,
    /// One plain sentence.
    pub message: String,
    /// Machine-readable facts, such as the failures of a validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The exact commands or lines that would allow it, for the person only: a model that reads them asks for them. So
    /// it is not part of the JSON form, and a tool whose nested call failed does not get it.
    #[serde(skip)]
    pub remedies: Box<[String]>,
}

impl ToolError {
    /// An error without details.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            remedies: Box::default(),
        }
    }

    /// An error about arguments, a file or a setting without the required form.
    pub fn invalid_input(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::InvalidInput, message.to_string())
    }

    /// An error about something that does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::NotFound, message.to_string())
    }

    /// An error about something that the operating system or a grant does not allow.
    pub fn permission_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::PermissionDenied, message.to_string())
    }

    /// An error about something that a policy rule denies.
    pub fn policy_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::PolicyDenied, message.to_string())
    }

    /// An error about an approval that was refused or could not be asked for.
    pub fn approval_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::ApprovalDenied, message.to_string())
    }

    /// An error about a limit that was reached.
    pub fn limit_exceeded(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::LimitExceeded, message.to_string())
    }

    /// An error of a tool that ran and failed.
    pub fn execution(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::ExecutionError, message.to_string())
    }

    /// An error about a fault in mimir itself.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::Internal, message.to_string())
    }

    /// An error about a resource that is temporarily unavailable.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::Unavailable, message.to_string())
    }

    /// Adds the remedies.
    #[must_use]
    pub fn with_remedies(mut self, remedies: impl IntoIterator<Item = String>) -> Self {
        self.remedies = remedies.into_iter().collect();
        self
    }

    /// Adds `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
