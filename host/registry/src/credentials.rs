//! Credentials of registries, from the files and helpers of Docker and containers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mimir_core::backend::BoxFuture;

/// Runs programs that store credentials. Implemented by the application, because this crate does not start programs.
pub trait CredentialHelper: Send + Sync {
    /// Runs `docker-credential-<name> get` with `server` on its standard input. Returns the standard output, or the
    /// reason of a failure, without secrets.
    fn get<'a>(&'a self, name: &'a str, server: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Sources of credentials. Files are read when a registry asks for a login, not before.
#[derive(Clone, Default)]
pub struct Credentials {
    files: Vec<PathBuf>,
    helper: Option<Arc<dyn CredentialHelper>>,
}

impl Credentials {
    /// Creates credentials from Docker's `config.json` and files of the same format, in order of preference. Missing
    /// files are skipped. Without a `helper`, entries that need one are errors.
    pub fn from_files(files: Vec<PathBuf>, helper: Option<Arc<dyn CredentialHelper>>) -> Self {
        Self { files, helper }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("files", &self.files)
            .field("helper", &self.helper.is_some())
            .finish_non_exhaustive()
    }
}
