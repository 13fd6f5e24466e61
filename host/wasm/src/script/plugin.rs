//! Plugins in JavaScript: components of the contract, made here of the runtime and of code that has been compiled.
//!
//! The code runs once, when the plugin is made, and the state that it comes to is kept: a call starts there. Nothing is
//! in reach of it then, no file, no network and no clock that counts.
//!
//! Never here: the languages, and what the tools of the plugin are.

use std::sync::Arc;

use mimir_core::Access;

use super::{link, warm};
use crate::compile::blocking;
use crate::error::HostError;
use crate::host::WasmHost;

/// What people call the component before the code is in it.
const NAME: &str = "the runtime of plugins in TypeScript";

/// What a plugin in JavaScript is made of.
#[derive(Debug, Clone, Copy)]
pub struct PluginParts {
    /// The runtime, as a library.
    pub runtime: &'static [u8],
    /// What stands in for imports of the runtime that no world has, by the names of their modules.
    pub adapters: &'static [(&'static str, &'static [u8])],
    /// The contract, in WIT.
    pub contract: &'static str,
    /// What stands before all of the following.
    pub prelude: &'static str,
    /// What does the wishes of a tool about files, for those that have any.
    pub files: &'static str,
    /// Those that change them.
    pub changes: &'static str,
    /// Those for requests.
    pub requests: &'static str,
    /// Those for commands.
    pub commands: &'static str,
    /// Those for other tools.
    pub tools: &'static str,
    /// Those for the model.
    pub model: &'static str,
    /// Those for what is kept between calls.
    pub storage: &'static str,
    /// The exports.
    pub toolset: &'static str,
}

/// What the tools of a plugin can reach: what it imports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files of the workspace.
    pub files: Option<Access>,
    /// Hosts.
    pub network: bool,
    /// Commands.
    pub commands: bool,
    /// Other tools.
    pub tools: bool,
    /// The model.
    pub model: bool,
    /// What it keeps.
    pub storage: bool,
    /// Whether it exports the judgement of its own calls.
    pub assesses: bool,
}

impl PluginParts {
    /// The module that the runtime is started with.
    fn module(self, reach: Reach, code: &str, about: &str) -> String {
        let given = [
            (true, self.prelude),
            (reach.files.is_some(), self.files),
            (reach.files == Some(Access::ReadWrite), self.changes),
            (reach.network, self.requests),
            (reach.commands, self.commands),
            (reach.tools, self.tools),
            (reach.model, self.model),
            (reach.storage, self.storage),
            (true, self.toolset),
        ];
        let given = given.into_iter().filter(|(is_given, _)| *is_given);
        let mut module: String = given.map(|(_, part)| part).collect();
        // JSON is JavaScript.
        let code = serde_json::Value::from(code);
        module += &format!("begin(evaluate({code}), {about});\n");
        module
    }
}

/// Makes a plugin. `code` is a function that gives the exports of the module, `about` the JSON that the exports are told.
pub async fn make(
    host: &Arc<WasmHost>,
    parts: PluginParts,
    reach: Reach,
    code: &str,
    about: &str,
) -> Result<Vec<u8>, HostError> {
    let linked = blocking(move || link::link(&parts, reach).map_err(warm::broken)).await?;
    let module = parts.module(reach, code, about);
    warm::snapshot(host, &linked, module, NAME).await
}
