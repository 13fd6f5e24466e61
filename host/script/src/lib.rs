//! Scripts as tools: files in `.mimir/tools/*.yml`, which are parsed once and run on engines that are WebAssembly
//! components.
//!
//! [`ScriptFolder`] finds the files and builds a [`mimir_core::Tool`] for each. The needs of a script are derived from
//! its code, and the user has to grant them. Every command, request and file access passes the same policy checks as
//! those of plugins.
//!
//! The tools of an HTTP API are in one file, which is made from an OpenAPI document: see [`openapi`].
//!
//! [`build`] builds a component from a TypeScript module that exports tools.
//!
//! The tool `run_code` runs code written by a model, on an engine or with an interpreter installed on this machine.
//!
//! Out of scope: the capabilities of WebAssembly components, approval prompts, and output.

mod backend;
mod code_engines;
mod compile;
mod definition;
mod needs;
pub mod openapi;
mod plugin;
mod run_code;
mod script_folder;
mod spelling;
pub mod syntax;
mod tool;
mod trace;
mod word_scan;
pub mod yaml;

pub use code_engines::{CodeEngines, LanguageEngineParts};
pub use compile::CodeFault;
pub use definition::{CheckedScript, check, check_all, schema};
pub use plugin::{BuiltPlugin, BundlerCommand, BundlerOutput, BundlerRunner, PluginSource, build};
pub use run_code::{CodeEngine, CodeResult, CodeSnippet};
pub use script_folder::ScriptFolder;
