//! Values that a call stores for later calls of its plugin. A stored value has the label of the session that stored it;
//! a session that reads the value gets this label, too.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::call::RequestId;
use crate::call_monitor::{CallReport, LiveEffect};
use crate::decision::Decision;
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::ContentLabel;
use crate::pipeline::Pipeline;
use crate::pipeline::approve::Approved;
use crate::pipeline::label::TaintFloor;
use crate::pipeline::session::{ContentSource, PipelineSession};
use crate::redact::Redactor;
use crate::storage::{DERIVED, MARK, PluginValues, StoredValue};
use crate::tool::ToolSource;

/// Maximum number of accesses of a call that are reported to consoles one by one.
const REPORTS_MAX: u32 = 200;

/// The access of a call to the stored values of its plugin.
#[derive(Clone)]
pub struct PluginStorage(Arc<Inner>);

struct Inner {
    values: PluginValues,
    is_built_in: bool,
    session: Arc<PipelineSession>,
    taint_floor: Arc<TaintFloor>,
    reports: StorageReports,
}

/// Reports accesses to stored values to consoles.
struct StorageReports {
    pipeline: Pipeline,
    id: RequestId,
    redactor: Redactor,
    /// The number of reports so far.
    count: AtomicU32,
}

impl Approved {
    /// Returns access to the stored values of the call's plugin in `workspace`. Does not read or create files.
    pub fn storage(&self, workspace: &Path) -> PluginStorage {
        PluginStorage(Arc::new(Inner {
            values: PluginValues::new(workspace, &self.tool().origin.location),
            is_built_in: self.tool().source == ToolSource::BuiltIn,
            session: self.session(),
            taint_floor: self.taint_floor(),
            reports: StorageReports {
                pipeline: self.pipeline().clone(),
                id: self.context().request_id.clone(),
                redactor: self.redactor().clone(),
                count: AtomicU32::new(0),
            },
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
        self.report("get", &key);
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
        self.report("set", &key);
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
        self.report("change", &key);
        let label = self.0.session.label();
        let updated = self.blocking(move |values| values.update(&key, label, change));
        let value = updated.await?;
        self.record_read(&value.label);
        Ok(value.bytes)
    }

    /// Removes the value of a key.
    pub async fn delete(&self, key: String) -> Result<(), ToolError> {
        if !self.is_mark(&key) {
            self.report("delete", &key);
        }
        self.blocking(move |values| values.delete(&key)).await
    }

    /// Returns the keys that begin with `prefix`, sorted.
    pub async fn keys(&self, prefix: String) -> Result<Vec<String>, ToolError> {
        if self.is_mark(&prefix) && self.blocking(PluginValues::has_unreadable).await? {
            self.record_read(&ContentLabel::worst("a mark that cannot be read"));
        }
        if !self.is_mark(&prefix) {
            self.report("list", &prefix);
        }
        let entries = self.blocking(move |values| values.keys(&prefix)).await?;
        let keys = entries.into_iter().map(|(key, label)| {
            self.record_read(&label);
            key
        });
        Ok(keys.collect())
    }

    /// Reports an access to consoles. Marks are left out: mimir keeps them for itself.
    fn report(&self, access: &str, key: &str) {
        self.0.reports.send(access, key);
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

impl StorageReports {
    fn send(&self, access: &str, key: &str) {
        let Some(monitor) = self.pipeline.0.running.watcher() else {
            return;
        };
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let subject = match count {
            0..REPORTS_MAX => {
                let mut key = key.to_owned();
                self.redactor.mask_text(&mut key);
                format!("{access} {key}")
            }
            REPORTS_MAX => "more values of its storage".to_owned(),
            _ => return,
        };
        let now = self.pipeline.0.ports.clock.now();
        monitor.report(CallReport::effect(
            self.id.clone(),
            now,
            LiveEffect::Storage,
            subject,
            Decision::Allow,
        ));
    }
}
