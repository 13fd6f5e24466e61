//! Process-level support of `mimir serve`.

mod console;
mod listener;
mod login_recorder;
mod metrics;
mod replica;
mod status;
mod streams;
mod token;

pub use console::ServedConsole;
pub use listener::{listen, listen_to_readers};
pub use login_recorder::AuditedLogins;
pub use metrics::server_metrics;
pub use replica::{ServerReplica, connect_to_join, describe_node, restart_to_use};
pub use status::{WorkerStatus, node_readiness, report_readiness};
pub use streams::StdioStreams;
pub use token::{ServeToken, load_or_create};
