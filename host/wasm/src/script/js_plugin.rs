//! Plugins in JavaScript: components that implement the contract, built here from the runtime and compiled code.
//!
//! The code runs once, when the plugin is built, and each call starts in the resulting state. During the build, the
//! code has no access to anything: no file, no network and no real clock.
//!
//! Out of scope: the languages, and the tools of the plugin.

use std::sync::Arc;

use mimir_core::DirectoryAccess;

use super::{runtime_link, snapshot};
use crate::compile::run_blocking;
use crate::error::WasmHostError;
use crate::host::WasmHost;
use crate::packed::PackedComponent;

/// Display name of the component before the code is added.
const NAME: &str = "the runtime of plugins in TypeScript";

/// The parts of a plugin in JavaScript.
#[derive(Debug, Clone, Copy)]
pub struct JsPluginParts {
    /// The runtime, as a library.
    pub runtime: PackedComponent,
    /// Adapters for imports of the runtime that a plugin's world does not have, by module name.
    pub adapters: &'static [(&'static str, &'static [u8])],
    /// The contract, in WIT.
    pub contract: &'static str,
    /// Code before all other parts.
    pub prelude: &'static str,
    /// Code for reading files. This part and the following ones are included if the plugin's tools need them.
    pub files: &'static str,
    /// Code for requests that change files.
    pub changes: &'static str,
    /// Code for HTTP requests.
    pub requests: &'static str,
    /// Code for commands.
    pub commands: &'static str,
    /// Code for other tools.
    pub tools: &'static str,
    /// Code for the model.
    pub model: &'static str,
    /// Code for storage.
    pub storage: &'static str,
    /// Code for environment variables.
    pub environment: &'static str,
    /// Code for the exports.
    pub toolset: &'static str,
}

/// The access of a plugin's tools, which determines its imports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginImports {
    /// Files of the workspace.
    pub files: Option<DirectoryAccess>,
    /// Hosts.
    pub network: bool,
    /// Commands.
    pub commands: bool,
    /// Other tools.
    pub tools: bool,
    /// The model.
    pub model: bool,
    /// Storage.
    pub storage: bool,
    /// Environment variables: settings, and the placeholders of secrets.
    pub environment: bool,
    /// True if the plugin assesses its own calls.
    pub assesses: bool,
}

impl JsPluginParts {
    /// Returns the module with which the runtime is started.
    fn module(self, imports: PluginImports, code: &str, about: &str) -> String {
        let parts = [
            (true, self.prelude),
            (imports.files.is_some(), self.files),
            (
                imports.files == Some(DirectoryAccess::ReadWrite),
                self.changes,
            ),
            (imports.network, self.requests),
            (imports.commands, self.commands),
            (imports.tools, self.tools),
            (imports.model, self.model),
            (imports.storage, self.storage),
            (imports.environment, self.environment),
            (true, self.toolset),
        ];
        let parts = parts.into_iter().filter(|(is_given, _)| *is_given);
        let mut module: String = parts.map(|(_, part)| part).collect();
        // JSON is valid JavaScript.
        let code = serde_json::Value::from(code);
        module += &format!("begin(evaluate({code}), {about});\n");
        module
    }
}

/// Builds a plugin and returns the component. `code` is a function that returns the exports of the module, `about` the
/// JSON passed to `begin` together with these exports.
pub async fn build_plugin(
    host: &Arc<WasmHost>,
    parts: JsPluginParts,
    imports: PluginImports,
    code: &str,
    about: &str,
) -> Result<Vec<u8>, WasmHostError> {
    let linked = run_blocking(move || {
        runtime_link::link_runtime(&parts, imports).map_err(snapshot::engine_error)
    })
    .await?;
    let module = parts.module(imports, code, about);
    snapshot::snapshot(host, &linked, module, NAME).await
}
