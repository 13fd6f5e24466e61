//! Deployments of several processes that share their state through NATS.
//!
//! [`ClusterConnection`] connects a process to the cluster; [`NatsState`] is the shared state of all processes. The only
//! crate that depends on async-nats.

mod audit;
mod connection;
mod frames;
mod init;
mod names;
mod node;
mod options;
mod permissions;
mod pool;
mod request;
mod state;
mod streams;
mod worker;

pub use audit::{
    AuditMessage, ClosedWriter, ClusterAuditError, ClusterAuditSink, ClusterExport,
    ClusterExportError, ClusterFault, ClusterFinding, ClusterHead, ClusterLog, ClusterLogCheck,
    ClusterVerifyReport, LiveNodes, RecordedCall, RecordedOutcome, StreamExtent, WriterName,
};
pub use connection::{ClusterConnection, ClusterError};
pub use frames::RemoteToolList;
pub use init::{ClusterFile, InitOptions, cluster_files};
pub use node::{
    CallHold, ClusterNode, NodeDescription, NodeEntry, NodeRole, NodeView, NodeWorkspace,
};
pub use options::ConnectionOptions;
pub use pool::{LabelRules, PoolOptions, RemoteTools, WorkerPool};
pub use state::NatsState;
pub use streams::CreatedStream;
pub use worker::{CallRunner, CallWorker, PipelineRunner, WorkerLoad};
