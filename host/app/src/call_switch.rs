//! The switch that stops all calls: a file in the user's own folder for the processes of one machine, and a key of the
//! shared state for those of a cluster.
//!
//! The file is beside the settings of the user, so that no tool can create or remove it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_core::call_switch::{CallSwitch, NoCallSwitch, StopNotice};
use mimir_core::shared_state::{
    SharedState, SharedStateError, SharedStateHandle, StateArea, StateEntry, StateKey,
};
use mimir_core::{BoxFuture, Pipeline, ToolError};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use crate::file_error::file_error;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::shared_state::StateMirror;
use crate::user_dirs::UserDirs;

/// Name of the file in the user's folder.
const FILE_NAME: &str = "stop.json";

/// Interval at which running calls look for the file.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which background commands are killed after an order.
const ENFORCE_INTERVAL: Duration = Duration::from_secs(1);

/// The file with the order to refuse all calls of this user on this machine.
#[derive(Debug, Clone)]
pub struct StopFile(PathBuf);

impl StopFile {
    /// Returns the file of this user. `None` on platforms without a folder for the user's settings.
    pub fn of_user(user_dirs: &UserDirs) -> Option<Self> {
        Some(Self(user_dirs.config.as_ref()?.join(FILE_NAME)))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the order. A file that cannot be read is an order without a known origin.
    pub fn read(&self) -> Option<StopNotice> {
        self.read_notice()
            .unwrap_or_else(|error| Some(self.unreadable(&error)))
    }

    fn read_notice(&self) -> std::io::Result<Option<StopNotice>> {
        let text = private_files::read(&self.0, OwnerOnly::Writing)?;
        let notice = text.map(|text| serde_json::from_str(&text));
        Ok(notice.transpose()?)
    }

    /// Writes the order, and returns the one that is in force. An order with a reason replaces an earlier one. Without a
    /// reason, an earlier one stays, with its author and its reason.
    pub fn stop(&self, notice: &StopNotice) -> Result<StopNotice, ToolError> {
        if notice.reason.is_none()
            && let Ok(Some(earlier)) = self.read_notice()
        {
            return Ok(earlier);
        }
        let text = serde_json::to_vec_pretty(notice).map_err(ToolError::execution)?;
        let folder = self
            .0
            .parent()
            .map_or(Ok(()), private_files::private_folder);
        folder
            .and_then(|()| private_files::replace(&self.0, &text, FileReaders::Owner))
            .map_err(|error| file_error("write", &self.0, &error))?;
        Ok(notice.clone())
    }

    /// Removes the order, and returns it.
    pub fn start(&self) -> Result<Option<StopNotice>, ToolError> {
        let notice = self.read();
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("remove", &self.0, &error))
            }
            _ => Ok(notice),
        }
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> StopNotice {
        let shown = mimir_core::text::visible(&self.0.display().to_string());
        let reason = Some(format!("{shown} cannot be read: {error}"));
        StopNotice::new("a file".to_owned(), SystemTime::UNIX_EPOCH, reason)
    }
}

/// The switch of one machine. An absent file costs one look at the file system per call.
pub struct FileCallSwitch {
    file: StopFile,
    /// The order that was read last, with the time and the size of its file.
    read: Mutex<Option<(StopFileStamp, StopNotice)>>,
}

/// Modification time and size of a file.
type StopFileStamp = (Option<SystemTime>, u64);

impl FileCallSwitch {
    /// Creates the switch of this file.
    pub fn new(file: StopFile) -> Self {
        Self {
            file,
            read: Mutex::default(),
        }
    }
}

/// Returns the switch of this user on this machine.
pub fn user_switch(user_dirs: &UserDirs) -> Arc<dyn CallSwitch> {
    match StopFile::of_user(user_dirs) {
        Some(file) => Arc::new(FileCallSwitch::new(file)),
        None => Arc::new(NoCallSwitch),
    }
}

impl CallSwitch for FileCallSwitch {
    fn stopped(&self) -> Option<StopNotice> {
        let stamp = match std::fs::symlink_metadata(self.file.path()) {
            Ok(metadata) => (metadata.modified().ok(), metadata.len()),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return None;
            }
            // A file that may exist counts.
            Err(error) => return Some(self.file.unreadable(&error)),
        };
        let mut read = self.read.lock();
        if let Some((known, notice)) = &*read
            && *known == stamp
        {
            return Some(notice.clone());
        }
        let notice = self.file.read()?;
        *read = Some((stamp, notice.clone()));
        Some(notice)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                if self.stopped().is_some() {
                    return;
                }
            }
        })
    }
}

/// Kills the background commands of a pipeline after each order to stop all calls, also if no further call arrives. Ends
/// with the pipeline.
pub(crate) fn enforce_stops(pipeline: &Pipeline) {
    // Without a runtime there are no background commands.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    let check = pipeline.stop_check();
    runtime.spawn(async move {
        let mut interval = tokio::time::interval(ENFORCE_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate.
        interval.tick().await;
        loop {
            interval.tick().await;
            if !check() {
                return;
            }
        }
    });
}

/// The key of the order in the area of commands to all processes.
fn stop_key() -> StateKey {
    StateKey::new(["stop"])
}

/// The order to refuse all calls in a cluster.
pub struct ClusterStop(SharedStateHandle);

impl ClusterStop {
    /// Creates access to the order of the cluster with this state.
    pub fn new(state: SharedStateHandle) -> Self {
        Self(state)
    }

    /// Reads the order.
    pub async fn read(&self) -> Result<Option<StopNotice>, SharedStateError> {
        let entry = self.0.get(StateArea::Control, &stop_key()).await?;
        Ok(entry.as_ref().map(decode_notice))
    }

    /// Gives the order, and returns the one that is in force. An order with a reason replaces an earlier one. Without a
    /// reason, an earlier one stays, with its author and its reason.
    pub async fn stop(&self, notice: &StopNotice) -> Result<StopNotice, SharedStateError> {
        let (area, key) = (StateArea::Control, stop_key());
        let value = serde_json::to_vec(notice).unwrap_or_default();
        // First, so that the order does not wait for a look at an earlier one.
        match self.0.create(area, &key, value.clone(), None).await {
            Err(SharedStateError::Conflict) => {}
            created => return created.map(|_| notice.clone()),
        }
        if notice.reason.is_none()
            && let Some(entry) = self.0.get(area, &key).await?
            && let Ok(earlier) = serde_json::from_slice(&entry.value)
        {
            return Ok(earlier);
        }
        set_value(&*self.0, area, &key, value).await?;
        Ok(notice.clone())
    }

    /// Withdraws the order, and returns it.
    pub async fn start(&self) -> Result<Option<StopNotice>, SharedStateError> {
        let notice = self.read().await?;
        self.0.remove(StateArea::Control, &stop_key(), None).await?;
        Ok(notice)
    }
}

/// Sets a value, whatever it was before.
pub(crate) async fn set_value(
    state: &dyn SharedState,
    area: StateArea,
    key: &StateKey,
    value: Vec<u8>,
) -> Result<u64, SharedStateError> {
    loop {
        let current = state.get(area, key).await?;
        let written = match current {
            Some(entry) => {
                let update = state.update(area, key, value.clone(), entry.revision, None);
                update.await
            }
            None => state.create(area, key, value.clone(), None).await,
        };
        match written {
            // Another process was faster: the last one counts.
            Err(SharedStateError::Conflict) => {}
            written => return written,
        }
    }
}

fn decode_notice(entry: &StateEntry) -> StopNotice {
    serde_json::from_slice(&entry.value).unwrap_or_else(|error| {
        let reason = Some(format!("the order cannot be read: {error}"));
        StopNotice::new("a process".to_owned(), SystemTime::UNIX_EPOCH, reason)
    })
}

/// The switch of a process in a cluster: the order of the cluster, or that of this machine.
pub struct ClusterCallSwitch {
    machine: Arc<dyn CallSwitch>,
    control: StateMirror,
}

impl ClusterCallSwitch {
    /// Creates the switch, and follows the order on the current runtime.
    pub async fn start(
        state: &SharedStateHandle,
        machine: Arc<dyn CallSwitch>,
    ) -> Result<Self, SharedStateError> {
        let control = StateMirror::start(state, StateArea::Control).await?;
        Ok(Self { machine, control })
    }
}

impl CallSwitch for ClusterCallSwitch {
    fn stopped(&self) -> Option<StopNotice> {
        if let Some(entry) = self.control.get(&stop_key()) {
            return Some(decode_notice(&entry));
        }
        if self.control.is_closed() {
            let reason = Some("the connection to the cluster was closed".to_owned());
            let at = SystemTime::UNIX_EPOCH;
            return Some(StopNotice::new("this process".to_owned(), at, reason));
        }
        self.machine.stopped()
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        let mut changes = self.control.changes();
        Box::pin(async move {
            if self.stopped().is_some() {
                // Given between the last look and this one.
                tokio::task::yield_now().await;
                return;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = self.machine.changed() => {}
            }
        })
    }
}

#[cfg(test)]
mod tests;
