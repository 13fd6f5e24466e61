//! Stores and records answers that hold beyond their call.

use std::sync::Arc;

use crate::approval::{Answer, Fingerprint, Lease, LedgerError, timestamp};
use crate::audit::{Event, Kind};
use crate::error::{Code, ToolError};
use crate::needs::NeedKind;
use crate::pipeline::Road;
use crate::pipeline::decide::Ruled;
use crate::pipeline::trail::Trail;
use crate::tool::Tool;

use super::card;
use super::remembered::question;

/// Stores an answer that holds beyond this call: for the session, for good, or for a whole plugin. An answer that
/// cannot be recorded is not stored, and the call fails.
pub(super) fn keep(
    road: &Road<'_>,
    ruled: &Ruled,
    plugin: &[Arc<Tool>],
    answer: &Answer,
    trail: &Trail,
) -> Result<(), ToolError> {
    trail.ready()?;
    let (ports, checked) = (road.ports, &ruled.checked);
    let tool = &checked.tool;
    let now = ports.clock.now();
    if *answer == Answer::Always && card::is_about_trust(&ruled.evaluation) {
        let withheld = tool.changes.as_ref();
        let withheld = withheld.map_or(&[][..], |changes| changes.withheld.as_slice());
        let kept = ports.ledger.grant(plugin, withheld);
        let lasts = kept.is_ok();
        let event = Event::of(Kind::Grant, now)
            .with_subject(&tool.origin.location)
            .with_detail(&granted(tool, withheld));
        recorded(event, ruled, kept, answer, trail)?;
        if lasts {
            road.sessions.grant(tool);
        }
        return Ok(());
    }
    let question = question(checked, &ruled.evaluation);
    let now_stamp = timestamp(now);
    let (kept, detail) = match answer {
        Answer::Session => {
            let session = road.sessions.get(&checked.context.session_id);
            let lease = Lease::new(&question, now_stamp, None);
            let listed = ports.ledger.list(&checked.context.session_id, &lease);
            if let Err(error) = &listed {
                tracing::warn!(%error, "the answer counts for this session, and `mimir approvals` does not show it");
            }
            session.keep(lease, listed.is_ok());
            (Ok(()), "until the session ends".to_owned())
        }
        _ => {
            let end = now_stamp.checked_add(road.world.policy.lease_life()).ok();
            let detail = end.map_or("for good".to_owned(), |end| format!("until {end:.0}"));
            let kept = ports.ledger.keep(Lease::new(&question, now_stamp, end));
            (kept, detail)
        }
    };
    recorded(approval(ruled, now, &detail), ruled, kept, answer, trail)
}

/// Records that a person has changed the arguments: the call itself ends with another answer.
pub(super) fn note_edit(road: &Road<'_>, ruled: &Ruled, trail: &Trail) -> Result<(), ToolError> {
    let now = road.ports.clock.now();
    let event = approval(ruled, now, "other arguments were put in place");
    let edit = Answer::Edit(serde_json::Value::Null);
    recorded(event, ruled, Ok(()), &edit, trail)
}

/// Describes a grant given with "always", for the record.
fn granted(tool: &Tool, withheld: &[NeedKind]) -> String {
    let mut detail = format!("sha256 {}", tool.origin.digest);
    if !withheld.is_empty() {
        let names: Vec<_> = withheld.iter().map(|kind| kind.as_str()).collect();
        detail.push_str(&format!(", without {}", names.join(", ")));
    }
    detail
}

/// Creates the event of an answer. It names the call that was shown, never its arguments.
fn approval(ruled: &Ruled, now: std::time::SystemTime, detail: &str) -> Event {
    let checked = &ruled.checked;
    let tool = &checked.tool;
    let shown = Fingerprint::new(
        tool.name().as_str(),
        &tool.origin.digest,
        &checked.arguments,
    );
    Event::of(Kind::Approval, now)
        .with_subject(shown.as_str())
        .with_detail(detail)
}

fn recorded(
    event: Event,
    ruled: &Ruled,
    kept: Result<(), LedgerError>,
    answer: &Answer,
    trail: &Trail,
) -> Result<(), ToolError> {
    let checked = &ruled.checked;
    let mut event = event.in_call(&checked.context).of_tool(&checked.tool);
    event.answer = Some(answer.as_str());
    event.parent = checked
        .parent
        .as_ref()
        .map(|parent| parent.tool.to_string());
    if let Err(error) = kept {
        tracing::warn!(%error, "the answer counts for this call, and is not remembered");
        event = event.refused(Code::Unavailable);
    }
    trail.record(&event)
}
