//! mimir as a library: the tools of a workspace, called from a program of your own.
//!
//! [`Host`] is the entry point. The modules below it are what the program `mimir` is made of: settings, the approval
//! store, secrets, MCP servers, workers and undo. They are public for front ends and change more often than [`Host`].

pub mod conversations;
pub mod file_error;
pub mod host;
pub mod interface;
pub mod ledger;
pub mod live;
pub mod memory;
pub mod models;
pub mod packages;
pub mod places;
pub mod private;
pub mod secrets;
pub mod servers;
pub mod settings;
pub mod setup;
pub mod undo;
pub mod workers;
pub mod workspace;

pub use host::{Host, HostBuilder};
pub use mimir_core as core;
