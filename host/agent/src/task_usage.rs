//! Usage counters of tasks, and their limits.

use std::fmt;
use std::time::Duration;

use mimir_core::config::{AgentBudget, TokenPrice};
use serde::{Deserialize, Serialize};

use crate::model::{TokenUsage, is_zero};

/// Usage counters of a task or a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskUsage {
    /// Number of model replies.
    pub turns: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Tokens of `input_tokens` that were read from the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Cost of the tokens; `None` if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Time in milliseconds, excluding time spent on approvals.
    pub time_ms: u64,
}

/// A limit of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetLimit {
    /// Number of model replies.
    Turns,
    /// Number of tool calls.
    ToolCalls,
    /// Tokens, sent and received.
    Tokens,
    /// Cost.
    Cost,
    /// Time.
    Time,
}

impl BudgetLimit {
    /// Returns the config key that sets this limit.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Turns => "agent.maxTurns",
            Self::ToolCalls => "agent.maxToolCalls",
            Self::Tokens => "agent.maxTokens",
            Self::Cost => "agent.maxCost",
            Self::Time => "agent.maxTimeMs",
        }
    }
}

impl fmt::Display for BudgetLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "its limit of model turns",
            Self::ToolCalls => "its limit of tool calls",
            Self::Tokens => "its limit of tokens",
            Self::Cost => "its limit of cost",
            Self::Time => "its limit of time",
        })
    }
}

/// Minimum number of tokens worth requesting for a reply.
const MIN_ANSWER_TOKENS: u64 = 16;

impl TaskUsage {
    /// Adds a reply.
    pub(crate) fn add_reply(
        &mut self,
        usage: TokenUsage,
        price: Option<TokenPrice>,
        elapsed: Duration,
    ) {
        self.turns = self.turns.saturating_add(1);
        self.add_tokens(usage, price);
        self.add_time(elapsed);
    }

    /// Adds tokens and their cost.
    pub(crate) fn add_tokens(&mut self, usage: TokenUsage, price: Option<TokenPrice>) {
        // Saturating: a provider may report any number.
        self.input_tokens = self.input_tokens.saturating_add(usage.input);
        self.output_tokens = self.output_tokens.saturating_add(usage.output);
        self.cached_tokens = self.cached_tokens.saturating_add(usage.cache_read);
        if let Some(price) = price {
            *self.cost.get_or_insert_default() += cost(usage, price);
        }
    }

    /// Adds elapsed time.
    pub(crate) fn add_time(&mut self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.time_ms = self.time_ms.saturating_add(time);
    }

    /// Returns the number of tokens, sent and received.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds other counters to these.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in [
            (&mut self.turns, other.turns),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
            (&mut self.time_ms, other.time_ms),
        ] {
            *own = own.saturating_add(more);
        }
        if let Some(cost) = other.cost {
            *self.cost.get_or_insert_default() += cost;
        }
    }

    /// Returns the difference from the earlier state `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(before.turns),
            tool_calls: self.tool_calls.saturating_sub(before.tool_calls),
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(before.cached_tokens),
            cost: self.cost.map(|cost| cost - before.cost.unwrap_or_default()),
            time_ms: self.time_ms.saturating_sub(before.time_ms),
        }
    }

    /// Returns the maximum number of tokens of the next reply if about `input` tokens are sent. `price` is that of
    /// [`Model::estimate_price`](crate::Model::estimate_price). The error is the limit that forbids another request.
    pub(crate) fn answer_tokens_left(
        &self,
        budget: &AgentBudget,
        price: Option<TokenPrice>,
        input: u64,
    ) -> Result<u64, BudgetLimit> {
        if self.turns >= budget.turns {
            return Err(BudgetLimit::Turns);
        }
        if self.time_ms >= u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX) {
            return Err(BudgetLimit::Time);
        }
        let tokens = budget.tokens;
        let tokens = tokens.saturating_sub(self.tokens().saturating_add(input));
        if tokens < MIN_ANSWER_TOKENS.min(budget.answer_tokens) {
            return Err(BudgetLimit::Tokens);
        }
        let mut max_tokens = tokens.min(budget.answer_tokens);
        if let (Some(max_cost), Some(price)) = (budget.cost, price) {
            let sent = TokenUsage::new(input, 0);
            let left = max_cost - self.cost.unwrap_or_default() - cost(sent, price);
            if left <= 0.0 {
                return Err(BudgetLimit::Cost);
            }
            if price.output > 0.0 {
                // Saturating is fine: no reply is that long.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a positive number that saturates"
                )]
                let affordable = (left / price.output * MILLION) as u64;
                max_tokens = max_tokens.min(affordable);
            }
            if max_tokens < MIN_ANSWER_TOKENS.min(budget.answer_tokens) {
                return Err(BudgetLimit::Cost);
            }
        }
        Ok(max_tokens)
    }

    /// Returns the remaining time.
    pub(crate) fn time_left(&self, budget: &AgentBudget) -> Duration {
        budget
            .time
            .saturating_sub(Duration::from_millis(self.time_ms))
    }
}

/// Number of tokens that prices refer to.
const MILLION: f64 = 1e6;

#[expect(
    clippy::cast_precision_loss,
    reason = "token counts are far below the exact range of a float"
)]
pub(crate) fn cost(usage: TokenUsage, price: TokenPrice) -> f64 {
    let cached = usage.cache_read.saturating_add(usage.cache_write);
    let uncached = usage.input.saturating_sub(cached);
    let input = uncached as f64 * price.input
        + usage.cache_read as f64 * price.cache_read()
        + usage.cache_write as f64 * price.cache_write();
    (input + usage.output as f64 * price.output) / MILLION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> AgentBudget {
        AgentBudget {
            turns: 3,
            tokens: 1_000,
            cost: Some(0.01),
            answer_tokens: 100,
            ..AgentBudget::default()
        }
    }

    const PRICE: Option<TokenPrice> = Some(TokenPrice::new(1.0, 10.0));

    #[test]
    fn task_usage_stops_at_each_budget_limit() {
        let spent = |change: fn(&mut TaskUsage)| {
            let mut spent = TaskUsage::default();
            change(&mut spent);
            spent
        };
        let tokens_left = |spent: TaskUsage| spent.answer_tokens_left(&budget(), PRICE, 10);
        assert_eq!(tokens_left(TaskUsage::default()), Ok(100));
        assert_eq!(tokens_left(spent(|s| s.turns = 3)), Err(BudgetLimit::Turns));
        assert_eq!(tokens_left(spent(|s| s.input_tokens = 950)), Ok(40));
        assert_eq!(
            tokens_left(spent(|s| s.output_tokens = 985)),
            Err(BudgetLimit::Tokens)
        );
        assert_eq!(tokens_left(spent(|s| s.cost = Some(0.009_5))), Ok(49));
        assert_eq!(
            tokens_left(spent(|s| s.cost = Some(0.01))),
            Err(BudgetLimit::Cost)
        );
        assert_eq!(
            tokens_left(spent(|s| s.time_ms = 1_800_000)),
            Err(BudgetLimit::Time)
        );
        // The tokens to be sent count before they are sent.
        assert_eq!(
            TaskUsage::default().answer_tokens_left(&budget(), PRICE, 2_000),
            Err(BudgetLimit::Tokens)
        );
    }

    #[test]
    fn task_usage_sums_turns_tokens_time_and_cost() {
        let mut spent = TaskUsage::default();
        let usage = TokenUsage::new(1_000_000, 100_000);
        spent.add_reply(usage, PRICE, Duration::from_millis(5));
        spent.add_reply(usage, None, Duration::from_millis(5));
        assert_eq!(
            (spent.turns, spent.tokens(), spent.time_ms),
            (2, 2_200_000, 10)
        );
        assert_eq!(spent.cost, Some(2.0));
    }

    #[test]
    fn task_usage_counts_cached_tokens_at_their_price() {
        let usage = TokenUsage {
            cache_read: 600_000,
            cache_write: 200_000,
            ..TokenUsage::new(1_000_000, 100_000)
        };
        let own = TokenPrice {
            cache_read: Some(0.1),
            cache_write: Some(2.0),
            ..TokenPrice::new(1.0, 10.0)
        };
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(close(cost(usage, own), 0.2 + 0.06 + 0.4 + 1.0));
        // Without own prices, reading costs as much as other input, and writing a quarter more.
        assert!(close(
            cost(usage, TokenPrice::new(1.0, 10.0)),
            0.8 + 0.25 + 1.0
        ));
        let mut spent = TaskUsage::default();
        spent.add_reply(usage, Some(own), Duration::ZERO);
        assert_eq!((spent.cached_tokens, spent.tokens()), (600_000, 1_100_000));
    }

    #[test]
    fn task_usage_saturates_on_huge_counts() {
        let most = TokenUsage {
            input: u64::MAX,
            output: u64::MAX,
            cache_read: u64::MAX,
            cache_write: u64::MAX,
        };
        let mut spent = TaskUsage::default();
        for _ in 0..2 {
            spent.add_reply(most, PRICE, Duration::MAX);
        }
        let twice = spent;
        spent.add(&twice);
        assert_eq!(spent.tokens(), u64::MAX);
        assert_eq!(spent.time_ms, u64::MAX);
        assert!(spent.cost.unwrap().is_finite());
        let unbounded = AgentBudget {
            turns: u64::MAX,
            tokens: u64::MAX,
            time: Duration::MAX,
            ..budget()
        };
        assert!(
            spent
                .answer_tokens_left(&unbounded, None, u64::MAX)
                .is_err()
        );
        assert_eq!(spent.since(&twice).turns, 2);
        assert_eq!(
            TaskUsage::default().answer_tokens_left(&budget(), None, u64::MAX),
            Err(BudgetLimit::Tokens)
        );
    }
}
