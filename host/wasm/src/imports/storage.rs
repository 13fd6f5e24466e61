//! `mimir:tool/storage`: a plugin's storage between calls, in its own folder.

use mimir_core::{ToolError, ToolErrorCode};

use crate::bindings::storage::Host;
use crate::bindings::types::Error;
use crate::store_state::StoreState;

impl StoreState {
    /// Returns the storage of the call. Fails outside of a call.
    pub(super) fn storage(&self) -> Result<mimir_core::pipeline::PluginStorage, ToolError> {
        self.storage.clone().ok_or_else(|| {
            ToolError::new(
                ToolErrorCode::Unavailable,
                "storage is not available while a tool is described or assesses a call",
            )
        })
    }
}

impl Host for StoreState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        let storage = self.storage();
        let done = async { storage?.get(key).await }.await;
        Ok(self.record_guest_result(done))
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        let storage = self.storage();
        let done = async { storage?.set(key, value).await }.await;
        Ok(self.record_guest_result(done))
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), Error>> {
        let storage = self.storage();
        let done = async { storage?.delete(key).await }.await;
        Ok(self.record_guest_result(done))
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Result<Vec<String>, Error>> {
        let storage = self.storage();
        let done = async { storage?.keys(prefix).await }.await;
        Ok(self.record_guest_result(done))
    }
}
