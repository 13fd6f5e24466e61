//! Deployments of several processes that share their state through NATS.
//!
//! [`ClusterConnection`] connects a process to the cluster; [`NatsState`] is the shared state of all processes. The only
//! crate that depends on async-nats.

mod connection;
mod names;
mod state;

pub use connection::{ClusterConnection, ClusterError, ConnectionOptions};
pub use state::NatsState;
