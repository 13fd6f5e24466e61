//! The log of a cluster for readers: verification, export, display.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use mimir_audit::ExportedLog;
use mimir_core::shared_state::{SharedState, StateArea, StateKey};
use serde::{Deserialize, Serialize};

use super::check::{ClusterLogCheck, ClusterVerifyReport, LiveNodes};
use super::log_message::AuditMessage;
use super::retention::{PrunedLog, read_pruned};
use super::stream::{AuditStream, StreamExtent, check_writer};
use super::{ClusterAuditError, closing};
use crate::connection::ClusterConnection;
use crate::names::AUDIT_RETENTION;
use crate::node::NodeEntry;
use crate::node::view::node_keys;

/// Name of the file with the position up to which a folder has been exported.
const POSITION_FILE: &str = "position.json";

/// Maximum number of files that an export keeps open.
const OPEN_FILES_MAX: usize = 64;

/// Number of messages after which an export stores its position.
const SYNC_EVERY: u64 = 10_000;

/// Maximum number of verifications while messages are being removed.
const VERIFY_ATTEMPTS_MAX: u32 = 10;

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ClusterExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ClusterAuditError),
    /// A message is missing, so that the files would not verify.
    #[error("message {0} is missing in the audit log; run `mimir audit verify --cluster`")]
    MissingMessage(u64),
    /// The log has a fault, so nothing was removed.
    #[error(
        "the audit log does not verify, so nothing was removed: {0}; run `mimir audit verify --cluster`"
    )]
    NotVerified(String),
    /// A file lacks lines that would be removed, so nothing was removed.
    #[error(
        "{0} does not have all lines that would be removed, so nothing was removed: export into a new folder"
    )]
    Incomplete(String),
    /// The servers refuse to remove messages.
    #[error(
        "the stream of the audit log was created with `deny_purge`, so nothing can be removed: enlarge it with \
         `mimir cluster setup --audit-size GIB`"
    )]
    Sealed,
    /// Another command has removed messages.
    #[error("another command removes messages at the same time, so nothing was removed: try again")]
    Concurrent,
    /// A time is out of range.
    #[error("the time is not valid: {0}")]
    Time(String),
    /// A file cannot be written.
    #[error("cannot export to {path}: {source}")]
    File {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

/// The result of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExport {
    /// Number of new lines.
    pub lines: u64,
    /// Number of files with new lines.
    pub files: usize,
    /// Sequence of the last exported message.
    pub sequence: u64,
}

/// The position up to which a folder has been exported.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ExportPosition {
    sequence: u64,
}

/// The log of a cluster for readers.
#[derive(Clone)]
pub struct ClusterLog(AuditStream);

impl ClusterLog {
    /// Creates a reader.
    pub fn new(connection: ClusterConnection) -> Self {
        Self(AuditStream::new(connection))
    }

    /// Returns the extent of the stream, or `None` if nothing was ever recorded.
    pub async fn extent(&self) -> Result<Option<StreamExtent>, ClusterAuditError> {
        self.0.extent().await
    }

    /// Returns the stream.
    pub(super) fn stream(&self) -> &AuditStream {
        &self.0
    }

    /// Calls `visit` with each message from `first` to `last`, and the sequence of each missing one, until it breaks.
    /// Messages that were removed after an export are left out.
    pub async fn read<B>(
        &self,
        first: u64,
        last: u64,
        visit: impl FnMut(Result<AuditMessage, u64>) -> ControlFlow<B>,
    ) -> Result<Option<B>, ClusterAuditError> {
        let pruned = read_pruned(&self.0).await?;
        let before = pruned.map_or(0, |pruned| pruned.before);
        self.read_after_removal(before, first, last, visit).await
    }

    /// Reads like [`Self::read`]. Messages before `before` may have been removed.
    pub(super) async fn read_after_removal<B>(
        &self,
        before: u64,
        first: u64,
        last: u64,
        mut visit: impl FnMut(Result<AuditMessage, u64>) -> ControlFlow<B>,
    ) -> Result<Option<B>, ClusterAuditError> {
        let mut next = first;
        while next < before && next <= last {
            let Some(message) = self.0.next_of_all(next).await? else {
                return Ok(None);
            };
            // The messages after it are complete, and read faster.
            if message.sequence >= before || message.sequence > last {
                break;
            }
            next = message.sequence + 1;
            if let ControlFlow::Break(value) = visit(Ok(message)) {
                return Ok(Some(value));
            }
        }
        let mut messages = std::pin::pin!(self.0.messages(next.max(before), last));
        while let Some((sequence, message)) = messages.next().await {
            if let ControlFlow::Break(value) = visit(message?.ok_or(sequence)) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Closes a writer in the name of `by`, for tests and administrators.
    pub async fn close_writer(
        &self,
        state: &dyn SharedState,
        writer: &str,
        by: &str,
    ) -> Result<super::ClosedWriter, ClusterAuditError> {
        closing::close_writer(&self.0, state, writer, by).await
    }

    /// Verifies the whole log. `noted` is the hash of an earlier report's head, or its beginning.
    pub async fn verify(
        &self,
        state: &dyn SharedState,
        noted: Option<&str>,
    ) -> Result<ClusterVerifyReport, ClusterAuditError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (pruned, before) = (read_pruned(&self.0).await?, self.extent().await?);
            let report = self
                .verify_after_removal(state, noted, pruned.clone())
                .await?;
            if report.ok || attempts >= VERIFY_ATTEMPTS_MAX {
                return Ok(report);
            }
            // Messages that are removed meanwhile are missing in the report.
            let is_cut = has_lost_messages(before, self.extent().await?);
            if !is_cut && read_pruned(&self.0).await? == pruned {
                return Ok(report);
            }
        }
    }

    async fn verify_after_removal(
        &self,
        state: &dyn SharedState,
        noted: Option<&str>,
        pruned: Option<PrunedLog>,
    ) -> Result<ClusterVerifyReport, ClusterAuditError> {
        let mut live = self.live_nodes(state).await?;
        let extent = self.extent().await?;
        let before = pruned.as_ref().map_or(0, |pruned| pruned.before);
        let mut check = ClusterLogCheck::after_removal(noted, pruned);
        if let Some(extent) = extent.filter(|extent| extent.messages > 0) {
            self.read_after_removal(before, extent.first, extent.last, |message| {
                if let Ok(message) = message {
                    check.add(&message);
                }
                ControlFlow::<()>::Continue(())
            })
            .await?;
        }
        // Nodes that have joined since then may have written, but nothing that would be missing.
        for (node, _) in self.live_nodes(state).await? {
            live.entry(node).or_insert(0);
        }
        Ok(check.finish(extent, &live))
    }

    pub(super) async fn live_nodes(
        &self,
        state: &dyn SharedState,
    ) -> Result<LiveNodes, ClusterAuditError> {
        let prefix: StateKey = node_keys();
        let nodes = state.list(StateArea::Nodes, Some(&prefix)).await;
        let nodes = nodes.map_err(|error| ClusterAuditError::Unreachable {
            servers: self.0.connection().servers().to_owned(),
            text: error.to_string(),
        })?;
        let nodes = nodes
            .iter()
            .filter_map(|entry| serde_json::from_slice::<NodeEntry>(&entry.value).ok());
        Ok(nodes.map(|node| (node.id, node.recorded)).collect())
    }

    /// Copies the lines that a folder does not have yet into one file for each writer, `WRITER.jsonl`.
    pub async fn export(&self, folder: &Path) -> Result<ClusterExport, ClusterExportError> {
        let mut export = FolderExport::open(folder)?;
        let Some(extent) = self.extent().await? else {
            return Ok(export.summary());
        };
        let first = (export.position.sequence + 1).max(extent.first);
        let failed = self
            .read(first, extent.last, |message| {
                let added = match message {
                    Ok(message) => export.add(&message),
                    Err(sequence) => Err(ClusterExportError::MissingMessage(sequence)),
                };
                match added {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                }
            })
            .await?;
        if let Some(error) = failed {
            return Err(error);
        }
        export.sync()?;
        Ok(export.summary())
    }
}

/// A folder with exported files.
struct FolderExport {
    folder: PathBuf,
    position: ExportPosition,
    files: HashMap<String, ExportedLog>,
    written: std::collections::HashSet<String>,
    lines: u64,
    unsynced: u64,
}

impl FolderExport {
    fn open(folder: &Path) -> Result<Self, ClusterExportError> {
        let failed = |source| file_failure(folder, source);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let path = folder.join(POSITION_FILE);
        let position = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let text = format!("{error}; delete the file to export everything again");
                file_failure(&path, io::Error::new(io::ErrorKind::InvalidData, text))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ExportPosition::default(),
            Err(error) => return Err(file_failure(&path, error)),
        };
        Ok(Self {
            folder: folder.to_owned(),
            position,
            files: HashMap::new(),
            written: std::collections::HashSet::new(),
            lines: 0,
            unsynced: 0,
        })
    }

    fn add(&mut self, message: &AuditMessage) -> Result<(), ClusterExportError> {
        let writer = message.writer.as_str();
        let path = exported_file(&self.folder, writer)?;
        if !self.files.contains_key(writer) {
            if self.files.len() >= OPEN_FILES_MAX {
                self.sync()?;
            }
            let file = ExportedLog::open(&path).map_err(|error| file_failure(&path, error))?;
            self.files.insert(writer.to_owned(), file);
        }
        if let Some(file) = self.files.get_mut(writer) {
            let added = file.append(&message.payload);
            let added = added.map_err(|error| file_failure(&path, error))?;
            self.lines += added;
            if added > 0 {
                self.written.insert(writer.to_owned());
            }
        }
        self.position.sequence = message.sequence;
        self.unsynced += 1;
        if self.unsynced >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Writes heads and the position.
    fn sync(&mut self) -> Result<(), ClusterExportError> {
        for (writer, file) in self.files.drain() {
            let synced = file.sync();
            synced.map_err(|error| file_failure(&self.folder.join(writer), error))?;
        }
        self.unsynced = 0;
        let path = self.folder.join(POSITION_FILE);
        let write = || {
            let text = serde_json::to_vec(&self.position)?;
            mimir_core::files::write_below(&self.folder, &[POSITION_FILE], &text)
        };
        write().map_err(|error| file_failure(&path, error))
    }

    fn summary(&self) -> ClusterExport {
        ClusterExport {
            lines: self.lines,
            files: self.written.len(),
            sequence: self.position.sequence,
        }
    }
}

/// Returns true if messages were removed from the stream between two looks at it.
fn has_lost_messages(before: Option<StreamExtent>, after: Option<StreamExtent>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    let added = after.last.saturating_sub(before.last);
    before.messages.saturating_add(added) > after.messages
}

/// Returns the path of the exported file of a writer.
pub(super) fn exported_file(folder: &Path, writer: &str) -> Result<PathBuf, ClusterAuditError> {
    // A name with other characters could be the path of a file elsewhere.
    if writer != AUDIT_RETENTION {
        check_writer(writer)?;
    }
    Ok(folder.join(format!("{writer}.jsonl")))
}

pub(super) fn file_failure(path: &Path, source: io::Error) -> ClusterExportError {
    ClusterExportError::File {
        path: mimir_core::text::visible(&path.display().to_string()),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_while_the_log_is_read_is_noticed() {
        let extent = |first, last, messages| {
            Some(StreamExtent {
                first,
                last,
                messages,
                bytes: 0,
            })
        };
        let before = extent(1, 10, 10);
        for (after, expected) in [
            (extent(1, 10, 10), false),
            (extent(1, 12, 12), false),
            (extent(1, 10, 9), true),
            (extent(4, 12, 9), true),
            (None, false),
        ] {
            assert_eq!(has_lost_messages(before, after), expected, "{after:?}");
        }
    }
}
