//! The stable error codes of calls, and the error that carries one.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The reason why a call failed. The spelling is part of the contract with every client and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
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

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Code; 15] = [
        Code::InvalidInput,
        Code::InvalidPath,
        Code::NotFound,
        Code::FileNotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ApprovalDenied,
        Code::PolicyDenied,
        Code::Timeout,
        Code::Cancelled,
        Code::LimitExceeded,
        Code::Network,
        Code::ExecutionError,
        Code::Unavailable,
        Code::Internal,
    ];

    /// The stable spelling, as clients see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::InvalidInput => "INVALID_INPUT",
            Code::InvalidPath => "INVALID_PATH",
            Code::NotFound => "NOT_FOUND",
            Code::FileNotFound => "FILE_NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ApprovalDenied => "APPROVAL_DENIED",
            Code::PolicyDenied => "POLICY_DENIED",
            Code::Timeout => "TIMEOUT",
            Code::Cancelled => "CANCELLED",
            Code::LimitExceeded => "LIMIT_EXCEEDED",
            Code::Network => "NETWORK",
            Code::ExecutionError => "EXECUTION_ERROR",
            Code::Unavailable => "UNAVAILABLE",
            Code::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed call: a code for programs, one plain sentence for the model, details where they help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The kind of failure.
    pub code: Code,
    /// One plain sentence.
    pub message: String,
    /// Machine-readable facts, such as the failures of a validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The exact commands or lines that would allow it, for the person only: a model that reads them asks for them. So
    /// it is not part of the JSON form, and a tool whose nested call failed does not get it.
    #[serde(skip)]
    pub way_out: Box<[String]>,
}

impl ToolError {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            way_out: Box::default(),
        }
    }

    /// Adds the remedies.
    #[must_use]
    pub fn with_way_out(mut self, way_out: impl IntoIterator<Item = String>) -> Self {
        self.way_out = way_out.into_iter().collect();
        self
    }

    /// Adds `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
