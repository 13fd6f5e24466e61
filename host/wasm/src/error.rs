//! Errors of a component before it runs.

use mimir_core::{Code, ToolError};

/// An error of the host, or of a component passed to it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HostError {
    /// wasmtime does not work on this machine.
    #[error("WebAssembly cannot be run on this machine: {0}")]
    Engine(String),
    /// The file cannot be read.
    #[error("{place} cannot be read: {reason}")]
    Read {
        /// The file.
        place: String,
        /// The reason.
        reason: String,
        /// The code for the system's error.
        code: Code,
    },
    /// The file is not a component that mimir can use.
    #[error("{0}")]
    Component(String, Code),
    /// The component was not compiled within its limits.
    #[error("{0}")]
    Compile(String, Code),
    /// The file differs from the one that was described.
    #[error("{0} has changed since it was read; call it again")]
    Changed(String),
    /// The plugin's own description of its tools is not valid.
    #[error("{0}")]
    Manifest(String, Code),
}

impl HostError {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            HostError::Engine(_) => Code::Unavailable,
            HostError::Read { code, .. }
            | HostError::Component(_, code)
            | HostError::Compile(_, code)
            | HostError::Manifest(_, code) => *code,
            HostError::Changed(_) => Code::Unavailable,
        }
    }

    /// Returns the error for a file that cannot be read.
    pub(crate) fn read(place: impl Into<String>, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::FileNotFound,
            std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
            _ => Code::Unavailable,
        };
        HostError::Read {
            place: place.into(),
            reason: error.to_string(),
            code,
        }
    }
}

impl From<HostError> for ToolError {
    fn from(error: HostError) -> Self {
        ToolError::new(error.code(), error.to_string())
    }
}
