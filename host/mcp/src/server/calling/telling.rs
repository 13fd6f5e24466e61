//! What a call says while it runs, as notifications.

use std::pin::pin;

use mimir_core::call::Progress;
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::mpsc::Receiver;

use crate::logs;
use crate::progress::{Latest, Said};

/// Passes on what a call says, until it can say nothing more: the newest progress comes last.
pub(super) async fn tell(
    said: &mut Receiver<Said>,
    latest: &Latest,
    tool: &str,
    context: &RequestContext<RoleServer>,
) {
    let mut next = pin!(latest.next());
    loop {
        tokio::select! {
            biased;
            words = said.recv() => match words {
                Some(Said::Progress(progress)) => send(progress, context).await,
                Some(Said::Line(line)) => {
                    logs::send(&context.peer, tool, line.level, line.text.into()).await;
                }
                None => break,
            },
            progress = &mut next => {
                send(progress, context).await;
                next.set(latest.next());
            }
        }
    }
    if let Some(progress) = latest.take() {
        send(progress, context).await;
    }
}

/// Sends a progress notification, if the client wants any.
async fn send(progress: Progress, context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    let mut told = ProgressNotificationParam::new(token, number(progress.done));
    told.total = progress.total.map(number);
    told.message = progress.message;
    // A client that cannot be reached gets no message; the call goes on until its request is cancelled.
    let _ = context.peer.notify_progress(told).await;
}

/// A count as the protocol has it. What is beyond a float's whole numbers is close enough for a person.
fn number(count: u64) -> f64 {
    count as f64
}
