//! Errors of calls, with stable codes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reason why a call failed. Clients depend on the spelling, so it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    /// The arguments, a file or a setting are not valid.
    InvalidInput,
    /// A path is malformed or leaves the workspace.
    InvalidPath,
    /// A tool, or something else that the call refers to, does not exist.
    NotFound,
    /// A file or directory does not exist.
    FileNotFound,
    /// The target already exists and must not be replaced.
    AlreadyExists,
    /// The operating system or the grant does not allow the operation.
    PermissionDenied,
    /// The approval was refused, or the question could not be answered.
    ApprovalDenied,
    /// A policy rule denies the operation.
    PolicyDenied,
    /// The time limit was reached.
    Timeout,
    /// The caller disconnected or cancelled the call, or a person cancelled it at a console.
    Cancelled,
    /// The limit of fuel, memory, output or another resource was reached.
    LimitExceeded,
    /// A connection could not be established or was lost.
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

    /// Returns the stable spelling for clients.
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

/// Error of a call: a code for programs, a message for the model, and optional details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The kind of failure.
    pub code: ToolErrorCode,
    /// The message, one plain sentence.
    pub message: String,
    /// Machine-readable details, such as the failures of a validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Commands or settings lines that would allow the operation. They are for people only, because a model that reads
    /// them asks for them: the JSON form and the errors of nested calls omit them.
    #[serde(skip)]
    pub remedies: Box<[String]>,
}

impl ToolError {
    /// Creates an error without details.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            remedies: Box::default(),
        }
    }

    /// Creates an error about arguments, a file or a setting that is not valid.
    pub fn invalid_input(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::InvalidInput, message.to_string())
    }

    /// Creates an error about something that does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::NotFound, message.to_string())
    }

    /// Creates an error about an operation that the operating system or the grant does not allow.
    pub fn permission_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::PermissionDenied, message.to_string())
    }

    /// Creates an error about an operation that a policy rule denies.
    pub fn policy_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::PolicyDenied, message.to_string())
    }

    /// Creates an error about an approval that was refused or could not be requested.
    pub fn approval_denied(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::ApprovalDenied, message.to_string())
    }

    /// Creates an error about a limit that was reached.
    pub fn limit_exceeded(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::LimitExceeded, message.to_string())
    }

    /// Creates an error about a tool that ran and failed.
    pub fn execution(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::ExecutionError, message.to_string())
    }

    /// Creates an error about a fault in mimir itself.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::Internal, message.to_string())
    }

    /// Creates an error about a resource that is temporarily unavailable.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(ToolErrorCode::Unavailable, message.to_string())
    }

    /// Sets the remedies.
    #[must_use]
    pub fn with_remedies(mut self, remedies: impl IntoIterator<Item = String>) -> Self {
        self.remedies = remedies.into_iter().collect();
        self
    }

    /// Sets the details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
