//! In-memory stores for secrets and for descriptions of servers.

use std::collections::{BTreeMap, HashMap};

use mimir_core::Redactor;
use mimir_core::redact::{Vault, VaultError};
use mimir_mcp::client::{DescriptionStore, ServerObserver, ServerStatus};
use parking_lot::Mutex;

/// Descriptions of servers, in memory.
#[derive(Default)]
pub struct MemoryDescriptions(Mutex<HashMap<String, String>>);

impl DescriptionStore for MemoryDescriptions {
    fn read(&self, key: &str) -> Option<String> {
        self.0.lock().get(key).cloned()
    }
    fn write(&self, key: &str, text: &str) {
        self.0.lock().insert(key.to_owned(), text.to_owned());
    }
}

impl MemoryDescriptions {
    /// Removes all entries.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns all entries as one text.
    pub fn all(&self) -> String {
        let all = self.0.lock();
        all.values().cloned().collect::<Vec<_>>().join("\n")
    }
}

/// A vault with one secret.
pub struct OneSecretVault(pub [(String, String); 1]);

impl Vault for OneSecretVault {
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

/// Records the states and the logs of servers.
#[derive(Default)]
pub struct Recorder {
    statuses: Mutex<BTreeMap<String, ServerStatus>>,
    lines: Mutex<Vec<String>>,
}

impl Recorder {
    /// Returns the current state of a server.
    pub fn last(&self, server: &str) -> ServerStatus {
        self.statuses.lock()[server].clone()
    }

    /// Returns all lines of the logs.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}

impl ServerObserver for Recorder {
    fn statuses_changed(&self, statuses: &BTreeMap<String, ServerStatus>) {
        self.statuses.lock().clone_from(statuses);
    }

    fn log_line(&self, server: &str, line: &str) {
        self.lines.lock().push(format!("{server}: {line}"));
    }
}
