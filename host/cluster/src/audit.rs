//! The audit log of a cluster: one stream, with a hash chain for each process that writes.
//!
//! Each node has a writer with the node's id as its name. A message on `mimir.audit.WRITER` contains one or more lines in
//! the format of the log files; all lines of a writer are one chain. A writer has one message in flight, which names the
//! sequence of the message before, so that the server rejects it if another process has written in between.
//!
//! A call that may change something is announced before it runs. If the lease of a node has ended, another process
//! closes its writer: it appends an outcome `UNAVAILABLE` with `"mayHaveRun":true` for each announced call without
//! outcome, and an event `closed`. The server rejects all later messages of that writer, so a paused process that goes
//! on can neither announce nor record a call: each announced call has exactly one outcome.

use std::fmt;

pub(crate) mod call_search;
mod check;
pub(crate) mod closing;
pub(crate) mod line_queue;
mod log;
pub(crate) mod log_message;
mod recent;
pub(crate) mod recorded_line;
mod retention;
mod sink;
pub(crate) mod stream;
pub(crate) mod writer;

pub use call_search::{RecordedCall, RecordedOutcome};
pub use check::{
    ClusterFault, ClusterFinding, ClusterHead, ClusterLogCheck, ClusterVerifyReport, LiveNodes,
};
pub use closing::ClosedWriter;
pub use log::{ClusterExport, ClusterExportError, ClusterLog};
pub use log_message::AuditMessage;
pub use recent::{RecentLog, RecentMessage, WriterFacts};
pub use retention::ClusterRemoval;
pub use sink::ClusterAuditSink;
pub use stream::StreamExtent;

use crate::connection::ClusterConnection;
use crate::request::RequestError;

/// Error of an access to the audit log of a cluster.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterAuditError {
    /// The stream cannot be read or written now.
    #[error("the audit log of {servers} cannot be accessed: {text}")]
    Unreachable {
        /// The addresses of the servers.
        servers: String,
        /// The cause.
        text: String,
    },
    /// The stream has no space left.
    #[error("the audit log of {servers} is full: {text}")]
    Full {
        /// The addresses of the servers.
        servers: String,
        /// The cause.
        text: String,
    },
    /// A message of the stream was not written by mimir, or was changed.
    #[error(
        "message {sequence} of the audit log is damaged: {text}; run `mimir audit verify --cluster`"
    )]
    Damaged {
        /// Sequence of the message in the stream.
        sequence: u64,
        /// The damage.
        text: String,
    },
    /// A name is not the name of a writer.
    #[error("{0:?} is not the name of a writer: expected 1 to 64 of a-z, 0-9 and -")]
    Writer(String),
}

impl ClusterAuditError {
    fn from_request(connection: &ClusterConnection, error: &RequestError) -> Self {
        let servers = connection.servers().to_owned();
        let text = error.to_string();
        if error.is_full() {
            Self::Full { servers, text }
        } else {
            Self::Unreachable { servers, text }
        }
    }
}

/// The name of a writer: the id of its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterName(String);

/// Maximum length of a writer's name.
const WRITER_NAME_MAX: usize = 64;

impl WriterName {
    /// Checks a name.
    pub fn parse(name: &str) -> Result<Self, ClusterAuditError> {
        let is_valid = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name.is_empty() || name.len() > WRITER_NAME_MAX || !name.bytes().all(is_valid) {
            return Err(ClusterAuditError::Writer(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WriterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
