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
    /// Arguments: `sys.argv[1:]`, `$@` or `process.argv.slice(2)`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables of its environment, which otherwise has only what programs cannot do without.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The standard input of the program.
    #[serde(default)]
    pub stdin: String,
    /// Time limit in seconds; then the code is stopped. Default: 60. `limits.timeMs` of the settings is the maximum.
    #[serde(default = "usual_timeout")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: u32,
    /// Directory to run in, relative to the workspace root. Default: the root.
    #[serde(default)]
    pub workdir: Option<String>,
    /// The backend: `wasm` an engine in WebAssembly, `process` the interpreter of this machine in the sandbox of
    /// commands, `container` one in a container. Default `auto`: the first of them that is available.
    #[serde(default)]
    pub backend: CodeBackend,
    /// Python only: the name of a session. What code of the same session has defined and imported is there again.
    #[serde(default)]
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub session: Option<String>,
    /// Names of the tools that the code may call. Default: all that you may call.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// The backend that runs the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CodeBackend {
    /// The first of the others that is available.
    #[default]
    Auto,
    /// An engine in WebAssembly.
    Wasm,
    /// The interpreter of this machine, in the sandbox of commands.
    Process,
    /// An interpreter in a container.
    Container,
}

/// The default timeout.
const TIMEOUT: u32 = 60;

fn usual_timeout() -> u32 {
    TIMEOUT
}

/// Maximum characters of a session's name.
const SESSION_MAX: usize = 32;

impl RunCodeArgs {
    /// Parses the arguments of a call.
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
                    "`session` is a name of 1 to {SESSION_MAX} letters, digits, `_` and `-`"
                );
                return Err(bad(message));
            }
            if request.language != CodeLanguage::Python {
                let message = "`session` is only supported for Python; code in other languages always starts without state";
                return Err(bad(message.to_owned()));
            }
            if request.backend.place(request.language).is_some() {
                let message = "`session` is only supported for `backend: wasm`; an interpreter always starts without state";
                return Err(bad(message.to_owned()));
            }
        }
        if request.tools.is_some() && request.backend.place(request.language).is_some() {
            let message =
                "`tools` is only supported for `backend: wasm`; an interpreter cannot call tools";
            return Err(bad(message.to_owned()));
        }
        Ok(request)
    }

    /// Converts to the request for an engine.
    pub fn snippet(self) -> CodeSnippet {
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
    /// The spelling used in arguments and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Wasm => "wasm",
            Self::Process => "process",
            Self::Container => "container",
        }
    }

    /// The target of the command, if this backend uses an interpreter.
    pub fn place(self, language: CodeLanguage) -> Option<CommandTarget> {
        match self {
            Self::Auto | Self::Wasm => None,
            Self::Process => Some(CommandTarget::HostPrograms),
            Self::Container => Some(CommandTarget::Container(language)),
        }
    }
}

/// The command of a `run_code` call, if its arguments determine the backend: then it is checked before the call runs,
/// like one of `exec`.
pub(super) fn command_in_arguments(arguments: &Value) -> Option<CommandRequest> {
    let request = RunCodeArgs::parse(arguments).ok()?;
    let place = request.backend.place(request.language)?;
    request.snippet().command(place).ok()
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
        let snippet = RunCodeArgs::parse(&arguments).unwrap().snippet();
        let error = snippet.command(CommandTarget::HostPrograms).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput);
        assert!(error.message.contains("into a file"), "{error}");
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
        assert_eq!(request.snippet().timeout, Duration::from_secs(60));
    }
}
