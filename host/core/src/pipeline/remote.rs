//! Calls that other processes run: this process passes them on, and records only those that no process has run.

use std::pin::pin;
use std::sync::Arc;

use crate::call::Call;
use crate::call_monitor::{CallCancelled, until_cancelled};
use crate::call_switch::SessionSwitch;
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::Outcome;
use crate::remote_pipeline::RemotePipeline;

use super::call_recorder::CallRecorder;
use super::connections::PipelineConnections;
use super::run::CompletedRun;
use super::session::unavailable;
use super::{Pipeline, PipelineSnapshot, audit, interrupts, label, sanitize};

/// Runs a call in another process. The outcome of a call that reached its pipeline is returned as is. Dropping the future
/// cancels the call.
pub(super) async fn call(
    pipeline: &Pipeline,
    mut call: Call,
    snapshot: &Arc<PipelineSnapshot>,
    connections: &PipelineConnections,
    remote: &dyn RemotePipeline,
) -> Outcome {
    let role = snapshot.policy.role();
    let mut recorder = Box::new(CallRecorder::start(&call, snapshot, pipeline));
    recorder.set_called_tool(&call, snapshot);
    let session = pipeline.0.sessions.get(&call.context.session_id);
    let refused = match prepare(pipeline, &call, snapshot, connections, &mut recorder).await {
        Ok(()) => {
            // The process that runs the call records it, and also that it was cancelled.
            let sink = recorder.take_sink();
            call.observer = recorder.with_span(call.observer);
            call.observer = recorder.with_reports(call.observer, &call.context.request_id);
            // The copy is needed, because the call is passed on before it is known whether it completes at once.
            let arguments = call.arguments.clone();
            let register = || recorder.register_copy(&arguments);
            let session_id = call.context.session_id.clone();
            let switch = SessionSwitch {
                all: None,
                sessions: pipeline.0.running.stops(),
                session: &session_id,
            };
            let work = pin!(remote.call(call, role));
            let work = pin!(interrupts::until_stopped(&switch, work));
            match until_cancelled(register, work).await {
                Ok(Ok(Ok(outcome))) => {
                    session.record_outcome_elsewhere(&outcome);
                    recorder.report_elsewhere(sink.as_deref(), &outcome);
                    if let Some(reporter) = recorder.take_reporter() {
                        reporter.finish(&outcome);
                    }
                    return outcome;
                }
                Ok(Ok(Err(error))) => {
                    recorder.set_sink(sink);
                    error
                }
                // The process that runs the call records that it was stopped.
                Ok(Err(notice)) => {
                    recorder.record_stop_elsewhere(&notice);
                    interrupts::stopped_error(&notice, true)
                }
                // The process that runs the call records that it was cancelled.
                Err(CallCancelled) => recorder.remotely_cancelled_error(),
            }
        }
        Err(error) => error,
    };
    let stage = pipeline.stage_context(snapshot);
    let clean = sanitize::sanitize(CompletedRun::refused(refused), &recorder);
    let labeled = label::label(&stage, clean, &recorder);
    audit::audit(labeled, recorder, false).await
}

/// Checks what this process knows better than those that run its calls.
async fn prepare(
    pipeline: &Pipeline,
    call: &Call,
    snapshot: &PipelineSnapshot,
    connections: &PipelineConnections,
    recorder: &mut CallRecorder,
) -> Result<(), ToolError> {
    // After an order to stop all calls, a running call is stopped by the process that runs it.
    if let Some(notice) = connections.switch.stopped() {
        recorder.record_stop(&notice);
        return Err(interrupts::stopped_error(&notice, false));
    }
    // So that it is refused even if no process can run it.
    if let Some(notice) = (pipeline.0.running.stops()).stopped(&call.context.session_id) {
        recorder.record_stop(&notice);
        return Err(interrupts::stopped_error(&notice, false));
    }
    recorder.check_redactor(call, &snapshot.registry)?;
    if call.parent.is_some() {
        return Err(ToolError::internal(
            "a nested call cannot run in another process than the call that makes it",
        ));
    }
    // A view of the pipeline may have fewer tools than the processes that run its calls know.
    let hidden = snapshot.registry.left_out().iter();
    if snapshot.registry.get(&call.tool).is_none()
        && hidden.into_iter().any(|tool| tool.answers_to(&call.tool))
    {
        snapshot.registry.find(&call.tool)?;
    }
    if let Some(tool) = snapshot.registry.get(&call.tool)
        && let Some(reason) = snapshot.policy.refusal(tool)
    {
        let message = format!(
            "`{}` may not run: {} ({})",
            tool.name(),
            reason.text,
            reason.location()
        );
        return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
    }
    let session = pipeline.0.sessions.get(&call.context.session_id);
    if let Some(state) = &connections.state
        && session.has_unstored_changes()
    {
        // The label of a resumed session.
        let now = pipeline.0.ports.clock.now();
        session
            .load(&**state, &call.context.session_id, now)
            .await?;
        let stored = session.store(&**state, &call.context.session_id, now);
        stored
            .await
            .map_err(|error| unavailable("the call was not made", &error))?;
    }
    Ok(())
}
