//! Why a kit could not be set up. What a *call* does wrong is an outcome, not an error.

use std::io;
use std::path::PathBuf;

/// A kit that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TestkitError {
    /// A file or folder of the kit cannot be had.
    #[error("{place}: {source}", place = place.display())]
    File {
        /// Which one.
        place: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plugin was left out when the tools were loaded.
    #[error("{place} was left out: {reason}")]
    Refused {
        /// Which plugin, or which tool of it.
        place: String,
        /// The loader's reason.
        reason: String,
    },
    /// cargo did not build a component.
    #[error("{folder} was not built: {reason}", folder = folder.display())]
    Build {
        /// The plugin's folder.
        folder: PathBuf,
        /// What cargo said, or what it did not make.
        reason: String,
    },
    /// The settings are not those of a config file.
    #[error("the settings are refused: {0}")]
    Settings(String),
}

impl TestkitError {
    pub(crate) fn file(place: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        |source| TestkitError::File { place, source }
    }
}
