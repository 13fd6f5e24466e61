//! Printing of a call's outcome.

use std::io::{self, Write};

use mimir_core::outcome::ToolOutput;
use mimir_core::{Content, Outcome, ToolError, ToolErrorCode};
use serde::Serialize;
use serde_json::Value;

use crate::exit::CommandResult;

use super::workspace_option::all_with_workspace;
use super::{BAD, FAINT, ResultPrinter, STRONG, labelled_note, note, styled, warn, wrapped_note};

/// Prints an outcome: text parts to stdout, everything else to stderr. With `--json`, all of it goes to stdout.
pub fn print(printer: ResultPrinter, outcome: &Outcome) -> CommandResult<()> {
    if printer.is_json() {
        let remedies = outcome.result().err().map(|error| &*error.remedies);
        return printer.print_json(&PrintedOutcome {
            outcome,
            remedies: all_with_workspace(remedies.unwrap_or_default()),
        });
    }
    match outcome.result() {
        Ok(output) => {
            printer.print_result(outcome, |out| text(out, output))?;
            for part in &output.content {
                print_unshown_part(part);
            }
            if let Some(code) = output.exit_code.filter(|code| *code != 0) {
                note(format_args!("{} exit code {code}", styled(BAD, "failed:")));
            }
        }
        Err(failure) => error(failure)?,
    }
    if outcome.truncated() {
        warn(
            "the result was truncated to the limits of the call (limits.outputChars, limits.outputBytes)",
        );
    }
    Ok(())
}

/// JSON of an outcome for the user. Hints on how to allow the call are not part of [`Outcome`], which models see.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrintedOutcome<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    #[serde(rename = "wayOut", skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<String>,
}

/// Prints the text parts, or the structured result if there are none.
fn text(out: &mut dyn Write, output: &ToolOutput) -> io::Result<()> {
    let mut any = false;
    for part in &output.content {
        if let Content::Text { text } = part {
            any = true;
            out.write_all(text.as_bytes())?;
            if !text.ends_with('\n') {
                out.write_all(b"\n")?;
            }
        }
    }
    match &output.structured {
        Some(value) if !any => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            out.write_all(b"\n")
        }
        _ => Ok(()),
    }
}

/// Prints a description of content that a terminal cannot show.
fn print_unshown_part(part: &Content) {
    let (description, mime_type) = match part {
        Content::Text { .. } => return,
        Content::Image { mime_type, .. } => ("an image".to_owned(), mime_type),
        Content::Audio { mime_type, .. } => ("audio".to_owned(), mime_type),
        Content::File {
            name, mime_type, ..
        } => (
            format!("the file `{}`", mimir_core::text::visible(name)),
            mime_type,
        ),
    };
    let size = mimir_core::text::bytes(part.len() as u64);
    let kind = mimir_core::text::visible(mime_type);
    note(styled(
        FAINT,
        format_args!("+ {description} ({kind}, {size}); use --json to get it"),
    ));
}

/// Prints an error to stderr: its message, code, details and remedies.
pub fn error(error: &ToolError) -> CommandResult<()> {
    let message = format!("{} [{}]", short_message(error), error.code);
    labelled_note(BAD, "error:", message);
    for line in details(error) {
        note(format_args!(
            "  {}",
            wrapped_note(&line).replace('\n', "\n  ")
        ));
    }
    print_stack(error);
    print_output(error);
    print_remedies(error);
    Ok(())
}

/// Prints the stack frames of a failed script, innermost first. A single frame is not printed, because the message
/// contains it.
fn print_stack(error: &ToolError) {
    let frames = error.details.as_ref().map(|details| &details["stack"]);
    let frames = frames
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if frames.len() < 2 {
        return;
    }
    for frame in frames.iter().filter_map(Value::as_str) {
        note(format_args!("    at {}", mimir_core::text::visible(frame)));
    }
}

/// Maximum number of printed output lines of a stopped command.
const MAX_OUTPUT_LINES: usize = 40;

/// Prints the output of a stopped command.
fn print_output(error: &ToolError) {
    let output = error.details.as_ref().map(|details| &details["output"]);
    let lines: Vec<&str> = output
        .and_then(Value::as_str)
        .map_or_else(Vec::new, |output| output.lines().collect());
    if lines.is_empty() {
        return;
    }
    note(styled(STRONG, "its output"));
    let hidden = lines.len().saturating_sub(MAX_OUTPUT_LINES);
    if hidden > 0 {
        note(format_args!(
            "  … {hidden} earlier lines; use --json to see them"
        ));
    }
    for line in &lines[hidden..] {
        note(format_args!("  {}", mimir_core::text::visible(line)));
    }
}

/// Prints the steps that would allow a refused call, or solve another problem. All steps are needed.
pub fn print_remedies(error: &ToolError) {
    print_steps(remedies_heading(error.code), &error.remedies);
}

fn remedies_heading(code: ToolErrorCode) -> &'static str {
    match code {
        ToolErrorCode::PermissionDenied
        | ToolErrorCode::ApprovalDenied
        | ToolErrorCode::PolicyDenied => "To allow this, do the following:",
        _ => "To fix this, do the following:",
    }
}

/// Prints steps below a heading.
pub fn print_steps(heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        note(styled(STRONG, heading));
    }
    for line in lines {
        note(format_args!("  {}", mimir_core::text::visible(line)));
    }
}

/// Returns the message without the failures that the details list.
fn short_message(error: &ToolError) -> &str {
    match (failures(error), error.message.split_once(':')) {
        (Some(_), Some((before, _))) => before,
        _ => &error.message,
    }
}

/// Returns what a failed validation calls the whole value: `the arguments` or `the result`.
fn validated_value(error: &ToolError) -> &str {
    let subject = short_message(error).strip_suffix(" must match the schema");
    subject.unwrap_or("the value")
}

fn failures(error: &ToolError) -> Option<&Vec<Value>> {
    error.details.as_ref()?.get("failures")?.as_array()
}

fn details(error: &ToolError) -> Vec<String> {
    let line = |value: &Value| mimir_core::text::visible(value.as_str().unwrap_or_default());
    if let Some(failures) = failures(error) {
        return failures
            .iter()
            .map(|failure| {
                let (path, message) = (line(&failure["path"]), line(&failure["message"]));
                match path.as_str() {
                    // The number of further failures has no position.
                    "" if message.starts_with("and ") => message,
                    "" => format!("{}: {message}", validated_value(error)),
                    path => format!("{path}: {message}"),
                }
            })
            .collect();
    }
    let reasons = error
        .details
        .as_ref()
        .and_then(|details| details["reasons"].as_array());
    let reasons = || reasons.into_iter().flatten();
    // An `ask` or `deny` overrides these.
    let is_allow = |reason: &&Value| reason["decision"] == "allow";
    let are_overridden = !reasons().all(|reason| is_allow(&reason));
    reasons()
        .filter(|reason| !(are_overridden && is_allow(reason)))
        .map(|reason| {
            let location = match reason["source"].as_str() {
                None | Some("") => &reason["rule"],
                Some(_) => &reason["source"],
            };
            format!(
                "{}: {} ({})",
                line(&reason["decision"]),
                line(&reason["text"]),
                line(location)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn error_output_has_a_line_for_each_failure() {
        let error = ToolError::invalid_input("the arguments must match the schema: /n: is wrong; the arguments: has more")
            .with_details(json!({"failures": [{"path": "/n", "message": "is wrong"}, {"path": "", "message": "has more"}]}));
        assert_eq!(short_message(&error), "the arguments must match the schema");
        assert_eq!(details(&error), ["/n: is wrong", "the arguments: has more"]);
    }

    #[test]
    fn error_output_leaves_out_overridden_reasons() {
        let reason = |decision: &str| json!({"decision": decision, "text": "it does", "rule": "a"});
        let lines = |decisions: &[&str]| {
            let reasons: Vec<Value> = decisions.iter().map(|one| reason(one)).collect();
            details(&ToolError::approval_denied("no").with_details(json!({"reasons": reasons})))
        };
        assert_eq!(lines(&["ask", "allow"]), ["ask: it does (a)"]);
        assert_eq!(lines(&["allow"]), ["allow: it does (a)"]);
    }

    #[test]
    fn remedies_are_called_a_permission_only_after_a_refusal() {
        let heading = remedies_heading(ToolErrorCode::PolicyDenied);
        assert_eq!(heading, "To allow this, do the following:");
        let heading = remedies_heading(ToolErrorCode::Unavailable);
        assert_eq!(heading, "To fix this, do the following:");
    }

    #[test]
    fn output_prints_structured_result_without_text() {
        let mut out = Vec::new();
        let mut output = ToolOutput {
            structured: Some(json!({"a": 1})),
            ..ToolOutput::default()
        };
        text(&mut out, &output).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\n  \"a\": 1\n}\n");
        output.content = vec![Content::text("one"), Content::text("two\n")];
        let mut out = Vec::new();
        text(&mut out, &output).unwrap();
        assert_eq!(out, b"one\ntwo\n");
    }
}
