//! The vault that masks the user's secrets in all output of calls.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use mimir_core::config::{Config, SecretSettings};
use mimir_core::redact::{Redactor, Vault, VaultError};
use parking_lot::Mutex;

use super::{UserSecrets, variables};

/// Vault of this user's secrets. Each call checks whether the file of secrets has changed.
pub struct UserVault {
    secrets: Option<UserSecrets>,
    settings: BTreeMap<String, SecretSettings>,
    /// Secrets that are masked but not given to any tool.
    masked: BTreeMap<String, SecretSettings>,
    cached: Mutex<Option<(SecretsFileStamp, Redactor)>>,
}

/// Modification time and length of the file; `None` if there is no file.
type SecretsFileStamp = Option<(SystemTime, u64)>;

impl UserVault {
    /// Creates a vault of the stored secrets, and of the environment variables that the settings name as secrets.
    pub fn new(secrets: Option<UserSecrets>, config: &Config) -> Self {
        let settings = config.secrets.clone();
        let mut masked = config.masked_only.clone();
        // If both maps have the name, both values are masked.
        for (name, secret) in &settings {
            if let Some(other) = masked.insert(name.clone(), secret.clone()) {
                masked.insert(format!("{name}.project"), other);
            }
        }
        Self {
            secrets,
            settings,
            masked,
            cached: Mutex::default(),
        }
    }
}

fn stamp(path: &Path) -> io::Result<SecretsFileStamp> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.modified()?, meta.len()))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Vault for UserVault {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        let Some(secrets) = &self.secrets else {
            return Ok(Redactor::new().with_values(variables(&self.masked)));
        };
        let current = stamp(secrets.path()).map_err(|error| {
            let shown = mimir_core::text::visible(&secrets.path().display().to_string());
            VaultError(format!("{shown} cannot be examined: {error}"))
        })?;
        let mut cached = self.cached.lock();
        if let Some((cached_stamp, redactor)) = &*cached
            && *cached_stamp == current
        {
            return Ok(redactor.clone());
        }
        let redactor = match (current, self.masked.is_empty()) {
            (None, true) => Redactor::new(),
            _ => {
                let values = secrets.values(&self.masked);
                Redactor::new().with_values(values.map_err(|error| VaultError(error.message))?)
            }
        };
        *cached = Some((current, redactor.clone()));
        Ok(redactor)
    }

    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        if let Some((_, value)) = variables(&self.settings).find(|(known, _)| known == name) {
            return Ok(Some(value));
        }
        match &self.secrets {
            Some(secrets) => secrets
                .value(name)
                .map_err(|error| VaultError(error.message)),
            None => Ok(None),
        }
    }
}
