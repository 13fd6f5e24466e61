//! End-to-end tests of mimir in one binary, one folder per area.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in tests a panic is the report"
)]

/// The guests. The build script writes the list; a guest that no test names is an error here.
#[deny(dead_code)]
mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

mod code;
// The text of the source is the same on every platform; `cargo metadata` does not run under wine.
#[cfg(not(windows))]
mod conventions;
mod escape;
mod files;
mod keys;
mod loader;
mod mcp;
mod memory;
mod net;
mod pipeline;
mod shared_budget;
mod shared_state;
mod testkit;
