//! All tests of mimir as a whole, in one binary: one folder per area that a user can see.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in tests a panic is the report"
)]

/// The guests. The list is the build script's; one that no test names is an error here.
#[deny(dead_code)]
mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

mod code;
mod conventions;
mod escape;
mod files;
mod keys;
mod loader;
mod mcp;
mod memory;
mod net;
mod pipeline;
mod testkit;
