//! The audit log that a console shows: the files of the workspace, or in a cluster the lines of the nodes of the
//! workspace.

use std::ops::{ControlFlow, Deref};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_audit::{AuditEntry, AuditLog, ChainLink, LogSnapshot};
use mimir_cluster::{ClusterAuditError, NodeRole, RecentMessage, WriterFacts};
use mimir_core::ToolError;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use mimir::cluster::ClusterMembership;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;

/// Maximum number of lines of a cluster's log that a chart or a rule is computed from.
const RECENT_LINES_MAX: u64 = 100_000;

/// Time after which a search ends at a line of another workspace. Searches for pages end before at lines of their own.
const SKIP_TIME: Duration = Duration::from_secs(8);

/// Number of bits of a position for the number of the line in its message. A message has at most 768 KiB.
const LINE_BITS: u32 = 13;

/// Returns the sequence of the message at a position in the log of a cluster.
pub fn message_of_position(position: u64) -> u64 {
    position >> LINE_BITS
}

/// The log of a console for reading, from threads on which it may block.
pub enum RecordSource {
    /// The files of the workspace.
    Files(FileSource),
    /// The log of the cluster.
    Cluster(ClusterSource),
}

/// The files of a workspace.
pub struct FileSource {
    path: PathBuf,
    snapshot: LogSnapshot,
}

/// The lines of the nodes of a workspace in the log of a cluster.
#[derive(Clone)]
pub struct ClusterSource(Arc<ClusterMembership>);

/// The extent of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchedLines {
    /// Number of lines that were read.
    pub lines: u64,
    /// False if older lines were not read, because there are too many.
    pub is_complete: bool,
    /// The position before which a search goes on that took too long to find any line.
    pub next: Option<u64>,
}

impl SearchedLines {
    /// Returns the extent as JSON.
    pub fn value(self) -> Value {
        json!({ "lines": self.lines, "complete": self.is_complete })
    }
}

/// A line without its line end.
#[derive(Clone, Copy)]
pub struct RecordLine<'a> {
    bytes: &'a [u8],
    origin: Option<LineOrigin<'a>>,
}

/// The place of a line in the log of a cluster.
#[derive(Clone, Copy)]
struct LineOrigin<'a> {
    position: u64,
    writer: &'a WriterFacts,
}

impl Deref for RecordLine<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl RecordLine<'_> {
    /// Returns the position, which increases from line to line. `None` if it is not a line of the log.
    pub fn position(&self) -> Option<u64> {
        match self.origin {
            Some(origin) => Some(origin.position),
            None => ChainLink::read(self.bytes).map(|link| link.seq),
        }
    }

    /// Returns true for a line of the log of a cluster.
    pub fn is_of_cluster(&self) -> bool {
        self.origin.is_some()
    }

    /// Returns the parsed line as a page shows it. In a cluster, with its position and the node that has written it.
    pub fn shown(&self, entry: &AuditEntry) -> Value {
        let mut value = entry.value().clone();
        if let Some(origin) = self.origin {
            value["position"] = origin.position.into();
            value["node"] = node_value(origin.writer);
        }
        value
    }
}

/// Returns the facts about a node as JSON.
fn node_value(facts: &WriterFacts) -> Value {
    let mut value = json!({ "id": facts.writer });
    if let Some(role) = &facts.role {
        value["role"] = role.as_str().into();
    }
    if let Some(host) = &facts.host {
        value["host"] = host.as_str().into();
    }
    value
}

impl RecordSource {
    /// Opens the log of a setup: that of its cluster, or of its workspace.
    pub fn open(setup: &HostSetup) -> Result<Self, ToolError> {
        if let Some(cluster) = setup.cluster() {
            return Ok(Self::Cluster(ClusterSource(Arc::clone(cluster))));
        }
        let path = setup.workspace.audit();
        let snapshot = AuditLog::at(&path).snapshot();
        let snapshot = snapshot.map_err(|error| file_error("read the audit log", &path, &error))?;
        Ok(Self::Files(FileSource { path, snapshot }))
    }

    /// Calls `visit` with each line before a position, newest first, until it breaks.
    pub fn newest_first(
        &self,
        before: Option<u64>,
        mut visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<SearchedLines, ToolError> {
        match self {
            Self::Files(files) => files.newest_first(before, visit),
            Self::Cluster(cluster) => cluster.newest_first(before, |line, _| visit(line)),
        }
    }

    /// Calls `visit` with each line, newest first, until it breaks. In a cluster at most with the last 100,000 lines.
    pub fn recent(
        &self,
        visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<SearchedLines, ToolError> {
        match self {
            Self::Files(files) => files.newest_first(None, visit),
            Self::Cluster(cluster) => cluster.recent(visit),
        }
    }

    /// Calls `visit` with each line, oldest first, until it breaks.
    pub fn oldest_first(
        &self,
        visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<(), ToolError> {
        match self {
            Self::Files(files) => files.oldest_first(visit),
            Self::Cluster(cluster) => cluster.visit_from(0, visit).map(|_| ()),
        }
    }
}

impl FileSource {
    fn unreadable(&self, error: &std::io::Error) -> ToolError {
        file_error("read the audit log", &self.path, error)
    }

    fn newest_first(
        &self,
        before: Option<u64>,
        mut visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<SearchedLines, ToolError> {
        let mut lines = 0;
        let visited = self.snapshot.lines_newest_first(|bytes| {
            let line = RecordLine {
                bytes,
                origin: None,
            };
            if let Some(before) = before
                && line.position().is_none_or(|position| position >= before)
            {
                return ControlFlow::Continue(());
            }
            lines += 1;
            visit(line)
        });
        visited.map_err(|error| self.unreadable(&error))?;
        Ok(SearchedLines {
            lines,
            is_complete: true,
            next: None,
        })
    }

    fn oldest_first(
        &self,
        mut visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<(), ToolError> {
        let visited = self.snapshot.lines(|line| {
            visit(RecordLine {
                bytes: line.bytes,
                origin: None,
            })
        });
        visited.map_err(|error| self.unreadable(&error))
    }
}

impl ClusterSource {
    /// Creates the source for the workspace of this node.
    pub fn new(cluster: &Arc<ClusterMembership>) -> Self {
        Self(Arc::clone(cluster))
    }

    /// Returns true for writers whose lines belong to the console of the workspace: those of its nodes, and those of
    /// commands, which have no workspace. A node whose first line was removed, and that has ended, may have another one.
    fn is_shown(&self, writer: &WriterFacts) -> bool {
        match writer.workspace.as_deref() {
            Some(workspace) => workspace == self.0.workspace(),
            None => writer.role.as_deref() == Some(NodeRole::Admin.as_str()),
        }
    }

    /// Calls `visit` with each line before a position, newest first, and its number from 1, until it breaks.
    fn newest_first(
        &self,
        before: Option<u64>,
        mut visit: impl FnMut(RecordLine<'_>, u64) -> ControlFlow<()>,
    ) -> Result<SearchedLines, ToolError> {
        let (mut lines, mut next) = (0, None);
        let last = before.map(message_of_position);
        let until = Instant::now() + SKIP_TIME;
        let visited = self.0.recent_log().visit_newest_first(last, |message| {
            if !self.is_shown(&message.writer) {
                if Instant::now() < until {
                    return ControlFlow::Continue(());
                }
                next = Some(message.sequence << LINE_BITS);
                return ControlFlow::Break(());
            }
            for line in lines_of(message).rev() {
                if before.is_some_and(|before| line.position().is_none_or(|at| at >= before)) {
                    continue;
                }
                lines += 1;
                visit(line, lines)?;
            }
            ControlFlow::Continue(())
        });
        wait_for(visited)?;
        Ok(SearchedLines {
            lines,
            is_complete: next.is_none(),
            next,
        })
    }

    /// Calls `visit` with each of the last 100,000 lines, newest first, until it breaks.
    pub fn recent(
        &self,
        mut visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<SearchedLines, ToolError> {
        let mut is_complete = true;
        let searched = self.newest_first(None, |line, number| {
            if number > RECENT_LINES_MAX {
                is_complete = false;
                return ControlFlow::Break(());
            }
            visit(line)
        })?;
        Ok(SearchedLines {
            lines: searched.lines.min(RECENT_LINES_MAX),
            is_complete: is_complete && searched.is_complete,
            next: searched.next,
        })
    }

    /// Calls `visit` with each line of the messages from `first` on, oldest first, until it breaks. Returns the sequence
    /// of the last message.
    pub fn visit_from(
        &self,
        first: u64,
        mut visit: impl FnMut(RecordLine<'_>) -> ControlFlow<()>,
    ) -> Result<u64, ToolError> {
        let visited = self.0.recent_log().visit_from(first, |message| {
            if !self.is_shown(&message.writer) {
                return ControlFlow::Continue(());
            }
            for line in lines_of(message) {
                visit(line)?;
            }
            ControlFlow::Continue(())
        });
        wait_for(visited)
    }

    /// Returns the sequence of the last message.
    pub fn last_message(&self) -> Result<u64, ToolError> {
        let extent = wait_for(self.0.recent_log().extent())?;
        Ok(extent.map_or(0, |extent| extent.last))
    }
}

/// Waits on a thread on which that is allowed.
fn wait_for<T>(
    reading: impl Future<Output = Result<T, ClusterAuditError>>,
) -> Result<T, ToolError> {
    let result = Handle::current().block_on(reading);
    result.map_err(ToolError::unavailable)
}

fn lines_of(message: &RecentMessage) -> impl DoubleEndedIterator<Item = RecordLine<'_>> {
    let lines: Vec<&[u8]> = message.lines().collect();
    let first = message.sequence << LINE_BITS;
    lines.into_iter().enumerate().map(move |(number, bytes)| {
        let number = (number as u64).min((1 << LINE_BITS) - 1);
        RecordLine {
            bytes,
            origin: Some(LineOrigin {
                position: first | number,
                writer: &message.writer,
            }),
        }
    })
}
