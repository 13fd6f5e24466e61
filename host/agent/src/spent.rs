//! Usage of a task, and the limits that it reaches.

use std::fmt;
use std::time::Duration;

use mimir_core::config::{Budget, Price};
use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// Usage counters of a task or a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Spent {
    /// Number of model answers.
    pub turns: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Cost of the tokens; `None` if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Time in milliseconds, without the time spent waiting for the person.
    pub time_ms: u64,
}

/// A limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// Number of model answers.
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

impl Bound {
    /// The config key that sets this limit.
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

impl fmt::Display for Bound {
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

/// Minimum number of tokens worth requesting for an answer.
const LEAST_ANSWER: u64 = 16;

impl Spent {
    /// Adds an answer.
    pub(crate) fn answered(&mut self, usage: Usage, price: Option<Price>, took: Duration) {
        self.turns = self.turns.saturating_add(1);
        self.paid(usage, price);
        self.took(took);
    }

    /// Adds tokens and their cost.
    pub(crate) fn paid(&mut self, usage: Usage, price: Option<Price>) {
        // Saturating: a provider may report any number.
        self.input_tokens = self.input_tokens.saturating_add(usage.input);
        self.output_tokens = self.output_tokens.saturating_add(usage.output);
        if let Some(price) = price {
            *self.cost.get_or_insert_default() += cost(usage, price);
        }
    }

    /// Adds elapsed time.
    pub(crate) fn took(&mut self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.time_ms = self.time_ms.saturating_add(time);
    }

    /// The number of tokens, sent and received.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds the counters of another usage.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in [
            (&mut self.turns, other.turns),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.time_ms, other.time_ms),
        ] {
            *own = own.saturating_add(more);
        }
        if let Some(cost) = other.cost {
            *self.cost.get_or_insert_default() += cost;
        }
    }

    /// The usage since an earlier state.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(before.turns),
            tool_calls: self.tool_calls.saturating_sub(before.tool_calls),
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cost: self.cost.map(|cost| cost - before.cost.unwrap_or_default()),
            time_ms: self.time_ms.saturating_sub(before.time_ms),
        }
    }

    /// The maximum number of tokens of the next answer if about `input` are sent, or the limit that forbids another
    /// request.
    pub(crate) fn room(
        &self,
        budget: &Budget,
        price: Option<Price>,
        input: u64,
    ) -> Result<u64, Bound> {
        if self.turns >= budget.turns {
            return Err(Bound::Turns);
        }
        if self.time_ms >= u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX) {
            return Err(Bound::Time);
        }
        let tokens = budget.tokens;
        let tokens = tokens.saturating_sub(self.tokens().saturating_add(input));
        if tokens < LEAST_ANSWER.min(budget.answer_tokens) {
            return Err(Bound::Tokens);
        }
        let mut room = tokens.min(budget.answer_tokens);
        if let (Some(most), Some(price)) = (budget.cost, price) {
            let sent = Usage { input, output: 0 };
            let left = most - self.cost.unwrap_or_default() - cost(sent, price);
            if left <= 0.0 {
                return Err(Bound::Cost);
            }
            if price.output > 0.0 {
                // Saturating is fine: no answer is that long.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a positive number that saturates"
                )]
                let affordable = (left / price.output * MILLION) as u64;
                room = room.min(affordable);
            }
            if room < LEAST_ANSWER.min(budget.answer_tokens) {
                return Err(Bound::Cost);
            }
        }
        Ok(room)
    }

    /// The time that is left.
    pub(crate) fn time_left(&self, budget: &Budget) -> Duration {
        budget
            .time
            .saturating_sub(Duration::from_millis(self.time_ms))
    }
}

/// Number of tokens that a price is given for.
const MILLION: f64 = 1e6;

#[expect(
    clippy::cast_precision_loss,
    reason = "token counts are far below the exact range of a float"
)]
pub(crate) fn cost(usage: Usage, price: Price) -> f64 {
    (usage.input as f64 * price.input + usage.output as f64 * price.output) / MILLION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget {
            turns: 3,
            tokens: 1_000,
            cost: Some(0.01),
            answer_tokens: 100,
            ..Budget::default()
        }
    }

    const PRICE: Option<Price> = Some(Price {
        input: 1.0,
        output: 10.0,
    });

    #[test]
    fn each_bound_stops_the_next_question() {
        let spent = |change: fn(&mut Spent)| {
            let mut spent = Spent::default();
            change(&mut spent);
            spent
        };
        let room = |spent: Spent| spent.room(&budget(), PRICE, 10);
        assert_eq!(room(Spent::default()), Ok(100));
        assert_eq!(room(spent(|s| s.turns = 3)), Err(Bound::Turns));
        assert_eq!(room(spent(|s| s.input_tokens = 950)), Ok(40));
        assert_eq!(room(spent(|s| s.output_tokens = 985)), Err(Bound::Tokens));
        assert_eq!(room(spent(|s| s.cost = Some(0.009_5))), Ok(49));
        assert_eq!(room(spent(|s| s.cost = Some(0.01))), Err(Bound::Cost));
        assert_eq!(room(spent(|s| s.time_ms = 1_800_000)), Err(Bound::Time));
        // The tokens to be sent count before they are sent.
        assert_eq!(
            Spent::default().room(&budget(), PRICE, 2_000),
            Err(Bound::Tokens)
        );
    }

    #[test]
    fn what_an_answer_takes_is_added_up() {
        let mut spent = Spent::default();
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
        };
        spent.answered(usage, PRICE, Duration::from_millis(5));
        spent.answered(usage, None, Duration::from_millis(5));
        assert_eq!(
            (spent.turns, spent.tokens(), spent.time_ms),
            (2, 2_200_000, 10)
        );
        assert_eq!(spent.cost, Some(2.0));
    }

    #[test]
    fn a_count_that_no_provider_can_mean_overflows_nothing() {
        let most = Usage {
            input: u64::MAX,
            output: u64::MAX,
        };
        let mut spent = Spent::default();
        for _ in 0..2 {
            spent.answered(most, PRICE, Duration::MAX);
        }
        let twice = spent;
        spent.add(&twice);
        assert_eq!(spent.tokens(), u64::MAX);
        assert_eq!(spent.time_ms, u64::MAX);
        assert!(spent.cost.unwrap().is_finite());
        let unbounded = Budget {
            turns: u64::MAX,
            tokens: u64::MAX,
            time: Duration::MAX,
            ..budget()
        };
        assert!(spent.room(&unbounded, None, u64::MAX).is_err());
        assert_eq!(spent.since(&twice).turns, 2);
        assert_eq!(
            Spent::default().room(&budget(), None, u64::MAX),
            Err(Bound::Tokens)
        );
    }
}
