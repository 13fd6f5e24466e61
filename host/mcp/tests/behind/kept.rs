//! What servers are given and what is kept of them, in memory.

use std::collections::HashMap;
use std::sync::Mutex;

use mimir_core::Redactor;
use mimir_core::redact::{Vault, VaultError};
use mimir_mcp::client::Store;

/// What servers said, in memory.
#[derive(Default)]
pub struct Shelf(Mutex<HashMap<String, String>>);

impl Store for Shelf {
    fn read(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().get(key).cloned()
    }
    fn write(&self, key: &str, text: &str) {
        self.0
            .lock()
            .unwrap()
            .insert(key.to_owned(), text.to_owned());
    }
}

impl Shelf {
    /// Forgets all of it.
    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// All that is on it.
    pub fn all(&self) -> String {
        let all = self.0.lock().unwrap();
        all.values().cloned().collect::<Vec<_>>().join("\n")
    }
}

/// Knows one secret.
pub struct Keeps(pub [(String, String); 1]);

impl Vault for Keeps {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        Ok(Redactor::new().with_values(self.0.clone()))
    }
    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        let mut known = self.0.iter();
        Ok(known
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone()))
    }
}
