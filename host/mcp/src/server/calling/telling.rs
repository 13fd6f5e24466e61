//! What a call says while it runs, as notifications.

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::mpsc::Receiver;

use crate::logs;
use crate::progress::Said;

/// Passes on what a call says, until it can say nothing more.
pub(super) async fn tell(
    said: &mut Receiver<Said>,
    tool: &str,
    context: &RequestContext<RoleServer>,
) {
    let token = context.meta.get_progress_token();
    while let Some(words) = said.recv().await {
        match words {
            Said::Progress(progress) => {
                let Some(token) = token.clone() else { continue };
                let mut told = ProgressNotificationParam::new(token, number(progress.done));
                told.total = progress.total.map(number);
                told.message = progress.message;
                // Whoever cannot be told is told nothing; the call goes on until its request is cancelled.
                let _ = context.peer.notify_progress(told).await;
            }
            Said::Line(line) => {
                logs::send(&context.peer, tool, line.level, line.text.into()).await;
            }
        }
    }
}

/// A count as the protocol has it. What is beyond a float's whole numbers is close enough for a person.
fn number(count: u64) -> f64 {
    count as f64
}
