//! Native programs: parses shell text into commands that policy can judge, and runs commands in sandboxes.
//!
//! Out of scope: the judgement itself. The policy on commands is in `mimir-core`.

mod certificates;
mod command_proxy;
mod command_settings;
#[cfg(unix)]
mod git;
pub mod inherited_env;
mod jobs;
mod launch_folder;
mod launcher;
mod missing_program;
pub mod run;
mod runner;
pub mod sandbox;
mod sessions;
pub mod shell;
mod toolchain_files;

pub use launcher::{ProgramLauncher, ProxyFactory};
pub use runner::SandboxRunner;
