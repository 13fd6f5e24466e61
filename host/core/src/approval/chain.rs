//! A chain of approvers, with a timeout.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::clock::Clock;

use super::{ApprovalAnswer, Approver, Card};

/// Asks one approver after the other until one answers. A timeout is [`ApprovalAnswer::Expired`].
pub struct ApproverChain {
    approvers: Vec<Arc<dyn Approver>>,
    timeout: Option<Duration>,
    clock: Arc<dyn Clock>,
}

impl ApproverChain {
    /// Creates a chain that asks the approvers in this order. `timeout` limits the total waiting time for one card.
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

    async fn first_answer(&self, card: &Card) -> ApprovalAnswer {
        let mut last = ApprovalAnswer::Unattended {
            remedy: "No way to ask for approval is configured.".to_owned(),
        };
        for approver in &self.approvers {
            match approver.ask(card).await {
                missing if missing.is_missing() => last = missing,
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
            let timer = self.timeout.and_then(|timeout| {
                let deadline = self.clock.instant().checked_add(timeout)?;
                Some((timeout, self.clock.sleep_until(deadline)))
            });
            let Some((timeout, timer)) = timer else {
                return self.first_answer(card).await;
            };
            tokio::select! {
                biased;
                answer = self.first_answer(card) => answer,
                () = timer => ApprovalAnswer::Expired { timeout },
            }
        })
    }
}
