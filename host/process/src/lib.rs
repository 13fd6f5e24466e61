//! Native programs: parses shell text into commands that policy can judge, and runs commands in sandboxes.
//!
//! Out of scope: the judgement itself. The policy on commands is in `mimir-core`.

mod absent;
pub mod ambient;
mod chooses;
#[cfg(unix)]
mod git;
mod ground;
mod jobs;
mod launcher;
mod outside;
mod place;
pub mod run;
mod runner;
pub mod sandbox;
mod sessions;
pub mod shell;
mod trust;

pub use launcher::{MakeProxy, Programs};
pub use runner::Commands;
