//! mimir as a library: calls the tools of a workspace from your own program.
//!
//! [`Host`] is the entry point. The other modules are the parts of the program `mimir`: settings, the approval store,
//! secrets, MCP servers, workers and undo. They are public for front ends, and change more often than [`Host`].

pub mod agents;
pub mod approval_store;
pub mod audit_watermark;
mod browser;
pub mod browser_check;
pub mod call_switch;
pub mod cluster;
mod code_embeddings;
pub mod console_listeners;
pub mod console_presence;
pub mod conversations;
pub mod deployments;
pub mod file_error;
pub mod host;
pub mod install_package;
pub mod interface;
pub mod live_calls;
pub mod live_setup;
pub mod models;
pub mod node_condition;
pub mod packages;
pub mod private_files;
pub mod process_identity;
mod process_lock;
pub mod registries;
pub mod secrets;
pub mod servers;
pub mod settings;
pub mod setup;
pub mod shared_approvals;
pub mod shared_questions;
pub mod shared_state;
pub mod signing_keys;
pub mod skills;
pub mod team_authoring;
pub mod teams;
pub mod telemetry;
pub mod undo;
pub mod user_dirs;
pub mod worker_modules;
pub mod workers;
pub mod workspace;
pub mod workspace_facts;

pub use host::{Host, HostBuilder};
pub use mimir_core as core;
