//! Source code with its inputs, and the command line of an interpreter for it.

use std::time::Duration;

use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{CommandProgram, CommandRequest, CommandTarget};
use mimir_core::{ToolError, ToolErrorCode};

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

/// Maximum length of code passed as an argument. Linux allows 128 KiB, including the terminator.
pub(super) const ARGUMENT_MAX: usize = 120_000;

impl CodeSnippet {
    /// The command that runs the code with an interpreter. The code is an argument, so that the standard input belongs
    /// to the program, and shell code is parsed and checked like any other. Code that is too long for an argument is
    /// passed on the standard input, and the program then has none of its own.
    pub fn command(&self, place: CommandTarget) -> Result<CommandRequest, ToolError> {
        let long = self.code.len() > ARGUMENT_MAX;
        if long && !self.stdin.is_empty() {
            let message = format!(
                "code of more than {} KB goes to its interpreter on the standard input, so it cannot have a `stdin` of its \
                 own; write the code or the input into a file of the workspace",
                ARGUMENT_MAX / 1000
            );
            return Err(ToolError::new(ToolErrorCode::InvalidInput, message));
        }
        let (code, stdin) = if long {
            ("", self.code.as_bytes().to_vec())
        } else {
            (self.code.as_str(), self.stdin.clone())
        };
        let program = self.language.interpreter();
        // Python buffers its output to a pipe until it ends; a stopped program would lose it.
        let words: &[&str] = match (self.language, long) {
            (CodeLanguage::Python, false) => &[program, "-u", "-c", code],
            (CodeLanguage::Python, true) => &[program, "-u", "-"],
            (CodeLanguage::Bash, false) => &[program, "-c", code, program],
            (CodeLanguage::Bash, true) => &[program, "-s", "--"],
            // Takes the position of the script's file name.
            (CodeLanguage::Javascript, false) => &[program, "-e", code, "--", "code"],
            (CodeLanguage::Javascript, true) => &[program, "-"],
        };
        let words = words.iter().map(|word| (*word).to_owned());
        Ok(CommandRequest {
            program: CommandProgram::Vector(words.chain(self.arguments.iter().cloned()).collect()),
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            stdin,
            timeout: Some(self.timeout),
            target: place,
        })
    }
}
