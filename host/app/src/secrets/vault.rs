//! The vault that masks the user's secrets in all output of calls.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::config::{Config, SecretSettings};
use mimir_core::redact::{Redactor, Vault, VaultError};
use parking_lot::Mutex;

use super::{UserSecrets, variables};
use crate::signing_keys::KEY_PASSWORD_VARIABLE;

/// Vault of this user's secrets. Each call checks whether the file of secrets has changed.
pub struct UserVault {
    secrets: Option<UserSecrets>,
    configured: Mutex<ConfiguredSecrets>,
}

/// The secrets that the settings name.
#[derive(Default)]
struct ConfiguredSecrets {
    /// Secrets that tools can be granted, by name.
    settings: BTreeMap<String, SecretSettings>,
    /// Secrets that are masked: those of `settings`, those of an unaccepted project, and those of earlier settings.
    /// Several of them may have one name.
    masked: Vec<(String, SecretSettings)>,
    /// The redactor of all secrets, and the state of the file that it was made from.
    redactor: Option<(SecretsFileStamp, Redactor)>,
}

/// Modification time and length of the file; `None` if there is no file.
type SecretsFileStamp = Option<(SystemTime, u64)>;

impl UserVault {
    /// Creates a vault of the stored secrets, and of the environment variables that the settings name as secrets.
    pub fn new(secrets: Option<UserSecrets>, config: &Config) -> Self {
        let vault = Self {
            secrets,
            configured: Mutex::default(),
        };
        // The password of a key is no secret of tools, but it must not appear in their output either.
        if std::env::var_os(KEY_PASSWORD_VARIABLE).is_some_and(|it| !it.is_empty()) {
            let env = KEY_PASSWORD_VARIABLE.to_owned();
            let secret = (env.clone(), SecretSettings { env });
            vault.configured.lock().masked.push(secret);
        }
        vault.set(config);
        vault
    }

    /// Replaces the configured secrets. Values that were secret before stay masked, because running tools and earlier
    /// results may contain them.
    pub fn set(&self, config: &Config) {
        let mut configured = self.configured.lock();
        configured.settings.clone_from(&config.secrets);
        for (name, secret) in config.secrets.iter().chain(&config.masked_only) {
            let secret = (name.clone(), secret.clone());
            if !configured.masked.contains(&secret) {
                configured.masked.push(secret);
            }
        }
        configured.redactor = None;
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
        let mut configured = self.configured.lock();
        let Some(secrets) = &self.secrets else {
            return Ok(Redactor::new().with_values(variables(&configured.masked)));
        };
        let current = stamp(secrets.path()).map_err(|error| {
            let shown = mimir_core::text::visible(&secrets.path().display().to_string());
            VaultError(format!("{shown} cannot be examined: {error}"))
        })?;
        if let Some((cached_stamp, redactor)) = &configured.redactor
            && *cached_stamp == current
        {
            return Ok(redactor.clone());
        }
        let redactor = match (current, configured.masked.is_empty()) {
            (None, true) => Redactor::new(),
            _ => {
                let fault = |error: ToolError| VaultError(error.message);
                let values = secrets.values(&configured.masked).map_err(fault)?;
                let canaries = secrets.canaries().map_err(fault)?;
                Redactor::new().with_values(values).with_canaries(canaries)
            }
        };
        configured.redactor = Some((current, redactor.clone()));
        Ok(redactor)
    }

    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        let configured = self.configured.lock().settings.get(name).cloned();
        if let Some(value) = configured.and_then(|settings| std::env::var_os(settings.env)) {
            return Ok(Some(value.to_string_lossy().into_owned()));
        }
        match &self.secrets {
            Some(secrets) => secrets
                .value(name)
                .map_err(|error| VaultError(error.message)),
            None => Ok(None),
        }
    }
}
