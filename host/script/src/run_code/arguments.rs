//! The arguments of the tool `run_code`.

use std::collections::BTreeMap;
use std::time::Duration;

use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{CommandRequest, CommandTarget};
use mimir_core::{ToolError, ToolErrorCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CodeSnippet;

/// The arguments of `run_code`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCodeArgs {
    /// The language of the code.
    pub language: CodeLanguage,
    /// The code.
    #[schemars(length(min = 1))]
    pub code: String,
    /// Command-line arguments: `sys.argv[1:]`, `$@` or `process.argv.slice(2)`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables, in addition to a minimal default environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Standard input of the program.
    #[serde(default)]
    pub stdin: String,
    /// Time limit in seconds. Default: 60. Maximum: `limits.timeMs` in the settings.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: u32,
    /// Directory to run in, relative to the workspace root. Default: the root.
    #[serde(default)]
    pub workdir: Option<String>,
    /// `wasm` uses an engine in WebAssembly, `process` this machine's interpreter in the command sandbox, `container`
    /// an interpreter in a container. Default: `auto`, the first of these that is available.
    #[serde(default)]
    pub backend: CodeBackend,
    /// Name of a session, for Python only. Definitions and imports of earlier calls in the session are available.
    #[serde(default)]
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub session: Option<String>,
    /// Names of the tools that the code may call. Default: all tools that you may call.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// The backend that runs the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CodeBackend {
    /// The first available of the backends below.
    #[default]
    Auto,
    /// An engine in WebAssembly.
    Wasm,
    /// This machine's interpreter, in the command sandbox.
    Process,
    /// An interpreter in a container.
    Container,
}

/// Default time limit in seconds.
const TIMEOUT: u32 = 60;

fn default_timeout() -> u32 {
    TIMEOUT
}

/// Maximum length of a session name, in characters.
const SESSION_MAX: usize = 32;

impl RunCodeArgs {
    /// Parses and validates the arguments of a call.
    pub fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let bad = |message: String| ToolError::new(ToolErrorCode::InvalidInput, message);
        let request = Self::deserialize(arguments).map_err(|error| bad(error.to_string()))?;
        if request.code.trim().is_empty() {
            return Err(bad(
                "the code is empty: expected a program to run".to_owned()
            ));
        }
        if let Some(name) = &request.session {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !(1..=SESSION_MAX).contains(&name.len()) || !name.chars().all(fits) {
                let message = format!(
                    "`session` is not valid: expected 1 to {SESSION_MAX} ASCII letters, digits, `_` or `-`"
                );
                return Err(bad(message));
            }
            if request.language != CodeLanguage::Python {
                let message = "`session` is only supported for Python; code in other languages always starts without state";
                return Err(bad(message.to_owned()));
            }
            if request.backend.target(request.language).is_some() {
                let message = "`session` is only supported for `backend: wasm`; an interpreter always starts without state";
                return Err(bad(message.to_owned()));
            }
        }
        if request.tools.is_some() && request.backend.target(request.language).is_some() {
            let message =
                "`tools` is only supported for `backend: wasm`; an interpreter cannot call tools";
            return Err(bad(message.to_owned()));
        }
        Ok(request)
    }

    /// Converts the arguments to the code with its inputs.
    pub fn into_snippet(self) -> CodeSnippet {
        CodeSnippet {
            language: self.language,
            code: self.code,
            arguments: self.args,
            environment: self.env.into_iter().collect(),
            stdin: self.stdin.into_bytes(),
            directory: self.workdir,
            timeout: Duration::from_secs(self.timeout.into()),
            session: self.session,
        }
    }
}

impl CodeBackend {
    /// Returns the spelling used in arguments and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Wasm => "wasm",
            Self::Process => "process",
            Self::Container => "container",
        }
    }

    /// Returns the target of the command, if this backend uses an interpreter.
    pub fn target(self, language: CodeLanguage) -> Option<CommandTarget> {
        match self {
            Self::Auto | Self::Wasm => None,
            Self::Process => Some(CommandTarget::HostPrograms),
            Self::Container => Some(CommandTarget::Container(language)),
        }
    }
}

/// Returns the command of a `run_code` call, if its arguments determine the backend. Such a command is checked before
/// the call runs, like one of `exec`.
pub(super) fn command_in_arguments(arguments: &Value) -> Option<CommandRequest> {
    let request = RunCodeArgs::parse(arguments).ok()?;
    let target = request.backend.target(request.language)?;
    request.into_snippet().command(target).ok()
}

#[cfg(test)]
mod tests {
    use mimir_core::command::CommandProgram;
    use serde_json::json;

    use super::*;
    use crate::run_code::code_snippet::ARGUMENT_MAX;

    fn words(arguments: Value) -> Vec<String> {
        let command = command_in_arguments(&arguments).unwrap();
        match command.program {
            CommandProgram::Vector(words) => words,
            CommandProgram::Script(_) => panic!("a shell"),
        }
    }

    #[test]
    fn run_code_command_passes_code_and_arguments_per_language() {
        for (language, expected) in [
            ("python", vec!["python3", "-u", "-c", "x", "-a", "b"]),
            ("bash", vec!["bash", "-c", "x", "bash", "-a", "b"]),
            (
                "javascript",
                vec!["node", "-e", "x", "--", "code", "-a", "b"],
            ),
        ] {
            let mut arguments = json!({"language": language, "code": "x", "args": ["-a", "b"]});
            assert_eq!(
                command_in_arguments(&arguments),
                None,
                "an engine may take it"
            );
            arguments["backend"] = json!("process");
            assert_eq!(words(arguments), expected);
        }
    }

    #[test]
    fn run_code_long_code_goes_to_stdin() {
        let long = "#".repeat(ARGUMENT_MAX + 1);
        let mut arguments = json!({"language": "python", "code": long, "backend": "process"});
        let command = command_in_arguments(&arguments).unwrap();
        assert_eq!(command.stdin.len(), long.len());
        assert_eq!(words(arguments.clone()), ["python3", "-u", "-"]);
        arguments["stdin"] = json!("x");
        let snippet = RunCodeArgs::parse(&arguments).unwrap().into_snippet();
        let error = snippet.command(CommandTarget::HostPrograms).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput);
        assert!(error.message.contains("to a file"), "{error}");
    }

    #[test]
    fn run_code_invalid_arguments_are_rejected() {
        for (arguments, says) in [
            (json!({"language": "perl", "code": "x"}), "perl"),
            (json!({"language": "python", "code": " \n"}), "empty"),
            (json!({"language": "python"}), "code"),
            (
                json!({"language": "python", "code": "x", "tmeout": 1}),
                "tmeout",
            ),
        ] {
            let error = RunCodeArgs::parse(&arguments).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput);
            assert!(error.message.contains(says), "{error}");
        }
        let request = RunCodeArgs::parse(&json!({"language": "bash", "code": "x"})).unwrap();
        assert_eq!((request.timeout, request.backend), (60, CodeBackend::Auto));
        assert_eq!(request.into_snippet().timeout, Duration::from_secs(60));
    }
}
