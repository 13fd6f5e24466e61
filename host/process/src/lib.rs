//! Native programs: shell text read into commands that can be judged, and the sandboxes that commands run in.
//!
//! Never here: the judgement itself. Which commands may run is policy, and `mimir-core` has it.

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
