//! Syntax checks of Python and bash tools by the engine that will run them. The code itself does not run.
//!
//! TypeScript and JavaScript are compiled when the file is read, which checks their syntax.

use mimir_core::{Limits, ToolError, ToolErrorCode, text};
use mimir_wasm::program::ProgramRequest;
use serde::Deserialize;

use crate::code_engines::CodeEngines;
use crate::definition::{CheckedScript, ScriptBody};

/// Python program that checks code from stdin and prints the syntax error as JSON.
const PYTHON: &str = include_str!("syntax/read.py");

/// bash program that checks code in `$1`, and prints the syntax error as bash does.
const BASH: &str = "bash -n -c \"$1\"\n";

/// A syntax error and its position in the code, counted from 1.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct SyntaxFault {
    line: usize,
    column: usize,
    message: String,
}

/// Returns the faults that only the engine of a language detects. `file` is used in messages. Prepares the engine,
/// which takes seconds the first time on a machine.
pub async fn faults(
    engines: &CodeEngines,
    file: &str,
    checked: &CheckedScript,
) -> Result<Vec<ToolError>, ToolError> {
    let fault = match checked.body {
        ScriptBody::Python => check_python(engines, &checked.code).await?,
        ScriptBody::Bash => check_bash(engines, &checked.code).await?,
        // The container may have another version of Python.
        ScriptBody::Script(_) | ScriptBody::Node | ScriptBody::Container(_) => None,
    };
    let faults = fault.map(|fault| {
        let at = checked.positions.code_position(fault.line, fault.column);
        let message = format!("{file}:{at}: {}", fault.message);
        ToolError::new(ToolErrorCode::InvalidInput, text::visible(&message))
    });
    Ok(faults.into_iter().collect())
}

async fn check_python(engines: &CodeEngines, code: &str) -> Result<Option<SyntaxFault>, ToolError> {
    let program = ProgramRequest {
        code: PYTHON.to_owned(),
        stdin: code.as_bytes().to_vec(),
        ..ProgramRequest::default()
    };
    let finished = engines
        .python
        .run_isolated(program, Limits::default())
        .await?;
    serde_json::from_slice(&finished.stdout.bytes)
        .map_err(|_| unreadable_output(&finished.stderr.bytes))
}

async fn check_bash(engines: &CodeEngines, code: &str) -> Result<Option<SyntaxFault>, ToolError> {
    let program = ProgramRequest {
        code: BASH.to_owned(),
        arguments: vec![code.to_owned()],
        ..ProgramRequest::default()
    };
    let finished = engines
        .bash
        .run_isolated(program, Limits::default())
        .await?;
    if finished.exit_code == 0 {
        return Ok(None);
    }
    let output = String::from_utf8_lossy(&finished.stderr.bytes);
    match parse_bash_error(&output) {
        Some(fault) => Ok(Some(fault)),
        None => Err(unreadable_output(&finished.stderr.bytes)),
    }
}

/// Parses the first line of output: `bash: -c: line 3: syntax error near unexpected token`.
fn parse_bash_error(output: &str) -> Option<SyntaxFault> {
    let (_, rest) = output.lines().next()?.split_once(" line ")?;
    let (line, message) = rest.split_once(": ")?;
    Some(SyntaxFault {
        line: line.parse().ok()?,
        column: 1,
        message: message.to_owned(),
    })
}

/// Returns the error for engine output that is not a valid result.
fn unreadable_output(output: &[u8]) -> ToolError {
    let output = text::visible(String::from_utf8_lossy(output).trim());
    let message = format!("the engine could not check the code: {output}");
    ToolError::new(ToolErrorCode::ExecutionError, message)
}

#[cfg(test)]
mod tests {
    use super::{SyntaxFault, parse_bash_error};

    #[test]
    fn syntax_bash_error_has_line_and_message() {
        let output = "bash: -c: line 3: syntax error near unexpected token `done'\nbash: -c: line 3: `done'\n";
        let fault = SyntaxFault {
            line: 3,
            column: 1,
            message: "syntax error near unexpected token `done'".to_owned(),
        };
        assert_eq!(parse_bash_error(output), Some(fault));
        assert_eq!(parse_bash_error("bash: no such thing\n"), None);
    }
}
