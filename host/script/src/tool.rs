//! Calls of tools in Python, bash and `node`: passes the arguments to the code and reads the result.
//!
//! Out of scope: permissions. The call carries the access that it was granted.

use bytes::Bytes;
use mimir_core::backend::RawResult;
use mimir_core::command::{CommandOutput, CommandProgram, CommandRequest, CommandTarget};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{Approved, ToolError, ToolErrorCode, text};
use mimir_wasm::program::{ProgramOutcome, ProgramRequest, ReturnedValue};
use mimir_wasm::script::call_input;
use serde_json::{Value, json};

use crate::backend::ScriptBackend;
use crate::definition::{ContainerInterpreter, ToolContainer};

/// Names of a Python tool's code file, and of the file with the arguments.
const CODE_FILE: &str = "tool.py";
const INPUT_FILE: &str = "input.json";

/// Code before and after the code of a `node` tool.
const NODE_BEFORE: &str = include_str!("tool/before.mjs");
const NODE_AFTER: &str = include_str!("tool/after.mjs");

/// Command line of node, which reads a module from its standard input.
const NODE_COMMAND: &[&str] = &["node", "--input-type=module", "-"];

/// Code before the call of a Python tool in a container.
const PYTHON_RUNNER: &str = include_str!("tool/container.py");

/// Codes that a tool cannot choose, because callers and exit codes rely on them.
const HOST_CODES: [ToolErrorCode; 5] = [
    ToolErrorCode::ApprovalDenied,
    ToolErrorCode::PolicyDenied,
    ToolErrorCode::Timeout,
    ToolErrorCode::Cancelled,
    ToolErrorCode::Internal,
];

/// Marker before the result of a `node` tool, on the last line of its output.
const RESULT_MARKER: &str = "\u{1}mimir-result:";

/// Runs a call of a Python tool.
pub(crate) async fn run_python(tool: &ScriptBackend, call: &Approved) -> RawResult {
    let file = json!(tool.path);
    let line = tool.checked.positions.code_position(1, 1).line;
    let input = call_input(call, call.arguments()).to_string();
    let program = ProgramRequest {
        code: format!("import mimir\nmimir.run('/{CODE_FILE}', {file}, {line})\n"),
        files: vec![
            (CODE_FILE.to_owned(), Bytes::from(tool.checked.code.clone())),
            (INPUT_FILE.to_owned(), Bytes::from(input)),
        ],
        ..ProgramRequest::default()
    };
    let outcome = tool.engines.python.run(call, program, &tool.state).await;
    let ProgramOutcome {
        result,
        returned,
        usage,
    } = outcome;
    let result = result.and_then(|finished| match returned {
        Some(returned) => parse_python_result(&tool.path, &returned),
        None => Err(no_result_error(&finished)),
    });
    RawResult {
        result,
        usage,
        truncated: false,
    }
}

fn parse_python_result(file: &str, returned: &ReturnedValue) -> Result<ToolOutput, ToolError> {
    let reply = &returned.value;
    if let Some(text) = reply["text"].as_str() {
        return Ok(output(text.to_owned()));
    }
    let syntax_error = &reply["syntax"];
    if syntax_error.is_object() {
        let line = syntax_error["line"].as_u64().unwrap_or(1);
        let message = text::visible(
            syntax_error["message"]
                .as_str()
                .unwrap_or("the code cannot be parsed"),
        );
        let message = format!("{file}:{line}: {message}");
        return Err(ToolError::new(ToolErrorCode::InvalidInput, message));
    }
    let failure = &reply["error"];
    let message = failure["message"].as_str().unwrap_or("the tool failed");
    let stack = failure["stack"].as_array().cloned().unwrap_or_default();
    // A failure in the host keeps its code and remedies.
    let code = serde_json::from_value::<ToolErrorCode>(failure["code"].clone()).ok();
    let is_cause =
        |known: &&ToolError| code == Some(known.code) && message.contains(&known.message);
    let cause = returned.failures.iter().find(is_cause);
    let is_allowed = |code: &ToolErrorCode| cause.is_some() || !HOST_CODES.contains(code);
    let code = code
        .filter(is_allowed)
        .unwrap_or(ToolErrorCode::ExecutionError);
    let remedies = cause.map(|cause| cause.remedies.to_vec());
    let message = match stack.first().and_then(Value::as_str) {
        Some(first) => format!("{message} (at {first})"),
        None => message.to_owned(),
    };
    let error = ToolError::new(code, message).with_remedies(remedies.unwrap_or_default());
    Err(if stack.is_empty() {
        error
    } else {
        error.with_details(json!({ "stack": stack }))
    })
}

/// Runs a call of a bash tool. The code gets the arguments as JSON in stdin, `$1` and `$ARGS`, and each argument whose
/// name is valid in a variable in `$ARG_name`. The result is stdout.
pub(crate) async fn run_bash(tool: &ScriptBackend, call: &Approved) -> RawResult {
    let arguments = call.arguments().to_string();
    let mut environment = vec![("ARGS".to_owned(), arguments.clone())];
    let arguments_object = call.arguments().as_object().into_iter().flatten();
    for (name, value) in arguments_object {
        let is_variable_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if is_variable_name && !value.contains('\0') {
            environment.push((format!("ARG_{name}"), value));
        }
    }
    let input = call_input(call, call.arguments());
    environment.push((
        "MIMIR_CONFIG".to_owned(),
        input["context"]["config"].to_string(),
    ));
    let conversation = &input["context"]["conversation"];
    environment.push(("MIMIR_CONVERSATION".to_owned(), conversation.to_string()));
    let line = tool.checked.positions.code_position(1, 1).line;
    let program = ProgramRequest {
        // Blank lines before the code make its line numbers those of the file.
        code: format!("{}{}", "\n".repeat(line - 1), tool.checked.code),
        arguments: vec![arguments.clone()],
        environment,
        stdin: arguments.into_bytes(),
        ..ProgramRequest::default()
    };
    let outcome = tool.engines.bash.run(call, program, &tool.state).await;
    let truncated = matches!(&outcome.result, Ok(finished) if finished.stdout.omitted_bytes > 0);
    RawResult {
        result: outcome.result.and_then(output_by_exit_code),
        usage: outcome.usage,
        truncated,
    }
}

/// Runs a call of a `node` tool as a command, with the same policy checks as any other.
pub(crate) async fn run_node(tool: &ScriptBackend, call: &Approved) -> RawResult {
    RawResult::from(attempt_node(tool, call).await)
}

async fn attempt_node(tool: &ScriptBackend, call: &Approved) -> Result<ToolOutput, ToolError> {
    let program = node_program(&call_input(call, call.arguments()), &tool.checked.code);
    run_interpreter(call, NODE_COMMAND, program, CommandTarget::HostPrograms).await
}

/// Runs a call of a tool whose code runs in a container, as a command with the same policy checks as any other.
pub(crate) async fn run_in_container(
    tool: &ScriptBackend,
    container: &ToolContainer,
    call: &Approved,
) -> RawResult {
    let (input, code) = (call_input(call, call.arguments()), &tool.checked.code);
    let (command, program) = match container.interpreter {
        ContainerInterpreter::Node => (NODE_COMMAND, node_program(&input, code)),
        ContainerInterpreter::Python => (&["python3", "-"][..], python_program(&input, code)),
    };
    let target = CommandTarget::Image(container.id);
    let result = run_interpreter(call, command, program, target).await;
    RawResult::from(result.map_err(|mut error| {
        if error.code == ToolErrorCode::Unavailable {
            error.message = format!("the container of {container} cannot run: {}", error.message);
        }
        error
    }))
}

/// Runs a program that gets its code on the standard input, and parses its result.
async fn run_interpreter(
    call: &Approved,
    command: &[&str],
    program: String,
    target: CommandTarget,
) -> Result<ToolOutput, ToolError> {
    let command = CommandRequest {
        program: CommandProgram::Vector(command.iter().map(|word| (*word).to_owned()).collect()),
        directory: None,
        environment: Vec::new(),
        stdin: program.into_bytes(),
        timeout: None,
        target,
    };
    let finished = call.effects().run(command).await?;
    let reply = parse_node_reply(&finished)?;
    match reply["text"].as_str() {
        Some(text) => Ok(output(text.to_owned())),
        None => {
            let message = reply["error"].as_str().unwrap_or("the tool failed");
            Err(ToolError::new(ToolErrorCode::ExecutionError, message))
        }
    }
}

/// Parses the last line of a `node` tool's output.
fn parse_node_reply(finished: &CommandOutput) -> Result<Value, ToolError> {
    let stdout = String::from_utf8_lossy(&finished.stdout.bytes);
    let reply = stdout.rsplit_once(RESULT_MARKER);
    let reply = reply.and_then(|(_, reply)| serde_json::from_str(reply.trim_end()).ok());
    reply.ok_or_else(|| match finished.stdout.omitted_bytes {
        omitted if omitted > 0 && finished.exit_code == 0 => {
            let message = format!(
                "the result is too large: {} of the output were left out; return less at a time",
                text::bytes(omitted)
            );
            ToolError::new(ToolErrorCode::LimitExceeded, message)
        }
        _ => no_result_error(finished),
    })
}

/// Returns the program that calls the tool. The arguments are embedded as a string, because an object literal would
/// interpret the key `__proto__` differently from the policy checks. The code is embedded as a string, too, and
/// evaluated as a module, so that `export` works.
fn node_program(input: &Value, code: &str) -> String {
    let (input, code) = (json!(input.to_string()), json!(code));
    format!("{NODE_BEFORE}\nconst given = JSON.parse({input});\nconst code = {code};\n{NODE_AFTER}")
}

/// Returns the Python program that calls the tool. A JSON string is a Python string, too.
fn python_program(input: &Value, code: &str) -> String {
    let (input, code) = (json!(input.to_string()), json!(code));
    format!("{PYTHON_RUNNER}run(json.loads({input}), {code})\n")
}

fn output(text: String) -> ToolOutput {
    ToolOutput {
        content: vec![Content::text(text)],
        structured: None,
        exit_code: None,
    }
}

/// Returns the error for a program that ended without a result.
fn no_result_error(finished: &CommandOutput) -> ToolError {
    let code = finished.exit_code;
    let stderr = String::from_utf8_lossy(&finished.stderr.bytes).into_owned();
    let message = match stderr.trim_end().lines().next_back() {
        Some(last) => format!("the tool ended with exit code {code}: {last}"),
        None => format!("the tool ended with exit code {code} and returned nothing"),
    };
    let stdout = String::from_utf8_lossy(&finished.stdout.bytes).into_owned();
    let details = json!({ "exitCode": code, "stdout": stdout, "stderr": stderr });
    ToolError::new(ToolErrorCode::ExecutionError, message).with_details(details)
}

/// Returns stdout as the result, unless the exit code indicates a failure.
fn output_by_exit_code(finished: CommandOutput) -> Result<ToolOutput, ToolError> {
    if finished.exit_code != 0 {
        return Err(no_result_error(&finished));
    }
    let mut text = String::from_utf8_lossy(&finished.stdout.bytes).into_owned();
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(output(text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mimir_core::command::CapturedOutput;

    use super::*;

    #[test]
    fn node_reply_that_was_cut_is_too_large() {
        let finished = |text: &str, omitted_bytes, exit_code| CommandOutput {
            exit_code,
            stdout: CapturedOutput {
                bytes: text.as_bytes().to_vec(),
                omitted_bytes,
            },
            stderr: CapturedOutput::default(),
            combined: CapturedOutput::default(),
            duration: Duration::ZERO,
            changed_auto_run_files: Vec::new(),
        };
        let whole = format!("log\n{RESULT_MARKER}{{\"text\": \"a\"}}\n");
        let begun = format!("{RESULT_MARKER}{{\"text\": \"a\n[… missing …]\na\"}}\n");
        for omitted in [0, 7] {
            let reply = parse_node_reply(&finished(&whole, omitted, 0)).unwrap();
            assert_eq!(reply, json!({"text": "a"}));
        }
        for (text, omitted, exit_code, code) in [
            ("aa\"}\n", 7, 0, ToolErrorCode::LimitExceeded),
            (begun.as_str(), 7, 0, ToolErrorCode::LimitExceeded),
            ("aa\"}\n", 7, 1, ToolErrorCode::ExecutionError),
            ("", 0, 0, ToolErrorCode::ExecutionError),
        ] {
            let error = parse_node_reply(&finished(text, omitted, exit_code)).unwrap_err();
            assert_eq!(error.code, code, "{text}: {error}");
        }
    }

    #[test]
    fn python_failure_has_a_host_code_only_if_the_host_failed() {
        let denied = ToolError::new(ToolErrorCode::ApprovalDenied, "a person said no")
            .with_remedies(["grant it".to_owned()]);
        let error = |code: &str, message: &str, failures: &[&ToolError]| {
            let returned = ReturnedValue {
                value: json!({"error": {"message": message, "code": code, "stack": []}}),
                failures: failures.iter().copied().cloned().collect(),
            };
            parse_python_result("tool.yml", &returned).unwrap_err()
        };
        for code in HOST_CODES {
            let forged = error(code.as_str(), "no", &[&denied]);
            assert_eq!(forged.code, ToolErrorCode::ExecutionError, "{code}");
        }
        let other = error("TIMEOUT", "a person said no", &[&denied]);
        assert_eq!(other.code, ToolErrorCode::ExecutionError);
        let own = error("NOT_FOUND", "the page does not exist", &[]);
        assert_eq!(own.code, ToolErrorCode::NotFound);
        let passed_on = error("APPROVAL_DENIED", "a person said no", &[&denied]);
        assert_eq!(passed_on.code, ToolErrorCode::ApprovalDenied);
        assert_eq!(passed_on.remedies, denied.remedies);
    }

    #[test]
    fn node_program_embeds_arguments_as_a_string() {
        let input = json!({"args": {"__proto__": {"path": "a\u{2028}\"'`"}}});
        let program = node_program(&input, "export const execute = () => 1;");
        let line = program.lines().find(|line| line.contains("const given"));
        let text = line.and_then(|line| line.strip_prefix("const given = JSON.parse("));
        let text = text.and_then(|text| text.strip_suffix(");")).unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), input);
    }
}
