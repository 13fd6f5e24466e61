//! The test of the cluster: replicas, workers, NATS and a proxy as processes, faults, and a checker of the history.
//!
//! The checker and the simulation are tested everywhere. The tests with processes are ignored, because they need
//! nats-server, Caddy and the right to create network namespaces: `.ci/cluster` installs what they need and runs them.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod checker;
mod client;
mod deployment;
mod faults;
mod history;
mod http;
mod load;
mod nats;
mod network;
mod processes;
mod random;
mod scenarios;
mod simulation;
mod workspace;
