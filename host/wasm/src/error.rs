//! Errors from loading a component, before a call runs.

use mimir_core::{ToolError, ToolErrorCode};

/// An error of the host, or of a component passed to it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WasmHostError {
    /// wasmtime does not work on this machine.
    #[error("WebAssembly cannot be run on this machine: {0}")]
    Engine(String),
    /// The file cannot be read.
    #[error("{location} cannot be read: {reason}")]
    Read {
        /// The file.
        location: String,
        /// The reason.
        reason: String,
        /// The stable code for the system error.
        code: ToolErrorCode,
    },
    /// The file is not a component that mimir can use. The message does not name the file.
    #[error("{0}")]
    Component(String, ToolErrorCode),
    /// The component was not compiled within its limits. The message does not name the file.
    #[error("{0}")]
    Compile(String, ToolErrorCode),
    /// The file has changed since its tools were listed.
    #[error("{0} has changed since its tools were listed; call the tool again")]
    Changed(String),
    /// The plugin's own description of its tools is not valid. The message does not name the file.
    #[error("{0}")]
    Manifest(String, ToolErrorCode),
}

impl WasmHostError {
    /// Returns the stable code.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            WasmHostError::Engine(_) => ToolErrorCode::Unavailable,
            WasmHostError::Read { code, .. }
            | WasmHostError::Component(_, code)
            | WasmHostError::Compile(_, code)
            | WasmHostError::Manifest(_, code) => *code,
            WasmHostError::Changed(_) => ToolErrorCode::Unavailable,
        }
    }

    /// Adds the location to an error about the content of a component. These errors do not have it, because they are
    /// cached for all copies of the component.
    pub(crate) fn at(self, location: &str) -> Self {
        let located = |reason: String| format!("{location}: {reason}");
        match self {
            WasmHostError::Component(reason, code) => {
                WasmHostError::Component(located(reason), code)
            }
            WasmHostError::Compile(reason, code) => WasmHostError::Compile(located(reason), code),
            WasmHostError::Manifest(reason, code) => WasmHostError::Manifest(located(reason), code),
            error @ (WasmHostError::Engine(_)
            | WasmHostError::Read { .. }
            | WasmHostError::Changed(_)) => error,
        }
    }

    /// Returns the error for a file that cannot be read.
    pub(crate) fn read_error(location: impl Into<String>, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => ToolErrorCode::FileNotFound,
            std::io::ErrorKind::PermissionDenied => ToolErrorCode::PermissionDenied,
            _ => ToolErrorCode::Unavailable,
        };
        WasmHostError::Read {
            location: location.into(),
            reason: error.to_string(),
            code,
        }
    }
}

impl From<WasmHostError> for ToolError {
    fn from(error: WasmHostError) -> Self {
        ToolError::new(error.code(), error.to_string())
    }
}
