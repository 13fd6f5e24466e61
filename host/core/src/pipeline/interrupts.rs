//! Stops running calls: all of them, or those of a session, with the kill switch, and those of tools whose grant was
//! revoked, that were removed, or that a rule denies now, and those that run by an approval that was revoked.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use crate::backend::BoxFuture;
use crate::call_switch::{CallSwitch, StopNotice};
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::Needs;
use crate::tool::{Tool, ToolSource};

use super::call_recorder::CallRecorder;
use super::{PipelineSnapshot, StageContext};

/// Runs `work`, unless the switch stops it before or meanwhile. Registers with the switch only if the work does
/// not complete at once.
pub(super) async fn until_stopped<F: Future>(
    switch: &dyn CallSwitch,
    mut work: Pin<&mut F>,
) -> Result<F::Output, StopNotice> {
    if let Some(notice) = switch.stopped() {
        return Err(notice);
    }
    let mut changed: Option<BoxFuture<'_, ()>> = None;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        // Polled before the work: the work must not go on after the order to stop.
        if let Some(notice) = poll_switch(switch, &mut changed, cx) {
            return Poll::Ready(Err(notice));
        }
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if changed.is_none() {
            // Created before the check, so that it reports changes after the check.
            changed = Some(switch.changed());
            if let Some(notice) = switch.stopped() {
                return Poll::Ready(Err(notice));
            }
            if let Some(notice) = poll_switch(switch, &mut changed, cx) {
                return Poll::Ready(Err(notice));
            }
        }
        Poll::Pending
    })
    .await
}

/// Returns the order to stop, if the switch has changed and there is one.
fn poll_switch<'a>(
    switch: &'a dyn CallSwitch,
    changed: &mut Option<BoxFuture<'a, ()>>,
    cx: &mut Context<'_>,
) -> Option<StopNotice> {
    while changed.as_mut()?.as_mut().poll(cx).is_ready() {
        *changed = Some(switch.changed());
        if let Some(notice) = switch.stopped() {
            return Some(notice);
        }
    }
    None
}

/// Creates the error of a call that the switch has stopped. `may_have_run` is true if its tool had started, and may have
/// changed something.
pub(super) fn stopped_error(notice: &StopNotice, may_have_run: bool) -> ToolError {
    let (by, reason) = notice.shown_origin();
    let (message, details) = if may_have_run {
        (
            format!("the call was stopped by {by}, and may have taken effect{reason}"),
            json!({"stoppedBy": by, "mayHaveRun": true}),
        )
    } else {
        let calls = notice.refused_calls();
        (
            format!("{calls} are stopped by {by}{reason}"),
            json!({"stoppedBy": by}),
        )
    };
    let remedy = match notice.session {
        Some(_) => "a person can let the agent work again: at the console, or in `mimir top`",
        None => "mimir start",
    };
    ToolError::unavailable(message)
        .with_details(details)
        .with_remedies([remedy.to_owned()])
}

/// A reason why a call may not go on.
pub(super) enum LostRights {
    /// The file or the server of the tool has another build.
    Replaced,
    /// The tool does not exist any more.
    Removed,
    /// A rule denies every call of the tool.
    Denied {
        /// The reason of the rule.
        text: String,
        /// The source of the rule.
        source: String,
    },
    /// The grant of the plugin was revoked.
    Revoked,
    /// The plugin has a grant with fewer rights.
    Reduced,
    /// The stored approval by which the call runs was revoked.
    ApprovalRevoked,
}

impl LostRights {
    /// Returns the reason as a clause.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Replaced | Self::Removed => {
                "its plugin was removed or replaced during the call".to_owned()
            }
            Self::Denied { text, source } => format!("{text} ({source})"),
            Self::Revoked => "its grant was revoked during the call".to_owned(),
            Self::Reduced => "a part of its permissions was revoked during the call".to_owned(),
            Self::ApprovalRevoked => {
                "the approval by which it ran was revoked during the call".to_owned()
            }
        }
    }

    /// Returns what a person can do about it.
    pub(super) fn remedy(&self, tool: &Tool) -> Option<String> {
        matches!(self, Self::Revoked).then(|| {
            format!(
                "`mimir tools trust {}` grants it again",
                tool.trust_argument()
            )
        })
    }
}

impl LostRights {
    /// Creates the error of a running call that was stopped. `may_have_run` is true if its tool had started, and may have
    /// changed something.
    fn into_error(self, tool: &Tool, may_have_run: bool) -> ToolError {
        let code = match self {
            Self::Denied { .. } => ToolErrorCode::PolicyDenied,
            _ => ToolErrorCode::PermissionDenied,
        };
        let (name, why) = (tool.name(), self.describe());
        let error = if may_have_run {
            let message =
                format!("the call of `{name}` was stopped, and may have taken effect: {why}");
            ToolError::new(code, message).with_details(json!({"mayHaveRun": true}))
        } else {
            ToolError::new(code, format!("the call of `{name}` was stopped: {why}"))
        };
        error.with_remedies(self.remedy(tool))
    }
}

/// Returns the current version of a tool, and the part that it still has of the rights with which a call of it began.
pub(super) fn current_rights(
    tool: &Tool,
    rights_at_start: Needs,
    snapshot: &PipelineSnapshot,
) -> Result<(Arc<Tool>, Needs), LostRights> {
    let Some(current) = snapshot.registry.get(tool.name().as_str()) else {
        return Err(LostRights::Removed);
    };
    if current.origin.digest != tool.origin.digest
        || current.origin.location != tool.origin.location
    {
        return Err(LostRights::Replaced);
    }
    if let Some(reason) = snapshot.policy.refusal(current) {
        return Err(LostRights::Denied {
            text: reason.text,
            source: reason.source,
        });
    }
    let rights = current
        .rights()
        .for_running_call(tool.trust, rights_at_start);
    let rights = rights.ok_or(LostRights::Revoked)?;
    Ok((Arc::clone(current), rights))
}

/// The changes of the tools and rules of a pipeline.
#[derive(Default)]
pub(super) struct SnapshotChanges {
    count: AtomicU64,
    changed: Notify,
}

impl SnapshotChanges {
    /// Returns the number of changes so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Reports a change to all running calls.
    pub(super) fn report(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.changed.notify_waiters();
    }
}

/// Interval at which a running call checks that the stored approval by which it runs was not revoked.
const APPROVAL_CHECK: Duration = Duration::from_millis(500);

/// Runs the tool of a call until it completes, or until the tools, the rules or the stored approvals no longer permit it.
/// `equivalent` is the tool with the same effect, if there is one. Waits for changes only if the work does not complete at
/// once.
pub(super) async fn until_revoked<F: Future>(
    stage: &StageContext<'_>,
    tool: &Tool,
    equivalent: Option<&Tool>,
    recorder: &CallRecorder,
    work: Pin<&mut F>,
) -> Result<F::Output, ToolError> {
    let mut work = pin!(until_rights_lost(stage, tool, equivalent, recorder, work));
    if recorder.used_approvals().is_empty() {
        return work.await;
    }
    let clock = &stage.ports.clock;
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = clock.sleep_until(clock.instant() + APPROVAL_CHECK) => {
                let store = &*stage.ports.approval_store;
                let mut used = recorder.used_approvals().iter();
                if used.any(|approval| approval.is_revoked(store, stage.sessions)) {
                    recorder.mark_lost_rights();
                    return Err(LostRights::ApprovalRevoked.into_error(tool, recorder.may_have_run()));
                }
            }
        }
    }
}

/// Runs the tool of a call until it completes, or until the tools and rules no longer permit it.
async fn until_rights_lost<F: Future>(
    stage: &StageContext<'_>,
    tool: &Tool,
    equivalent: Option<&Tool>,
    recorder: &CallRecorder,
    mut work: Pin<&mut F>,
) -> Result<F::Output, ToolError> {
    let check_changes = |checked: &mut u64| {
        let checked = check_changes(stage, tool, equivalent, checked);
        checked.map_err(|lost| {
            recorder.mark_lost_rights();
            lost.into_error(tool, recorder.may_have_run())
        })
    };
    let changes = &stage.pipeline.0.replaced;
    let mut checked = stage.changes;
    let mut notified = pin!(changes.changed.notified());
    let mut is_waiting = false;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        // A change that was made while the call waited for a person or a slot counts, too.
        check_changes(&mut checked)?;
        if is_waiting && notified.as_mut().poll(cx).is_ready() {
            is_waiting = false;
            notified.set(changes.changed.notified());
            check_changes(&mut checked)?;
        }
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        while !is_waiting {
            is_waiting = notified.as_mut().poll(cx).is_pending();
            if !is_waiting {
                notified.set(changes.changed.notified());
            }
            check_changes(&mut checked)?;
        }
        Poll::Pending
    })
    .await
}

/// Checks the rights of a running call if the tools or rules have changed since the last check.
fn check_changes(
    stage: &StageContext<'_>,
    tool: &Tool,
    equivalent: Option<&Tool>,
    checked: &mut u64,
) -> Result<(), LostRights> {
    let count = stage.pipeline.0.replaced.count();
    if count == *checked {
        return Ok(());
    }
    *checked = count;
    check_rights(tool, equivalent, &stage.pipeline.snapshot())
}

/// Fails if a running call of the tool may not go on with the current tools and rules. A call of a build that was replaced
/// goes on without effects.
fn check_rights(
    tool: &Tool,
    equivalent: Option<&Tool>,
    snapshot: &PipelineSnapshot,
) -> Result<(), LostRights> {
    let rights_at_start = tool.rights().for_approved_call();
    match current_rights(tool, rights_at_start.clone(), snapshot) {
        Ok((_, rights)) if rights == rights_at_start => {}
        Ok(_) => return Err(LostRights::Reduced),
        Err(LostRights::Replaced) => {}
        // The server of the tool is configured, but does not answer at present.
        Err(LostRights::Removed) if is_server_unavailable(tool, snapshot) => {}
        Err(lost) => return Err(lost),
    }
    let equivalent =
        equivalent.and_then(|equivalent| snapshot.registry.get(equivalent.name().as_str()));
    match equivalent.and_then(|equivalent| snapshot.policy.refusal(equivalent)) {
        Some(reason) => Err(LostRights::Denied {
            text: reason.text,
            source: reason.source,
        }),
        None => Ok(()),
    }
}

fn is_server_unavailable(tool: &Tool, snapshot: &PipelineSnapshot) -> bool {
    let find = || snapshot.registry.find(tool.name().as_str());
    tool.source == ToolSource::Mcp
        && find().is_err_and(|error| error.code == ToolErrorCode::Unavailable)
}
