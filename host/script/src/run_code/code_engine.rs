//! The port to engines that run source code in WebAssembly.

use mimir_core::backend::{BoxFuture, ResourceUsage};
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::CommandOutput;
use mimir_core::{Approved, ToolError};
use mimir_wasm::program::CodeSession;

use super::CodeSnippet;

/// The result of running code.
#[derive(Debug)]
pub struct CodeResult {
    /// The exit status and output. Code that fails has an exit code and is not an error. Code that was stopped is an
    /// error, with the output so far under `output` in its details.
    pub result: Result<CommandOutput, ToolError>,
    /// The resources used, as far as they are metered.
    pub usage: ResourceUsage,
    /// The session it ran in.
    pub session: Option<CodeSession>,
}

impl From<ToolError> for CodeResult {
    fn from(error: ToolError) -> Self {
        Self {
            result: Err(error),
            usage: ResourceUsage::default(),
            session: None,
        }
    }
}

/// Runs code in WebAssembly, in an instance that no other code has used.
///
/// The call carries all permissions and limits of the code: its files and path rules, its limits and deadline, its
/// effects (commands, other tools) through the policy checks, and its observer, which receives each line of output as
/// progress.
pub trait CodeEngine: Send + Sync {
    /// The supported languages. This is cheap.
    fn languages(&self) -> &[CodeLanguage];

    /// The features that code of this language lacks here and has with an interpreter of the machine: one sentence for
    /// a model.
    fn lacks(&self, language: CodeLanguage) -> &'static str;

    /// Runs code to its end or to its limits. Dropping the future stops it.
    fn run<'a>(&'a self, call: &'a Approved, snippet: &'a CodeSnippet)
    -> BoxFuture<'a, CodeResult>;
}
