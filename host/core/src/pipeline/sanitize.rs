//! Fifth stage: makes the result safe to show and cuts it to its limits. The whole result is escaped, then masked, and
//! checked against its schema again. It is cut last, so that a cut cannot split an escape sequence or a secret.

use crate::backend::ResourceUsage;
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::{Content, ToolOutput, json_len};
use crate::redact::MaskSummary;
use crate::text;

use super::call_recorder::CallRecorder;
use super::mask;
use super::run::CompletedRun;

mod cut;
mod escape_output;
pub(super) mod fit_schema;

/// A result that is safe to show and within its limits.
pub struct Clean {
    pub(super) result: Result<ToolOutput, ToolError>,
    pub(super) usage: ResourceUsage,
    pub(super) truncated: bool,
    pub(super) masks: MaskSummary,
    pub(super) bytes_out: u64,
    pub(super) ran: bool,
    pub(super) attempts: Option<u32>,
    pub(super) cached: bool,
}

/// Maximum length of an error message, in characters.
const MESSAGE_MAX: usize = 2_000;

/// Escapes, masks and cuts the result of a call, in this order.
pub(super) fn sanitize(completed: CompletedRun, recorder: &CallRecorder) -> Clean {
    let redactor = recorder.redactor();
    let mut masks = recorder.finish_observer();
    let CompletedRun {
        raw,
        tool,
        limits,
        attempts,
        cached,
    } = completed;
    let mut truncated = raw.truncated;
    let mut bytes_out = 0;
    let result = match raw.result {
        Ok(mut output) => {
            bytes_out = output_size(&output);
            let schema = tool
                .as_ref()
                .and_then(|tool| tool.definition.output_schema.as_ref());
            let escaped = escape_output::escape_output(&mut output);
            let new_masks = mask::mask_output(&redactor, &mut output);
            if let Some(schema) = schema.filter(|_| escaped || new_masks.count() > 0) {
                fit_schema::fit_to_schema(&mut output, schema);
            }
            masks.add(new_masks);
            truncated |= cut::cut_content(&mut output.content, limits.output_chars);
            match output.structured.take() {
                Some(mut value) => {
                    let was_cut = cut::cut_structured(&mut value, limits.output_chars);
                    truncated |= was_cut;
                    output.structured = Some(value);
                    match schema {
                        Some(schema) if was_cut => check_cut_result(output, schema),
                        _ => Ok(output),
                    }
                }
                None => Ok(output),
            }
        }
        Err(error) => {
            bytes_out += error.message.len() as u64;
            let mut error = error;
            escape_output::escape_error(&mut error);
            masks.add(mask::mask_error(&redactor, &mut error));
            for line in &mut error.remedies {
                redactor.mask_text(line);
            }
            Err(cut_error(error, limits.output_chars, &mut truncated))
        }
    };
    recorder.report_masked_canaries(&masks);
    Clean {
        result,
        usage: raw.usage,
        truncated,
        masks,
        bytes_out,
        ran: tool.is_some(),
        attempts,
        cached,
    }
}

/// Returns a cut result if it still matches the output schema, or an error.
fn check_cut_result(
    output: ToolOutput,
    schema: &crate::schema::Schema,
) -> Result<ToolOutput, ToolError> {
    let is_valid = output
        .structured
        .as_ref()
        .is_some_and(|value| schema.validate("the result", value).is_ok());
    if is_valid {
        return Ok(output);
    }
    Err(ToolError::new(
        ToolErrorCode::LimitExceeded,
        "the structured result exceeds the limit (limits.outputChars) and cannot be cut; request less data per call",
    ))
}

fn output_size(output: &ToolOutput) -> u64 {
    let content: usize = output.content.iter().map(Content::len).sum();
    let structured = output.structured.as_ref().map_or(0, json_len);
    (content + structured) as u64
}

fn cut_error(mut error: ToolError, max: usize, truncated: &mut bool) -> ToolError {
    let kept_len = text::prefix(&error.message, MESSAGE_MAX).len();
    if kept_len < error.message.len() {
        error.message.truncate(kept_len);
        error.message.push('…');
        *truncated = true;
    }
    if let Some(details) = &mut error.details {
        *truncated |= cut::cut_structured(details, max);
    }
    error
}
