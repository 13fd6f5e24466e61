//! Stores and records answers that apply beyond their call.

use std::sync::Arc;

use crate::approval::{ApprovalAnswer, ApprovalStoreError, Fingerprint, StoredApproval, timestamp};
use crate::audit::{AuditEvent, EventKind};
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::NeedKind;
use crate::pipeline::StageContext;
use crate::pipeline::call_recorder::CallRecorder;
use crate::pipeline::decide::Ruled;
use crate::tool::Tool;

use super::card;
use super::remembered_answer::approval_lookup;
use super::used_approval::UsedApproval;

/// Stores an answer that applies beyond the call: an approval for the session, a permanent approval, or a grant for the
/// whole plugin. Returns the stored approval. If the answer cannot be stored, it counts for this call only. If it cannot
/// be recorded in the audit log, the call fails.
pub(super) fn store_answer(
    stage: &StageContext<'_>,
    ruled: &Ruled,
    plugin: &[Arc<Tool>],
    answer: &ApprovalAnswer,
    recorder: &CallRecorder,
) -> Result<Option<UsedApproval>, ToolError> {
    recorder.check_ready()?;
    let (ports, checked) = (stage.ports, &ruled.checked);
    let tool = &checked.tool;
    let now = ports.clock.now();
    if *answer == ApprovalAnswer::Always && card::is_about_trust(&ruled.evaluation) {
        let withheld = tool.changes.as_ref();
        let withheld = withheld.map_or(&[][..], |changes| changes.withheld.as_slice());
        let stored = ports.approval_store.grant(plugin, withheld);
        let is_stored = stored.is_ok();
        let event = AuditEvent::new(EventKind::Grant, now)
            .with_subject(&tool.origin.location)
            .with_detail(&grant_detail(tool, withheld));
        record_answer_event(event, ruled, stored, answer, recorder)?;
        if is_stored {
            stage.sessions.grant(tool);
        }
        return Ok(None);
    }
    let lookup = approval_lookup(checked, &ruled.evaluation);
    let now_stamp = timestamp(now);
    let scope = ruled.assessment.as_ref().and_then(|one| one.scope.clone());
    let (stored, used, detail) = match answer {
        ApprovalAnswer::Session => {
            let session = stage.sessions.get(&checked.context.session_id);
            let approval = StoredApproval {
                scope,
                ..StoredApproval::new(&lookup, now_stamp, None)
            };
            let listed = ports
                .approval_store
                .list_for_session(&checked.context.session_id, &approval);
            if let Err(error) = &listed {
                tracing::warn!(%error, "the answer counts for this session, but `mimir approvals` cannot show it");
            }
            let id = approval.id.clone();
            session.remember_approval(approval, listed.is_ok());
            let used = UsedApproval::for_session(stage, &checked.context.session_id, &id);
            (Ok(()), used, "until the session ends".to_owned())
        }
        _ => {
            let expires_at = now_stamp
                .checked_add(stage.snapshot.policy.approval_lifetime())
                .ok();
            let detail = expires_at.map_or("for good".to_owned(), |end| format!("until {end:.0}"));
            let mut approval = StoredApproval {
                scope,
                ..StoredApproval::new(&lookup, now_stamp, expires_at)
            };
            if let ApprovalAnswer::AlwaysCommands(commands) = answer {
                approval.pattern = approval.pattern.narrowed_to(commands);
            }
            let used = UsedApproval::permanent(&approval.id);
            let stored = ports.approval_store.store(approval);
            let used = stored.is_ok().then_some(used);
            (stored, used, detail)
        }
    };
    record_answer_event(
        answer_event(ruled, now, &detail),
        ruled,
        stored,
        answer,
        recorder,
    )?;
    Ok(used)
}

/// Records that a person has edited the arguments. The record of the call itself has the final answer instead.
pub(super) fn record_edit(
    stage: &StageContext<'_>,
    ruled: &Ruled,
    recorder: &CallRecorder,
) -> Result<(), ToolError> {
    let now = stage.ports.clock.now();
    let event = answer_event(ruled, now, "the arguments were edited");
    let edit = ApprovalAnswer::Edit(serde_json::Value::Null);
    record_answer_event(event, ruled, Ok(()), &edit, recorder)
}

/// Describes a grant given with "always", for the audit log.
fn grant_detail(tool: &Tool, withheld: &[NeedKind]) -> String {
    let mut detail = format!("sha256 {}", tool.origin.digest);
    if !withheld.is_empty() {
        let names: Vec<_> = withheld.iter().map(|kind| kind.as_str()).collect();
        detail.push_str(&format!(", without {}", names.join(", ")));
    }
    detail
}

/// Creates the event of an answer. It identifies the call by its fingerprint, without the arguments.
fn answer_event(ruled: &Ruled, now: std::time::SystemTime, detail: &str) -> AuditEvent {
    let checked = &ruled.checked;
    let tool = &checked.tool;
    let shown = Fingerprint::new(
        tool.name().as_str(),
        &tool.origin.digest,
        &checked.arguments,
    );
    AuditEvent::new(EventKind::Approval, now)
        .with_subject(shown.as_str())
        .with_detail(detail)
}

/// Records a person's answer with the result of storing it.
fn record_answer_event(
    event: AuditEvent,
    ruled: &Ruled,
    stored: Result<(), ApprovalStoreError>,
    answer: &ApprovalAnswer,
    recorder: &CallRecorder,
) -> Result<(), ToolError> {
    let checked = &ruled.checked;
    let mut event = event
        .with_context(&checked.context)
        .with_tool_origin(&checked.tool);
    event.answer = Some(answer.as_str());
    event.parent = checked
        .parent
        .as_ref()
        .map(|parent| parent.tool.to_string());
    if let Err(error) = stored {
        tracing::warn!(%error, "the answer counts for this call only, because it could not be stored");
        event = event.refused(ToolErrorCode::Unavailable);
    }
    recorder.record(&event)
}
