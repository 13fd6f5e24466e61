//! Notifications with the messages of a running call.

use std::pin::pin;

use mimir_core::call::CallProgress;
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::mpsc::Receiver;

use crate::client_observer::{CallUpdate, LatestProgress};
use crate::logs;

/// Sends the messages of a call until the call has ended. The latest progress is sent last.
pub(super) async fn send_updates(
    updates: &mut Receiver<CallUpdate>,
    latest: &LatestProgress,
    tool: &str,
    context: &RequestContext<RoleServer>,
) {
    let mut next = pin!(latest.next());
    loop {
        tokio::select! {
            biased;
            update = updates.recv() => match update {
                Some(CallUpdate::Progress(progress)) => send_progress(progress, context).await,
                Some(CallUpdate::Line(line)) => {
                    logs::send(&context.peer, tool, line.level, line.text.into()).await;
                }
                None => break,
            },
            progress = &mut next => {
                send_progress(progress, context).await;
                next.set(latest.next());
            }
        }
    }
    if let Some(progress) = latest.take() {
        send_progress(progress, context).await;
    }
}

/// Sends a progress notification, if the client requested progress.
async fn send_progress(progress: CallProgress, context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    let mut notification = ProgressNotificationParam::new(token, number(progress.done));
    notification.total = progress.total.map(number);
    notification.message = progress.message;
    // An unreachable client misses the message; the call continues until its request is cancelled.
    let _ = context.peer.notify_progress(notification).await;
}

/// Converts a count to the protocol's number type. Rounding beyond 2^53 is acceptable for display.
fn number(count: u64) -> f64 {
    count as f64
}
