//! Tests of the audit log of a cluster against a NATS server: each node has a connection of its own, as a process has,
//! and some are processes.
#![expect(clippy::expect_used, reason = "a test that cannot run has failed")]

mod closing;
mod kit;
mod latency;
mod lost_connection;
#[path = "../../../../tests/kit/nats_server.rs"]
mod nats_server;
mod process;
mod recent;
mod retention;
mod servers;
mod stream;
