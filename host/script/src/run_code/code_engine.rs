//! The interface to engines that run source code in WebAssembly.

use mimir_core::backend::{BoxFuture, ResourceUsage};
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::CommandOutput;
use mimir_core::{Approved, ToolError};
use mimir_wasm::program::CodeSession;

use super::CodeSnippet;

/// The result of running code.
#[derive(Debug)]
pub struct CodeResult {
    /// The exit code and output. Failing code has a non-zero exit code; only stopped code is an error, with the output
    /// so far under `output` in the error's details.
    pub result: Result<CommandOutput, ToolError>,
    /// The resources used, as far as they are metered.
    pub usage: ResourceUsage,
    /// The session in which the code ran, if any.
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

/// Runs code in a fresh WebAssembly instance.
///
/// The call determines the permissions and limits of the code: files and path rules, limits and deadline, and effects
/// (commands, other tools), which go through the policy checks. The call's observer receives each line of output.
pub trait CodeEngine: Send + Sync {
    /// Returns the supported languages. Must be cheap.
    fn languages(&self) -> &[CodeLanguage];

    /// Describes the features that this engine lacks compared to the language's usual interpreter, in one sentence for
    /// a model.
    fn lacks(&self, language: CodeLanguage) -> &'static str;

    /// Runs code until it ends or reaches a limit. Dropping the future stops the code.
    fn run<'a>(&'a self, call: &'a Approved, snippet: &'a CodeSnippet)
    -> BoxFuture<'a, CodeResult>;
}
