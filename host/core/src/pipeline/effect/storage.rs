//! Values that a call stores for later calls of its plugin. A stored value has the label of the session that stored it;
//! a session that reads the value gets this label, too.

use std::path::Path;
use std::sync::Arc;

use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::ContentLabel;
use crate::pipeline::approve::Approved;
use crate::pipeline::label::TaintFloor;
use crate::pipeline::session::{ContentSource, PipelineSession};
use crate::storage::{DERIVED, MARK, PluginValues, StoredValue};
use crate::tool::ToolSource;

/// The access of a call to the stored values of its plugin.
#[derive(Clone)]
pub struct PluginStorage(Arc<Inner>);

struct Inner {
    values: PluginValues,
    is_built_in: bool,
    session: Arc<PipelineSession>,
    taint_floor: Arc<TaintFloor>,
}

impl Approved {
    /// Returns access to the stored values of the call's plugin in `workspace`. Does not read or create files.
    pub fn storage(&self, workspace: &Path) -> PluginStorage {
        PluginStorage(Arc::new(Inner {
            values: PluginValues::new(workspace, &self.tool().origin.location),
            is_built_in: self.tool().source == ToolSource::BuiltIn,
            session: self.session(),
            taint_floor: self.taint_floor(),
        }))
    }
}

impl PluginStorage {
    /// Returns the value of a key, if it is set.
    pub async fn get(&self, key: String) -> Result<Option<Vec<u8>>, ToolError> {
        if self.is_mark(&key) {
            let mark = self.blocking(move |values| values.mark(&key)).await?;
            return Ok(mark.map(|label| {
                self.record_read(&label);
                Vec::new()
            }));
        }
        let value = self.blocking(move |values| values.get(&key)).await?;
        Ok(value.map(|value| {
            self.record_read(&value.label);
            value.bytes
        }))
    }

    /// Stores the value of a key, replacing a previous value.
    pub async fn set(&self, key: String, bytes: Vec<u8>) -> Result<(), ToolError> {
        if self.is_mark(&key) {
            let label = self.0.session.label();
            return self
                .blocking(move |values| values.set_mark(&key, label))
                .await;
        }
        let label = if self.0.is_built_in && key.starts_with(DERIVED) {
            PipelineSession::default().label()
        } else {
            self.0.session.label()
        };
        let value = StoredValue { bytes, label };
        self.blocking(move |values| values.set(&key, &value)).await
    }

    /// Replaces the value of a key by the result of `change`, which gets the previous value. No other call changes the
    /// value in between. An error of `change` leaves the value as it is. Returns the new value.
    pub async fn update(
        &self,
        key: String,
        change: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ToolError> + Send + 'static,
    ) -> Result<Vec<u8>, ToolError> {
        let label = self.0.session.label();
        let updated = self.blocking(move |values| values.update(&key, label, change));
        let value = updated.await?;
        self.record_read(&value.label);
        Ok(value.bytes)
    }

    /// Removes the value of a key.
    pub async fn delete(&self, key: String) -> Result<(), ToolError> {
        self.blocking(move |values| values.delete(&key)).await
    }

    /// Returns the keys that begin with `prefix`, sorted.
    pub async fn keys(&self, prefix: String) -> Result<Vec<String>, ToolError> {
        if self.is_mark(&prefix) && self.blocking(PluginValues::has_unreadable).await? {
            self.record_read(&ContentLabel::worst("a mark that cannot be read"));
        }
        let entries = self.blocking(move |values| values.keys(&prefix)).await?;
        let keys = entries.into_iter().map(|(key, label)| {
            self.record_read(&label);
            key
        });
        Ok(keys.collect())
    }

    fn is_mark(&self, key: &str) -> bool {
        self.0.is_built_in && key.starts_with(MARK)
    }

    /// Adds the label of data that the call has read.
    fn record_read(&self, label: &ContentLabel) {
        self.0.taint_floor.add_label(label);
        self.0.session.record_read(label, ContentSource::Other);
    }

    /// Runs `work` on the blocking thread pool: the disk may be slow, and another process may hold the lock.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PluginValues) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let inner = Arc::clone(&self.0);
        let result = tokio::task::spawn_blocking(move || work(&inner.values)).await;
        result.map_err(|error| ToolError::new(ToolErrorCode::Internal, error.to_string()))?
    }
}
