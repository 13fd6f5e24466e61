//! The secrets of a test.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mimir_core::redact::{Redactor, Vault, VaultError};

use crate::person::lock;

/// Secrets by name, shared with the pipeline.
#[derive(Default)]
pub(crate) struct TestSecrets(Mutex<BTreeMap<String, String>>);

impl TestSecrets {
    pub(crate) fn set(&self, name: &str, value: &str) {
        lock(&self.0).insert(name.to_owned(), value.to_owned());
    }
}

impl Vault for TestSecrets {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        let secrets = lock(&self.0);
        Ok(if secrets.is_empty() {
            Redactor::new()
        } else {
            Redactor::new().with_values(secrets.clone())
        })
    }

    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        Ok(lock(&self.0).get(name).cloned())
    }
}
