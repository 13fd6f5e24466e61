//! Syntax checks for Python and bash tools, by the engine that will run them. The code itself is not run.
//!
//! TypeScript and JavaScript are compiled when the file is read, so their syntax has already been checked.

use mimir_core::{Limits, ToolError, ToolErrorCode, text};
use mimir_wasm::program::ProgramRequest;
use serde::Deserialize;

use crate::code::CodeEngines;
use crate::definition::{CheckedScript, ScriptBody};

/// Reads Python from stdin, and writes the syntax error as JSON.
const PYTHON: &str = include_str!("syntax/read.py");

/// Reads bash from `$1`, and writes the syntax error as bash does.
const BASH: &str = "bash -n -c \"$1\"\n";

/// A syntax error and its position in the code, counted from 1.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct SyntaxFault {
    line: usize,
    column: usize,
    message: String,
}

/// Returns the faults that only the engine of a language detects. `place` is the name of the file in messages.
/// Prepares the engine, which takes seconds the first time on a machine.
pub async fn faults(
    engines: &CodeEngines,
    place: &str,
    checked: &CheckedScript,
) -> Result<Vec<ToolError>, ToolError> {
    let found = match checked.body {
        ScriptBody::Python => python(engines, &checked.code).await?,
        ScriptBody::Bash => bash(engines, &checked.code).await?,
        ScriptBody::Script(_) | ScriptBody::Node => None,
    };
    let faults = found.map(|wrong| {
        let at = checked.positions.code_position(wrong.line, wrong.column);
        let message = format!("{place}:{at}: {}", wrong.message);
        ToolError::new(ToolErrorCode::InvalidInput, text::visible(&message))
    });
    Ok(faults.into_iter().collect())
}

async fn python(engines: &CodeEngines, code: &str) -> Result<Option<SyntaxFault>, ToolError> {
    let program = ProgramRequest {
        code: PYTHON.to_owned(),
        stdin: code.as_bytes().to_vec(),
        ..ProgramRequest::default()
    };
    let ended = engines
        .python
        .run_isolated(program, Limits::default())
        .await?;
    serde_json::from_slice(&ended.stdout.bytes).map_err(|_| unread(&ended.stderr.bytes))
}

async fn bash(engines: &CodeEngines, code: &str) -> Result<Option<SyntaxFault>, ToolError> {
    let program = ProgramRequest {
        code: BASH.to_owned(),
        arguments: vec![code.to_owned()],
        ..ProgramRequest::default()
    };
    let ended = engines
        .bash
        .run_isolated(program, Limits::default())
        .await?;
    if ended.exit_code == 0 {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&ended.stderr.bytes);
    match said_by_bash(&said) {
        Some(wrong) => Ok(Some(wrong)),
        None => Err(unread(&ended.stderr.bytes)),
    }
}

/// Parses the first line of output: `bash: -c: line 3: syntax error near unexpected token`.
fn said_by_bash(said: &str) -> Option<SyntaxFault> {
    let (_, rest) = said.lines().next()?.split_once(" line ")?;
    let (line, message) = rest.split_once(": ")?;
    Some(SyntaxFault {
        line: line.parse().ok()?,
        column: 1,
        message: message.to_owned(),
    })
}

/// Returns the error for engine output that is not a valid result.
fn unread(said: &[u8]) -> ToolError {
    let said = text::visible(String::from_utf8_lossy(said).trim());
    let message = format!("the engine could not check the code: {said}");
    ToolError::new(ToolErrorCode::ExecutionError, message)
}

#[cfg(test)]
mod tests {
    use super::{SyntaxFault, said_by_bash};

    #[test]
    fn syntax_bash_error_has_line_and_message() {
        let said = "bash: -c: line 3: syntax error near unexpected token `done'\nbash: -c: line 3: `done'\n";
        let wrong = SyntaxFault {
            line: 3,
            column: 1,
            message: "syntax error near unexpected token `done'".to_owned(),
        };
        assert_eq!(said_by_bash(said), Some(wrong));
        assert_eq!(said_by_bash("bash: no such thing\n"), None);
    }
}
