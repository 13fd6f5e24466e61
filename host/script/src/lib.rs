//! Scripts as tools: `.mimir/tools/*.yml`, read once, compiled to JavaScript, and run on an engine that is a component.
//!
//! [`Scripts`] finds the files and makes [`mimir_core::Tool`]s of them. What a script may reach follows from what its
//! code mentions and what a person granted of that; every command, request and file goes through the gates that the
//! plugins' go through.
//!
//! [`build`] makes a component of a module in TypeScript, which exports tools.
//!
//! `run_code` is the tool that runs code which a model wrote, on an engine or by an interpreter.
//!
//! Never here: what wasm can do, what a person is asked, what is printed.

mod backend;
mod code;
mod compile;
mod definition;
mod folder;
mod misspelt;
mod needs;
mod plugin;
mod run_code;
pub mod syntax;
mod tool;
mod trace;
mod words;
pub mod yaml;

pub use code::{CodeEngines, Engines};
pub use compile::Fault;
pub use definition::{Checked, check, check_all, schema};
pub use folder::Scripts;
pub use plugin::{BuiltPlugin, PluginSource, build};
