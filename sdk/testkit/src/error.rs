//! Errors of the kit's setup. A failed *call* is an outcome, not an error.

use std::io;
use std::path::PathBuf;

/// Error from setting up a kit.
#[derive(Debug, thiserror::Error)]
pub enum TestkitError {
    /// A file or folder of the kit is not accessible.
    #[error("{place}: {source}", place = place.display())]
    File {
        /// The path.
        place: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The plugin was left out when the tools were loaded.
    #[error("{place} was left out: {reason}")]
    Refused {
        /// The plugin, or one of its tools.
        place: String,
        /// The loader's reason.
        reason: String,
    },
    /// cargo did not build a component.
    #[error("{folder} was not built: {reason}", folder = folder.display())]
    Build {
        /// The plugin's folder.
        folder: PathBuf,
        /// The output of cargo, or the missing artefact.
        reason: String,
    },
    /// The settings are not valid as a config file.
    #[error("the settings are refused: {0}")]
    Settings(String),
}

impl TestkitError {
    pub(crate) fn file(place: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        |source| TestkitError::File { place, source }
    }
}
