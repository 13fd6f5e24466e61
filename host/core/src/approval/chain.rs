//! A chain of approvers, with a timeout.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::clock::Clock;

use super::{ApprovalAnswer, Approver, Card};

/// Asks one approver after the other until one answers. A timeout counts as a no.
pub struct ApproverChain {
    approvers: Vec<Arc<dyn Approver>>,
    timeout: Option<Duration>,
    clock: Arc<dyn Clock>,
}

impl ApproverChain {
    /// A chain in the order of asking.
    pub fn new(
        approvers: Vec<Arc<dyn Approver>>,
        timeout: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            approvers,
            timeout,
            clock,
        }
    }

    async fn first(&self, card: &Card) -> ApprovalAnswer {
        let mut last = ApprovalAnswer::Unattended {
            way_out: "No way to ask a person is set up.".to_owned(),
        };
        for approver in &self.approvers {
            match approver.ask(card).await {
                nobody @ ApprovalAnswer::Unattended { .. } => last = nobody,
                answer => return answer,
            }
        }
        last
    }
}

impl Approver for ApproverChain {
    fn needs_separate_answers(&self) -> bool {
        self.approvers
            .iter()
            .any(|approver| approver.needs_separate_answers())
    }

    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            // A timeout beyond the range of the clock is treated as unlimited.
            let end = self.timeout.and_then(|timeout| {
                let at = self.clock.instant().checked_add(timeout)?;
                Some((timeout, self.clock.sleep_until(at)))
            });
            let Some((timeout, end)) = end else {
                return self.first(card).await;
            };
            tokio::select! {
                biased;
                answer = self.first(card) => answer,
                () = end => ApprovalAnswer::Unattended {
                    way_out: format!(
                        "No answer within {} s (approvals.timeoutMs): call it again when a person can answer.",
                        timeout.as_secs_f64()
                    ),
                },
            }
        })
    }
}
