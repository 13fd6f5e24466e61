//! Source code with its inputs, and the command that runs it with an interpreter.

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
    /// Environment variables, in addition to the default environment.
    pub environment: Vec<(String, String)>,
    /// The standard input, which does not contain the code.
    pub stdin: Vec<u8>,
    /// The working directory, relative to the workspace root, with `/` between components. `None` is the root.
    pub directory: Option<String>,
    /// The time limit, capped by the call's.
    pub timeout: Duration,
    /// The session in which the code runs. `None` discards all state when the code ends.
    pub session: Option<String>,
}

/// Maximum bytes of code passed as an argument. Linux allows 128 KiB, including the terminator.
pub(super) const ARGUMENT_MAX: usize = 120_000;

impl CodeSnippet {
    /// Builds the command that runs the code with an interpreter. The code is passed as an argument, which leaves the
    /// standard input to the program and lets the policy parse shell code. Code that is too long for an argument is
    /// passed on the standard input instead; combining it with a `stdin` is an error.
    pub fn command(&self, target: CommandTarget) -> Result<CommandRequest, ToolError> {
        let long = self.code.len() > ARGUMENT_MAX;
        if long && !self.stdin.is_empty() {
            let message = format!(
                "`stdin` is not supported for code of more than {} KB, which is itself passed on the standard input: \
                 write the code or the input to a file in the workspace",
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
            target,
        })
    }
}
