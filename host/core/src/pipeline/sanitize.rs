//! Fifth stage: makes the result safe to show and cuts it to its limits. The whole result is sanitized, then masked
//! and checked against its schema again; it is cut last, so that a cut cannot split an escape sequence or a secret.

use crate::backend::Usage;
use crate::error::{Code, ToolError};
use crate::outcome::{Content, Output, json_len};
use crate::redact::MaskSummary;
use crate::text;

use super::mask;
use super::run::Ran;
use super::trail::Trail;

mod cut;
pub(super) mod fit;
mod show;

/// A result within its limits, safe to show.
pub struct Clean {
    pub(super) result: Result<Output, ToolError>,
    pub(super) usage: Usage,
    pub(super) truncated: bool,
    pub(super) masks: MaskSummary,
    pub(super) bytes_out: u64,
    pub(super) ran: bool,
}

/// The longest message of an error, in characters.
const MESSAGE_MAX: usize = 2_000;

pub(super) fn sanitize(ran: Ran, trail: &Trail) -> Clean {
    let redactor = trail.redactor();
    let mut masks = trail.quiet();
    let Ran { raw, tool, limits } = ran;
    let mut truncated = raw.truncated;
    let mut bytes_out = 0;
    let result = match raw.result {
        Ok(mut output) => {
            bytes_out = size(&output);
            let schema = tool
                .as_ref()
                .and_then(|tool| tool.definition.output_schema.as_ref());
            let escaped = show::output(&mut output);
            let marks = mask::output(&redactor, &mut output);
            if let Some(schema) = schema.filter(|_| escaped || marks.count() > 0) {
                fit::fit(&mut output, schema);
            }
            masks.add(marks);
            truncated |= cut::content(&mut output.content, limits.output_chars);
            match output.structured.take() {
                Some(mut value) => {
                    let was_cut = cut::structured(&mut value, limits.output_chars);
                    truncated |= was_cut;
                    output.structured = Some(value);
                    match schema {
                        Some(schema) if was_cut => whole(output, schema),
                        _ => Ok(output),
                    }
                }
                None => Ok(output),
            }
        }
        Err(error) => {
            bytes_out += error.message.len() as u64;
            let mut error = error;
            show::error(&mut error);
            masks.add(mask::error(&redactor, &mut error));
            for line in &mut error.way_out {
                redactor.text(line);
            }
            Err(cut_error(error, limits.output_chars, &mut truncated))
        }
    };
    Clean {
        result,
        usage: raw.usage,
        truncated,
        masks,
        bytes_out,
        ran: tool.is_some(),
    }
}

/// Checks a cut result against the output schema.
fn whole(output: Output, schema: &crate::schema::Schema) -> Result<Output, ToolError> {
    let fits = output
        .structured
        .as_ref()
        .is_some_and(|value| schema.validate("the result", value).is_ok());
    if fits {
        return Ok(output);
    }
    Err(ToolError::new(
        Code::LimitExceeded,
        "the structured result is longer than the limit (limits.outputChars) and cannot be cut; ask for less at a time",
    ))
}

fn size(output: &Output) -> u64 {
    let content: usize = output.content.iter().map(Content::len).sum();
    let structured = output.structured.as_ref().map_or(0, json_len);
    (content + structured) as u64
}

fn cut_error(mut error: ToolError, max: usize, truncated: &mut bool) -> ToolError {
    let kept = text::prefix(&error.message, MESSAGE_MAX).len();
    if kept < error.message.len() {
        error.message.truncate(kept);
        error.message.push('…');
        *truncated = true;
    }
    if let Some(details) = &mut error.details {
        *truncated |= cut::structured(details, max);
    }
    error
}
