//! Storage for data other than the memory files: the host's storage, or a map in tests.

use mimir_sdk::Result;
use mimir_sdk::storage;

/// Values by key, each with the host's taint information about the session that stored it.
pub(crate) trait Store {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;
    fn delete(&self, key: &str) -> Result<()>;
    fn keys(&self, prefix: &str) -> Result<Vec<String>>;
}

/// The host's storage.
pub(crate) struct HostStorage;

impl Store for HostStorage {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        storage::get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        storage::set(key, value)
    }

    fn delete(&self, key: &str) -> Result<()> {
        storage::delete(key)
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        storage::keys(prefix)
    }
}
