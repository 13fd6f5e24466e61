//! The user's secrets as what is masked in everything that a call says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use mimir_core::config::SecretSettings;
use mimir_core::redact::{Redactor, Vault};

use crate::output::warn;

use super::Secrets;

/// Knows the secrets of this user, and looks whether there are new ones at each call.
pub struct UserVault {
    secrets: Option<Secrets>,
    settings: BTreeMap<String, SecretSettings>,
    known: Mutex<Option<(Stamp, Redactor)>>,
}

/// When the file was last changed, and how long it is; nothing if there is none.
type Stamp = Option<(SystemTime, u64)>;

impl UserVault {
    /// A vault over these secrets and those that the settings take from variables.
    pub fn new(secrets: Option<Secrets>, settings: BTreeMap<String, SecretSettings>) -> Self {
        Self {
            secrets,
            settings,
            known: Mutex::default(),
        }
    }

    fn read(&self, secrets: &Secrets) -> Redactor {
        match secrets.values(&self.settings) {
            Ok(values) => Redactor::new().with_values(values),
            Err(error) => {
                warn(format_args!(
                    "stored secrets are not masked: {}",
                    error.message
                ));
                Redactor::new()
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl Vault for UserVault {
    fn redactor(&self) -> Redactor {
        let Some(secrets) = &self.secrets else {
            return Redactor::new();
        };
        let now = stamp(secrets.path());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, redactor)) = &*known
            && *then == now
        {
            return redactor.clone();
        }
        let redactor = match (now, self.settings.is_empty()) {
            (None, true) => Redactor::new(),
            _ => self.read(secrets),
        };
        *known = Some((now, redactor.clone()));
        redactor
    }
}
