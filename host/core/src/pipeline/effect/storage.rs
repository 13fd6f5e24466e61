//! What a call keeps for later calls of its plugin. A value carries what the session had read that kept it: who reads it
//! in another session has read that too.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Code, ToolError};
use crate::outcome::Label;
use crate::pipeline::approve::Approved;
use crate::pipeline::label::Floor;
use crate::pipeline::session::{ContentSource, Session};
use crate::storage::{DERIVED, MARK, Value, Values};
use crate::tool::Source;

/// The way of a call to what its plugin keeps.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    values: Values,
    ships: bool,
    session: Arc<Session>,
    floor: Arc<Floor>,
}

impl Approved {
    /// What the plugin of this call keeps in `workspace`. Nothing is read or made yet.
    pub fn storage(&self, workspace: &Path) -> Storage {
        Storage(Arc::new(Inner {
            values: Values::of(workspace, &self.tool().origin.location),
            ships: self.tool().source == Source::BuiltIn,
            session: self.session(),
            floor: self.floor(),
        }))
    }
}

impl Storage {
    /// The value of a key, if there is one.
    pub async fn get(&self, key: String) -> Result<Option<Vec<u8>>, ToolError> {
        if self.is_mark(&key) {
            let mark = self.blocking(move |values| values.mark(&key)).await?;
            return Ok(mark.map(|label| {
                self.note(&label);
                Vec::new()
            }));
        }
        let value = self.blocking(move |values| values.get(&key)).await?;
        Ok(value.map(|value| {
            self.note(&value.label);
            value.bytes
        }))
    }

    /// Keeps a value in place of the one that the key had.
    pub async fn set(&self, key: String, bytes: Vec<u8>) -> Result<(), ToolError> {
        if self.is_mark(&key) {
            let label = self.0.session.label();
            return self
                .blocking(move |values| values.set_mark(&key, label))
                .await;
        }
        let label = match self.0.ships && key.starts_with(DERIVED) {
            true => Session::default().label(),
            false => self.0.session.label(),
        };
        let value = Value { bytes, label };
        self.blocking(move |values| values.set(&key, &value)).await
    }

    /// Forgets the value of a key.
    pub async fn delete(&self, key: String) -> Result<(), ToolError> {
        self.blocking(move |values| values.delete(&key)).await
    }

    /// The keys that begin with `prefix`, sorted.
    pub async fn keys(&self, prefix: String) -> Result<Vec<String>, ToolError> {
        if self.is_mark(&prefix) && self.blocking(Values::has_lost).await? {
            self.note(&Label::worst("a mark that cannot be read"));
        }
        let found = self.blocking(move |values| values.keys(&prefix)).await?;
        let keys = found.into_iter().map(|(key, label)| {
            self.note(&label);
            key
        });
        Ok(keys.collect())
    }

    fn is_mark(&self, key: &str) -> bool {
        self.0.ships && key.starts_with(MARK)
    }

    /// The call has read something with this label.
    fn note(&self, label: &Label) {
        self.0.floor.note(label);
        self.0.session.read(label, ContentSource::Other);
    }

    /// Waits beside the other calls: a file may lie on a slow disk, and another process may have the turn.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Values) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner.values)).await;
        done.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?
    }
}
