//! The remaining budget of each session, shared by the session's agent, its workers, and tools that use the model.
//!
//! Each task of the agent sets the budget, and each reply is deducted from it. A worker or a tool first makes a
//! [`BudgetReservation`]; dropping the reservation returns the unused part. The agent adds the used part to its own
//! usage, so that it counts towards the limits and the cost of the task. A worker's task has a [`SessionBudget`] of its
//! own: the reserved part, from which the workers that it calls reserve theirs.
//!
//! In a cluster, the usage of each session is in the shared state, so that the limits hold for all processes together. A
//! part that a lost process has reserved stays reserved.
//!
//! Out of scope: permissions and prices.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::{AgentBudget, TokenPrice};
use mimir_core::shared_state::SharedStateHandle;
use parking_lot::Mutex;

use crate::model::TokenUsage;
use crate::task_usage::{TaskUsage, cost};

mod shared_usage;

use shared_usage::SharedUsage;

/// The remaining budgets by session id. Clones share their state.
#[derive(Clone, Default)]
pub struct SessionBudget(Arc<SessionBudgets>);

#[derive(Default)]
struct SessionBudgets {
    sessions: Mutex<HashMap<String, SessionBudgetState>>,
    /// The usage that counts if it is set, instead of `left`.
    shared: OnceLock<SharedUsage>,
}

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
    is_returned: bool,
}

impl SessionBudget {
    /// Counts usage in the shared state from now on, so that the limits hold for all processes of the deployment
    /// together. Further calls have no effect.
    pub fn share(&self, state: SharedStateHandle) {
        self.0.shared.get_or_init(|| SharedUsage::new(state));
    }

    /// Sets the budget of a session. The session's agent calls this at the start of each task.
    pub(crate) async fn open(&self, session: &str, budget: AgentBudget) -> Result<(), ToolError> {
        self.0
            .sessions
            .lock()
            .entry(session.to_owned())
            .or_insert_with(|| SessionBudgetState::new(budget))
            .left = budget;
        match self.0.shared.get() {
            Some(shared) => shared.reset(session).await,
            None => Ok(()),
        }
    }

    /// Deducts usage of the session's agent.
    pub(crate) async fn deduct(&self, session: &str, usage: &TaskUsage) -> Result<(), ToolError> {
        if let Some(state) = self.0.sessions.lock().get_mut(session) {
            state.apply(&AgentBudget::NOTHING, usage);
        }
        match self.0.shared.get() {
            Some(shared) => shared.replace(session, &TaskUsage::default(), usage).await,
            None => Ok(()),
        }
    }

    /// Takes the usage of workers and tools since the last call. The time is zero, because the agent counts the time of
    /// the surrounding tool call.
    pub(crate) fn take_side_usage(&self, session: &str) -> TaskUsage {
        let mut all = self.0.sessions.lock();
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
    pub(crate) async fn reserve_half(
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
        .await
    }

    /// Reserves budget for one model request of a tool, with about `input` tokens sent and at most `max_output` tokens
    /// received. `price` is that of [`Model::estimate_price`](crate::Model::estimate_price). The reservation's
    /// `budget.answer_tokens` is the limit of the reply, which may be lower. `all` is the budget of a session whose agent
    /// has not set one.
    pub async fn reserve_question(
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
        .await
    }

    /// Reserves the part that `share` takes from the remaining budget. Fails if `share` returns `None`.
    async fn reserve(
        &self,
        session: &str,
        all: AgentBudget,
        share: impl Fn(&AgentBudget) -> Option<AgentBudget> + Send + Sync,
    ) -> Result<BudgetReservation, ToolError> {
        let budget = match self.0.shared.get() {
            Some(shared) => shared.reserve(session, all, share).await?,
            None => self.reserve_locally(session, all, share),
        };
        let Some(budget) = budget else {
            let message = "this session has reached a task limit of `agent` in the settings";
            let remedy = "raise the limits in `agent`, or start a new session".to_owned();
            return Err(ToolError::limit_exceeded(message).with_remedies([remedy]));
        };
        Ok(BudgetReservation {
            session_budget: self.clone(),
            session: session.to_owned(),
            budget,
            spent: TaskUsage::default(),
            is_returned: false,
        })
    }

    fn reserve_locally(
        &self,
        session: &str,
        all: AgentBudget,
        share: impl Fn(&AgentBudget) -> Option<AgentBudget>,
    ) -> Option<AgentBudget> {
        let mut states = self.0.sessions.lock();
        let state = states
            .entry(session.to_owned())
            .or_insert_with(|| SessionBudgetState::new(all));
        let budget = share(&state.left)?;
        state.apply(&AgentBudget::NOTHING, &as_usage(&budget));
        Some(budget)
    }
}

/// Returns the usage if a whole budget is used.
fn as_usage(budget: &AgentBudget) -> TaskUsage {
    TaskUsage {
        turns: budget.turns,
        tool_calls: budget.tool_calls,
        input_tokens: budget.tokens,
        cost: budget.cost,
        time_ms: u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX),
        ..TaskUsage::default()
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

impl BudgetReservation {
    /// Returns the unused part, and waits until all processes know it. Dropping the reservation does not wait.
    pub async fn finish(mut self) {
        if let Some(returned) = self.give_back() {
            returned.await;
        }
    }

    /// Returns the unused part. The future has to be awaited if the usage is shared.
    fn give_back(&mut self) -> Option<impl Future<Output = ()> + Send + 'static + use<>> {
        if std::mem::replace(&mut self.is_returned, true) {
            return None;
        }
        let budgets = &self.session_budget.0;
        if let Some(state) = budgets.sessions.lock().get_mut(&self.session) {
            state.apply(&self.budget, &self.spent);
            state.side_usage.add(&self.spent);
        }
        budgets.shared.get()?;
        let (budgets, session) = (Arc::clone(budgets), self.session.clone());
        let (reserved, spent) = (as_usage(&self.budget), self.spent);
        Some(async move {
            let Some(shared) = budgets.shared.get() else {
                return;
            };
            if let Err(error) = shared.replace(&session, &reserved, &spent).await {
                tracing::warn!(%error, "an unused part of the budget of a session stays reserved");
            }
        })
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        let Some(returned) = self.give_back() else {
            return;
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(returned)),
            Err(error) => {
                tracing::warn!(%error, "an unused part of the budget of a session stays reserved");
            }
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

    #[tokio::test]
    async fn session_budget_is_shared_by_parallel_tasks() {
        let (session_budget, all) = (SessionBudget::default(), all());
        let half = |session: &'static str, own| session_budget.reserve_half(session, all, own);
        let mut first = half("a", all).await.unwrap();
        assert_eq!((first.budget.turns, first.budget.cost), (5, Some(0.5)));
        let second = half("a", all).await.unwrap();
        assert_eq!((second.budget.turns, second.budget.cost), (3, Some(0.25)));
        // Another session has its own budget.
        assert_eq!(half("b", all).await.unwrap().budget.turns, 5);
        first.spent = TaskUsage {
            turns: 1,
            cost: Some(0.25),
            ..TaskUsage::default()
        };
        drop(first);
        // Of 10 turns, one is used and three are reserved.
        let third = half("a", all).await.unwrap();
        assert_eq!((third.budget.turns, third.budget.cost), (3, Some(0.25)));
        let own = AgentBudget { turns: 1, ..all };
        let mut taken = Vec::new();
        while let Ok(reservation) = half("a", own).await {
            taken.push(reservation);
        }
        assert_eq!(taken.len(), 3);
        assert_eq!(
            half("a", own).await.err().unwrap().code,
            ToolErrorCode::LimitExceeded
        );
        drop(taken);
        assert!(
            half("a", own).await.is_ok(),
            "an unused reservation was not returned"
        );
    }

    #[tokio::test]
    async fn session_budget_counts_agent_and_worker_usage() {
        let (session_budget, all) = (SessionBudget::default(), all());
        session_budget.open("a", all).await.unwrap();
        let own = TaskUsage {
            turns: 4,
            cost: Some(0.5),
            ..TaskUsage::default()
        };
        session_budget.deduct("a", &own).await.unwrap();
        let mut worker = session_budget.reserve_half("a", all, all).await.unwrap();
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
        assert!(session_budget.reserve_half("a", all, all).await.is_err());
        assert!(
            session_budget
                .reserve_question("a", all, None, 10, 100)
                .await
                .is_err()
        );
        // The next task sets a new budget.
        session_budget.open("a", all).await.unwrap();
        assert!(session_budget.reserve_half("a", all, all).await.is_ok());
    }

    #[tokio::test]
    async fn session_budget_question_returns_unused_tokens() {
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
        let mut first = ask(100, 5_000).await.unwrap();
        assert_eq!(
            (first.budget.answer_tokens, first.budget.tokens),
            (500, 600)
        );
        let beside = ask(100, 5_000).await.unwrap();
        assert_eq!(beside.budget.answer_tokens, 300);
        assert!(ask(100, 5_000).await.is_err());
        first
            .spent
            .add_reply(TokenUsage::new(100, 20), price, Duration::ZERO);
        drop((first, beside));
        assert_eq!(session_budget.take_side_usage("a").tokens(), 120);
        assert_eq!(ask(100, 5_000).await.unwrap().budget.answer_tokens, 500);
        assert_eq!(ask(800, 5_000).await.unwrap().budget.answer_tokens, 80);
        assert!(ask(880, 5_000).await.is_err());
    }

    #[tokio::test]
    async fn session_budget_holds_for_all_processes_together() {
        let state: SharedStateHandle = Arc::new(mimir_core::memory_state::MemoryState::default());
        let process = || {
            let session_budget = SessionBudget::default();
            session_budget.share(Arc::clone(&state));
            session_budget
        };
        let processes = [process(), process()];
        let all = AgentBudget {
            turns: 100,
            tokens: 10_000_000,
            answer_tokens: 10_000,
            ..all()
        };
        let is_close = |cost: Option<f64>, expected: f64| (cost.unwrap() - expected).abs() < 1e-3;
        // Each question costs 0.1 for its input and reserves 0.1 for its answer.
        let price = Some(TokenPrice::new(1.0, 10.0));
        let ask = |process: usize, session: &'static str| {
            processes[process].reserve_question(session, all, price, 100_000, 10_000)
        };
        let asking = (0..20).map(|number| async move { ask(number % 2, "a").await.ok() });
        let mut taken: Vec<BudgetReservation> = futures::future::join_all(asking)
            .await
            .into_iter()
            .flatten()
            .collect();
        let reserved: f64 = taken.iter().filter_map(|taken| taken.budget.cost).sum();
        assert!((0.9..=1.0 + 1e-9).contains(&reserved), "{reserved}");
        let error = ask(1, "a").await.err().unwrap();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        assert!(error.message.contains("a task limit of `agent`"));
        assert!(ask(1, "b").await.is_ok(), "another session is limited");
        // What one process returns, the other one can use.
        let mut first = taken.remove(0);
        first.record_usage(TokenUsage::new(100_000, 0), price, Duration::ZERO);
        first.finish().await;
        for process in [1, 0] {
            let next = ask(process, "a").await;
            assert!(next.is_err(), "the rest does not pay for an answer");
        }
        for reservation in taken {
            reservation.finish().await;
        }
        let half = processes[1].reserve_half("a", all, all).await.unwrap();
        assert!(is_close(half.budget.cost, 0.45));
        // A process that ends without a word leaves its part reserved.
        std::mem::forget(half);
        let half = processes[0].reserve_half("a", all, all).await.unwrap();
        assert!(is_close(half.budget.cost, 0.225));
        // The next task of the session's agent sets a new budget.
        processes[0].open("a", all).await.unwrap();
        let half = processes[1].reserve_half("a", all, all).await.unwrap();
        assert!(is_close(half.budget.cost, 0.5));
    }
}
