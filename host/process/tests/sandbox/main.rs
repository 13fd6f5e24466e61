//! Tests of the sandboxes with well-behaved and hostile programs.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot run has failed"
)]

mod bare;
mod builds;
#[path = "../common/mod.rs"]
mod common;
mod confined;
mod escape;
mod kit;
mod launched;
mod ordinary;
mod repositories;
mod session;
mod wrapped;
