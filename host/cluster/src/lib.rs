//! Deployments of several processes that share their state through NATS.
//!
//! [`ClusterConnection`] connects a process to the cluster; [`NatsState`] is the shared state of all processes. The only
//! crate that depends on async-nats.

mod audit;
mod background_calls;
mod clock;
mod connection;
mod deployment;
mod frames;
mod ids;
mod init;
mod names;
mod node;
mod objects;
mod options;
mod peers;
mod permissions;
mod pool;
mod request;
mod role_check;
mod state;
mod status;
mod stream_message;
mod streams;
mod team_bundles;
mod worker;

pub use audit::{
    AuditMessage, ClosedWriter, ClusterAuditError, ClusterAuditSink, ClusterExport,
    ClusterExportError, ClusterFault, ClusterFinding, ClusterHead, ClusterLog, ClusterLogCheck,
    ClusterRemoval, ClusterVerifyReport, LiveNodes, RecentLog, RecentMessage, RecordedCall,
    RecordedOutcome, StreamExtent, WriterFacts, WriterName,
};
pub use background_calls::ClusterBackgroundCalls;
pub use connection::{ClusterConnection, ClusterError};
pub use deployment::{
    DecisionWriter, DeployedFile, Deployment, DeploymentError, DeploymentInForce,
    DeploymentManifest, DeploymentMirror, Deployments, MirrorChange, NodeCondition, NodeIdSource,
    PublishedEntry, TeamInUse, is_deployable,
};
pub use frames::RemoteToolList;
pub use init::{ClusterFile, InitOptions, cluster_files};
pub use node::{
    CallHold, ClusterNode, NodeDescription, NodeEntry, NodeRole, NodeView, NodeWorkspace,
};
pub use objects::{ComponentStore, OBJECT_SIZE_MAX, ObjectError};
pub use options::ConnectionOptions;
pub use peers::NatsPeers;
pub use pool::{LabelRules, PoolOptions, RemoteTools, WorkerPool};
pub use state::NatsState;
pub use status::{NodeClock, StreamStatus, live_nodes, open_writers};
pub use streams::CreatedStream;
pub use team_bundles::{ClusterBundle, ClusterBundleEntry, TeamBundles};
pub use worker::{CallRunner, CallWorker, PipelineRunner, WorkerLoad};
