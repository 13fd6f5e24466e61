//! Source code as text: the request to run it, the result, and the port to engines that run it in WebAssembly.
//!
//! Out of scope: the engines, and the sandboxes of interpreters. The tool `run_code` chooses between them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{BoxFuture, ResourceUsage};
use crate::command::CommandOutput;
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::Approved;

mod snippet;

pub use snippet::{CodeBackend, RunCodeArgs};
pub(crate) use snippet::{command_in_arguments, named_tools};

/// A language of source code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CodeLanguage {
    /// Python 3.
    Python,
    /// Bash.
    Bash,
    /// JavaScript.
    #[serde(alias = "js")]
    Javascript,
}

impl CodeLanguage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Python, Self::Bash, Self::Javascript];

    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Bash => "bash",
            Self::Javascript => "javascript",
        }
    }
}

/// Source code to run, with its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSnippet {
    /// The language.
    pub language: CodeLanguage,
    /// The code.
    pub code: String,
    /// The arguments of the program, without a program name.
    pub arguments: Vec<String>,
    /// Variables in addition to the few that every program gets.
    pub environment: Vec<(String, String)>,
    /// The standard input, which does not contain the code.
    pub stdin: Vec<u8>,
    /// The working directory, relative to the workspace root, with `/` between components; the root itself if `None`.
    pub directory: Option<String>,
    /// The time limit, within the limit of the call.
    pub timeout: Duration,
    /// The session that it runs in. Without one, no state is left for later code.
    pub session: Option<String>,
}

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

/// A code session, in which code finds the state of earlier code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeSession {
    /// Its name.
    pub name: String,
    /// True if the session began with this call, without any earlier state.
    pub fresh: bool,
    /// True if the session ended with this call: the next one starts without state.
    pub ended: bool,
    /// The names of all open sessions of this client.
    pub open: Vec<String>,
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

/// An engine that supports no language.
pub struct NoCodeEngine;

impl CodeEngine for NoCodeEngine {
    fn languages(&self) -> &[CodeLanguage] {
        &[]
    }

    fn lacks(&self, _: CodeLanguage) -> &'static str {
        ""
    }

    fn run<'a>(&'a self, _: &'a Approved, snippet: &'a CodeSnippet) -> BoxFuture<'a, CodeResult> {
        let message = format!("nothing runs {} here", snippet.language.as_str());
        let error = ToolError::new(ToolErrorCode::Unavailable, message);
        Box::pin(std::future::ready(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_language_names_round_trip_through_json() {
        for language in CodeLanguage::ALL {
            let json = serde_json::to_value(language).unwrap();
            assert_eq!(json, language.as_str());
            assert_eq!(
                serde_json::from_value::<CodeLanguage>(json).unwrap(),
                language
            );
        }
        let read = serde_json::from_str::<CodeLanguage>("\"js\"");
        assert_eq!(read.unwrap(), CodeLanguage::Javascript);
        assert!(serde_json::from_str::<CodeLanguage>("\"perl\"").is_err());
        assert!(NoCodeEngine.languages().is_empty());
    }
}
