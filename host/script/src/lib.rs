//! Scripts as tools: `.mimir/tools/*.yml`, parsed once, compiled to JavaScript, and run on an engine that is a
//! component.
//!
//! [`ScriptFolder`] finds the files and builds [`mimir_core::Tool`]s of them. A script may access what its code
//! mentions, if the user has granted it; every command, request and file access goes through the same policy checks as
//! those of plugins.
//!
//! [`build`] makes a component of a TypeScript module that exports tools.
//!
//! `run_code` is the tool that runs code written by a model, on an engine or with an interpreter.
//!
//! Out of scope: the capabilities of WebAssembly components, approval prompts, and printing.

mod backend;
mod code_engines;
mod compile;
mod definition;
mod needs;
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
pub use plugin::{BuiltPlugin, PluginSource, build};
pub use run_code::{CodeEngine, CodeResult, CodeSnippet};
pub use script_folder::ScriptFolder;
