//! The agent loop against a scripted model on loopback, in all three protocols.
#![expect(
    clippy::unwrap_used,
    reason = "a panic reports the location of the failure"
)]

mod bounds;
mod calls;
mod compaction;
mod faults;
mod images;
mod kit;
mod load;
mod nested_workers;
mod own_tools;
mod workers;
