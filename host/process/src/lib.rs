//! Runs native programs in sandboxes, in the foreground and in the background.
//!
//! Out of scope: parsing shell scripts (`mimir-commands`), and the policy on commands (`mimir-core`).

mod build_command;
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
mod toolchain_files;

pub use build_command::{BuildCommand, BuildCommandError, BuildNetwork, LineCallback, run_build};
pub use launcher::{ProgramLauncher, ProxyFactory};
pub use run::workspace_guard::wait_for_last_searches;
pub use runner::SandboxRunner;
