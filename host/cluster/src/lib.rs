//! Deployments of several processes that share their state through NATS.
//!
//! [`ClusterConnection`] connects a process to the cluster; [`NatsState`] is the shared state of all processes. The only
//! crate that depends on async-nats.

mod connection;
mod names;
mod options;
mod request;
mod state;
mod streams;

pub use connection::{ClusterConnection, ClusterError};
pub use options::ConnectionOptions;
pub use state::NatsState;
pub use streams::CreatedStream;
