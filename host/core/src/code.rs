//! Code that comes as text: what is to run, what came of it, and the port to engines that run it in WebAssembly.
//!
//! Never here: the engines, and the sandboxes that an interpreter runs in. Which of them takes the code is the business
//! of the tool `run_code`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{BoxFuture, Usage};
use crate::command::Finished;
use crate::error::{Code, ToolError};
use crate::pipeline::Approved;

mod snippet;

pub use snippet::{Request, Way};
pub(crate) use snippet::{command_of, named_tools};

/// A language that code is in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// What bash understands.
    Bash,
    /// JavaScript.
    #[serde(alias = "js")]
    Javascript,
}

impl Language {
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

/// Code that is to run, with all that it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The language that it is in.
    pub language: Language,
    /// The code.
    pub code: String,
    /// What the code sees as the arguments of its program, without a name before them.
    pub arguments: Vec<String>,
    /// Variables beside the few that every program gets.
    pub environment: Vec<(String, String)>,
    /// What it reads from its standard input. The code is not in it.
    pub stdin: Vec<u8>,
    /// Where it starts, relative to the workspace root, with `/` between components; the root itself where none is
    /// named.
    pub directory: Option<String>,
    /// How long it may run; the call's own limit holds all the same.
    pub timeout: Duration,
    /// The session that it runs in. Without one, nothing of it is there for the next.
    pub session: Option<String>,
}

/// What came of code.
#[derive(Debug)]
pub struct Ran {
    /// How it ended, and what it wrote. Code that fails has an exit code and is no error. What was stopped is one, and
    /// has under `output` in its details what it had written by then.
    pub result: Result<Finished, ToolError>,
    /// What it used, as far as that is metered.
    pub usage: Usage,
    /// The session that it ran in.
    pub session: Option<Session>,
}

/// Where code ran that finds what earlier code has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// Whether it began with this call: nothing of earlier ones was there.
    pub fresh: bool,
    /// Whether it ended with this call: the next one begins anew.
    pub ended: bool,
    /// The names of all sessions of this client that are there now.
    pub open: Vec<String>,
}

impl From<ToolError> for Ran {
    fn from(error: ToolError) -> Self {
        Self {
            result: Err(error),
            usage: Usage::default(),
            session: None,
        }
    }
}

/// Runs code in WebAssembly, in an instance that no other code has had.
///
/// The call has all that the code may reach and use up: its files and rules about paths, its limits and its time, its
/// effects (commands, other tools) through the gates, and who watches, who is told each line of output as progress.
pub trait Engine: Send + Sync {
    /// The languages that it runs. This costs nothing.
    fn languages(&self) -> &[Language];

    /// What code of this language cannot do here and can with an interpreter of the machine: one sentence for a model.
    fn lacks(&self, language: Language) -> &'static str;

    /// Runs code to its end or to its bounds. Dropping the future stops it.
    fn run<'a>(&'a self, call: &'a Approved, snippet: &'a Snippet) -> BoxFuture<'a, Ran>;
}

/// Runs nothing.
pub struct NoEngine;

impl Engine for NoEngine {
    fn languages(&self) -> &[Language] {
        &[]
    }

    fn lacks(&self, _: Language) -> &'static str {
        ""
    }

    fn run<'a>(&'a self, _: &'a Approved, snippet: &'a Snippet) -> BoxFuture<'a, Ran> {
        let message = format!("nothing runs {} here", snippet.language.as_str());
        let error = ToolError::new(Code::Unavailable, message);
        Box::pin(std::future::ready(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_read_as_they_are_written() {
        for language in Language::ALL {
            let json = serde_json::to_value(language).unwrap();
            assert_eq!(json, language.as_str());
            assert_eq!(serde_json::from_value::<Language>(json).unwrap(), language);
        }
        let read = serde_json::from_str::<Language>("\"js\"");
        assert_eq!(read.unwrap(), Language::Javascript);
        assert!(serde_json::from_str::<Language>("\"perl\"").is_err());
        assert!(NoEngine.languages().is_empty());
    }
}
