//! Last stage: records the call before its outcome is returned.

use serde_json::json;

use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::{Outcome, Receipt};

use super::call_recorder::CallRecorder;
use super::label::Labeled;

/// Records the call and returns its outcome. `alone` is true if no other call is in flight.
pub(super) async fn audit(labeled: Labeled, recorder: Box<CallRecorder>, alone: bool) -> Outcome {
    let Labeled {
        clean,
        label,
        source,
    } = labeled;
    let ran = clean.ran;
    let outcome = Outcome {
        receipt: Receipt {
            duration_ms: recorder.run_time_ms(),
            fuel: clean.usage.fuel,
            peak_memory: clean.usage.peak_memory,
            bytes_in: recorder.bytes_in(),
            bytes_out: clean.bytes_out,
            tokens: Outcome::tokens(&clean.result),
            attempts: clean.attempts,
            cached: clean.cached,
        },
        result: clean.result,
        label,
        source,
        truncated: clean.truncated,
        redactions: clean.masks.count(),
    };
    let mut recorder = recorder;
    let reporter = recorder.take_reporter();
    let outcome = match recorder.finish(&outcome, alone).await {
        Ok(()) => outcome,
        // An unrecorded outcome is not returned, except a refusal, which is more useful than the recording error.
        Err(_) if !ran => outcome,
        Err(error) => Outcome {
            result: Err(ToolError::new(
                ToolErrorCode::Unavailable,
                format!(
                    "the call ran, but it could not be recorded, so its result is withheld: {error}; see `mimir doctor`"
                ),
            )
            .with_details(json!({"mayHaveRun": true}))),
            ..outcome
        },
    };
    if let Some(reporter) = reporter {
        reporter.finish(&outcome);
    }
    outcome
}
