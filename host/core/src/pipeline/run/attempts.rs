//! Attempts of a call: a call that failed with an error that can pass is retried, if the settings say so.
//!
//! Only tools that change nothing or are idempotent are retried. All attempts are within the time limit of the call,
//! and each counts towards the calls per minute. A call that has asked a person while it ran is not retried, because
//! the person would be asked again.

use std::sync::Arc;

use crate::backend::{RawResult, ResourceUsage};
use crate::call::{LogLevel, LogLine};
use crate::config::RetryBlock;
use crate::error::ToolError;
use crate::pipeline::StageContext;
use crate::pipeline::approve::Approved;
use crate::pipeline::call_recorder::CallRecorder;

/// The attempts of one call.
pub(super) struct CallAttempts<'a> {
    stage: &'a StageContext<'a>,
    recorder: &'a CallRecorder,
    retries: Option<RetryBlock>,
    /// Number of attempts so far.
    pub(super) count: u32,
}

impl<'a> CallAttempts<'a> {
    pub(super) fn new(
        stage: &'a StageContext<'a>,
        recorder: &'a CallRecorder,
        call: &Approved,
    ) -> Self {
        Self {
            stage,
            recorder,
            retries: stage
                .snapshot
                .policy
                .retries(call.checked.judged_tool(), call.tool()),
            count: 0,
        }
    }

    /// Runs the call in its slot until it succeeds, fails for good, or has no retries left. During a delay, it has no
    /// slot.
    pub(super) async fn run(&mut self, mut call: Approved) -> Result<RawResult, ToolError> {
        let mut used = ResourceUsage::default();
        loop {
            self.count += 1;
            let next = self.is_retry_left().then(|| call.for_next_attempt());
            let tool = Arc::clone(call.tool());
            let mut raw = {
                let state = self.stage.shared_state();
                let _slots = self.stage.slots.take(&call, state).await?;
                if self.count == 1 {
                    self.recorder.announce(&call).await?;
                }
                tool.backend.run(call).await
            };
            raw.usage = used.plus(raw.usage);
            used = raw.usage;
            match next {
                Some(next) if self.prepare_retry(&next, &raw).await => call = next,
                _ => return Ok(raw),
            }
        }
    }

    fn is_retry_left(&self) -> bool {
        let retries = self.retries.as_ref();
        retries.is_some_and(|retries| self.count <= retries.max)
    }

    /// Records the failed attempt and waits. Returns false if the call is not retried.
    async fn prepare_retry(&self, next: &Approved, raw: &RawResult) -> bool {
        let (Some(retries), Err(error)) = (&self.retries, &raw.result) else {
            return false;
        };
        if !retries.covers(error.code) || next.has_asked_person() {
            return false;
        }
        let clock = &self.stage.ports.clock;
        let at = clock.instant() + retries.delay(self.count - 1);
        // The error says more than a timeout during the delay.
        let policy = &self.stage.snapshot.policy;
        if next.deadline().is_over_at(at) {
            return false;
        }
        let state = self.stage.shared_state();
        let counted = self.stage.slots.count_call(next, policy, at, state);
        if counted.await.is_err() {
            return false;
        }
        let detail = format!("attempt {} of {}", self.count, retries.max + 1);
        let recorded = self
            .recorder
            .record_attempt(clock.now(), error.code, &detail);
        if recorded.is_err() {
            return false;
        }
        next.observer().log(LogLine {
            level: LogLevel::Warn,
            text: format!("{detail} failed ({}); trying again", error.code),
        });
        clock.sleep_until(at).await;
        !next.deadline().is_over_at(clock.instant())
    }
}
