//! The remaining budget of each session, shared by the session's agent, its workers, and tools that use the model.
//!
//! Each task of the agent sets the budget, and each reply is deducted from it. A worker or a tool first makes a
//! [`BudgetReservation`]; dropping the reservation returns the unused part. The agent adds the used part to its own
//! usage, so that it counts towards the limits and the cost of the task. A worker's task has a [`SessionBudget`] of its
//! own: the reserved part, from which the workers that it calls reserve theirs.
//!
//! Out of scope: permissions and prices.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::{AgentBudget, TokenPrice};
use parking_lot::Mutex;

use crate::model::TokenUsage;
use crate::task_usage::{TaskUsage, cost};

/// The remaining budgets by session id. Clones share their state.
#[derive(Clone, Default)]
pub struct SessionBudget(Arc<Mutex<HashMap<String, SessionBudgetState>>>);

struct SessionBudgetState {
    left: AgentBudget,
    /// Usage of workers and tools that the session's agent has not added to its own yet.
    side_usage: TaskUsage,
}

/// A reserved part of a session's budget. Dropping it returns the unused part.
pub struct BudgetReservation {
    session_budget: SessionBudget,
    session: String,
    /// The reserved limits.
    pub budget: AgentBudget,
    /// The usage so far.
    pub spent: TaskUsage,
}

impl SessionBudget {
    /// Sets the budget of a session. The session's agent calls this at the start of each task.
    pub(crate) fn open(&self, session: &str, budget: AgentBudget) {
        let mut all = self.0.lock();
        let state = all
            .entry(session.to_owned())
            .or_insert_with(|| SessionBudgetState::new(budget));
        state.left = budget;
    }

    /// Deducts usage of the session's agent.
    pub(crate) fn deduct(&self, session: &str, usage: &TaskUsage) {
        if let Some(state) = self.0.lock().get_mut(session) {
            state.apply(&AgentBudget::NOTHING, usage);
        }
    }

    /// Takes the usage of workers and tools since the last call. The time is zero, because the agent counts the time of
    /// the surrounding tool call.
    pub(crate) fn take_side_usage(&self, session: &str) -> TaskUsage {
        let mut all = self.0.lock();
        let state = all.get_mut(session);
        let side_usage = state.map(|state| std::mem::take(&mut state.side_usage));
        TaskUsage {
            time_ms: 0,
            ..side_usage.unwrap_or_default()
        }
    }

    /// Reserves budget for a worker's task: the worker's `own` limits, capped at half of the session's remaining
    /// budget, so that some is left for parallel and later tasks. `all` is the budget of a session whose agent has not
    /// set one.
    pub(crate) fn reserve_half(
        &self,
        session: &str,
        all: AgentBudget,
        own: AgentBudget,
    ) -> Result<BudgetReservation, ToolError> {
        self.reserve(session, all, |left| {
            let half = AgentBudget {
                turns: left.turns.div_ceil(2),
                tool_calls: left.tool_calls.div_ceil(2),
                tokens: left.tokens.div_ceil(2),
                cost: left.cost.map(|cost| cost / 2.0),
                time: left.time / 2,
                ..all
            };
            let share = own.tightest(half);
            let is_empty = share.turns == 0
                || share.tokens == 0
                || share.time.is_zero()
                || share.cost.is_some_and(|cost| cost <= 0.0);
            (!is_empty).then_some(share)
        })
    }

    /// Reserves budget for one model request of a tool, with about `input` tokens sent and at most `max_output` tokens
    /// received. `price` is that of [`Model::estimate_price`](crate::Model::estimate_price). The reservation's
    /// `budget.answer_tokens` is the limit of the reply, which may be lower. `all` is the budget of a session whose agent
    /// has not set one.
    pub fn reserve_question(
        &self,
        session: &str,
        all: AgentBudget,
        price: Option<TokenPrice>,
        input: u64,
        max_output: u64,
    ) -> Result<BudgetReservation, ToolError> {
        self.reserve(session, all, |left| {
            let request_budget = AgentBudget {
                answer_tokens: max_output.min(all.answer_tokens),
                ..*left
            };
            let output = TaskUsage::default()
                .answer_tokens_left(&request_budget, price, input)
                .ok()?;
            let usage = TokenUsage::new(input, output);
            Some(AgentBudget {
                turns: 1,
                tool_calls: 0,
                tokens: input.saturating_add(output),
                cost: left
                    .cost
                    .map(|_| price.map_or(0.0, |price| cost(usage, price))),
                time: Duration::ZERO,
                answer_tokens: output,
                ..all
            })
        })
    }

    /// Reserves the part that `share` takes from the remaining budget. Fails if `share` returns `None`.
    fn reserve(
        &self,
        session: &str,
        all: AgentBudget,
        share: impl FnOnce(&AgentBudget) -> Option<AgentBudget>,
    ) -> Result<BudgetReservation, ToolError> {
        let mut states = self.0.lock();
        let state = states
            .entry(session.to_owned())
            .or_insert_with(|| SessionBudgetState::new(all));
        let Some(budget) = share(&state.left) else {
            let message = "this session has reached a task limit of `agent` in the settings";
            let remedy = "raise the limits in `agent`, or start a new session".to_owned();
            return Err(ToolError::limit_exceeded(message).with_remedies([remedy]));
        };
        let reserved = TaskUsage {
            turns: budget.turns,
            tool_calls: budget.tool_calls,
            input_tokens: budget.tokens,
            cost: budget.cost,
            time_ms: u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX),
            ..TaskUsage::default()
        };
        state.apply(&AgentBudget::NOTHING, &reserved);
        Ok(BudgetReservation {
            session_budget: self.clone(),
            session: session.to_owned(),
            budget,
            spent: TaskUsage::default(),
        })
    }
}

impl SessionBudgetState {
    fn new(left: AgentBudget) -> Self {
        Self {
            left,
            side_usage: TaskUsage::default(),
        }
    }

    /// Adds a returned reservation to the remaining budget and deducts its usage.
    fn apply(&mut self, reserved: &AgentBudget, usage: &TaskUsage) {
        let left = &mut self.left;
        let rest =
            |left: u64, returned: u64, used| left.saturating_add(returned).saturating_sub(used);
        left.turns = rest(left.turns, reserved.turns, usage.turns);
        left.tool_calls = rest(left.tool_calls, reserved.tool_calls, usage.tool_calls);
        left.tokens = rest(left.tokens, reserved.tokens, usage.tokens());
        let (returned, used) = (reserved.cost.unwrap_or(0.0), usage.cost.unwrap_or(0.0));
        left.cost = left.cost.map(|left| left + returned - used);
        left.time = left
            .time
            .saturating_add(reserved.time)
            .saturating_sub(Duration::from_millis(usage.time_ms));
    }
}

impl BudgetReservation {
    /// Sets the usage to that of a single reply.
    pub fn record_usage(
        &mut self,
        usage: TokenUsage,
        price: Option<TokenPrice>,
        elapsed: Duration,
    ) {
        self.spent = TaskUsage::default();
        self.spent.add_reply(usage, price, elapsed);
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        if let Some(state) = self.session_budget.0.lock().get_mut(&self.session) {
            state.apply(&self.budget, &self.spent);
            state.side_usage.add(&self.spent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;

    fn all() -> AgentBudget {
        AgentBudget {
            turns: 10,
            cost: Some(1.0),
            ..AgentBudget::default()
        }
    }

    #[test]
    fn session_budget_is_shared_by_parallel_tasks() {
        let (session_budget, all) = (SessionBudget::default(), all());
        let half = |session: &str, own| session_budget.reserve_half(session, all, own);
        let mut first = half("a", all).unwrap();
        assert_eq!((first.budget.turns, first.budget.cost), (5, Some(0.5)));
        let second = half("a", all).unwrap();
        assert_eq!((second.budget.turns, second.budget.cost), (3, Some(0.25)));
        // Another session has its own budget.
        assert_eq!(half("b", all).unwrap().budget.turns, 5);
        first.spent = TaskUsage {
            turns: 1,
            cost: Some(0.25),
            ..TaskUsage::default()
        };
        drop(first);
        // Of 10 turns, one is used and three are reserved.
        let third = half("a", all).unwrap();
        assert_eq!((third.budget.turns, third.budget.cost), (3, Some(0.25)));
        let own = AgentBudget { turns: 1, ..all };
        let taken: Vec<BudgetReservation> = (0..10).map_while(|_| half("a", own).ok()).collect();
        assert_eq!(taken.len(), 3);
        assert_eq!(
            half("a", own).err().unwrap().code,
            ToolErrorCode::LimitExceeded
        );
        drop(taken);
        assert!(
            half("a", own).is_ok(),
            "an unused reservation was not returned"
        );
    }

    #[test]
    fn session_budget_counts_agent_and_worker_usage() {
        let (session_budget, all) = (SessionBudget::default(), all());
        session_budget.open("a", all);
        let own = TaskUsage {
            turns: 4,
            cost: Some(0.5),
            ..TaskUsage::default()
        };
        session_budget.deduct("a", &own);
        let mut worker = session_budget.reserve_half("a", all, all).unwrap();
        assert_eq!((worker.budget.turns, worker.budget.cost), (3, Some(0.25)));
        worker.spent = TaskUsage {
            turns: 2,
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            time_ms: 5,
            ..TaskUsage::default()
        };
        drop(worker);
        let side_usage = session_budget.take_side_usage("a");
        assert_eq!(
            (side_usage.turns, side_usage.tokens(), side_usage.time_ms),
            (2, u64::MAX, 0)
        );
        assert_eq!(
            session_budget.take_side_usage("a"),
            TaskUsage::default(),
            "the usage was taken twice"
        );
        // The provider counted more tokens than were left, so nothing is left now.
        assert!(session_budget.reserve_half("a", all, all).is_err());
        assert!(
            session_budget
                .reserve_question("a", all, None, 10, 100)
                .is_err()
        );
        // The next task sets a new budget.
        session_budget.open("a", all);
        assert!(session_budget.reserve_half("a", all, all).is_ok());
    }

    #[test]
    fn session_budget_question_returns_unused_tokens() {
        let session_budget = SessionBudget::default();
        let all = AgentBudget {
            tokens: 1_000,
            cost: Some(0.01),
            answer_tokens: 500,
            ..all()
        };
        let price = Some(TokenPrice::new(1.0, 10.0));
        let ask =
            |input, max_output| session_budget.reserve_question("a", all, price, input, max_output);
        let mut first = ask(100, 5_000).unwrap();
        assert_eq!(
            (first.budget.answer_tokens, first.budget.tokens),
            (500, 600)
        );
        let beside = ask(100, 5_000).unwrap();
        assert_eq!(beside.budget.answer_tokens, 300);
        assert!(ask(100, 5_000).is_err());
        first
            .spent
            .add_reply(TokenUsage::new(100, 20), price, Duration::ZERO);
        drop((first, beside));
        assert_eq!(session_budget.take_side_usage("a").tokens(), 120);
        assert_eq!(ask(100, 5_000).unwrap().budget.answer_tokens, 500);
        assert_eq!(ask(800, 5_000).unwrap().budget.answer_tokens, 80);
        assert!(ask(880, 5_000).is_err());
    }
}
