//! Errors from setting up a kit. A failed *call* is an outcome, not an error.

use std::io;
use std::path::PathBuf;

/// Error from setting up a kit.
#[derive(Debug, thiserror::Error)]
pub enum TestkitError {
    /// A file or folder of the kit is not accessible.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The path, or a description such as `a temporary folder`.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The plugin, or one of its tools, was not loaded.
    #[error("{location} was not loaded: {reason}")]
    Refused {
        /// The plugin, or one of its tools.
        location: String,
        /// The loader's reason.
        reason: String,
    },
    /// cargo did not build a component.
    #[error("{folder} was not built: {reason}", folder = folder.display())]
    Build {
        /// The plugin's folder.
        folder: PathBuf,
        /// The error output of cargo, or the reason why no component was found.
        reason: String,
    },
    /// The settings are not valid as a config file.
    #[error("the settings are not valid: {0}")]
    Settings(String),
}

impl TestkitError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| TestkitError::File { path, source }
    }
}
