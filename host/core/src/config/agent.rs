//! Settings and limits of agents.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::smaller_limit;

/// The block `agent`: the settings of `mimir run` and `mimir chat`. Unset keys keep their defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentSettings {
    /// Additional instructions for the model.
    pub instructions: Option<String>,
    /// Maximum number of model answers for one task.
    pub max_turns: Option<u64>,
    /// Maximum number of tool calls for one task.
    pub max_tool_calls: Option<u64>,
    /// Maximum number of tokens for one task, sent and received, over all turns.
    pub max_tokens: Option<u64>,
    /// Maximum cost of one task, in the currency of `providers.*.prices`. Unlimited unless set; if set, models without
    /// a price are not used.
    pub max_cost: Option<f64>,
    /// Maximum time of one task in milliseconds, excluding time spent on approvals.
    pub max_time_ms: Option<u64>,
    /// Maximum number of tokens of one answer.
    pub max_answer_tokens: Option<u64>,
    /// Approximate maximum number of tokens per request. Older messages are summarised or left out.
    pub context_tokens: Option<u64>,
    /// How a conversation that nears `contextTokens` is shortened. Default: `summary`.
    pub compaction: Option<CompactionMode>,
    /// Maximum number of retries of a request if the provider is busy or the connection breaks.
    pub retries: Option<u64>,
}

/// How a long conversation is shortened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompactionMode {
    /// The model summarises the older part, at the cost of a request. If that fails, the oldest messages are left out.
    #[default]
    Summary,
    /// The oldest messages are left out.
    Trim,
}

/// The limits of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentBudget {
    /// Maximum number of model answers.
    pub turns: u64,
    /// Maximum number of tool calls.
    pub tool_calls: u64,
    /// Maximum number of tokens, sent and received.
    pub tokens: u64,
    /// Maximum cost; `None` is unlimited.
    pub cost: Option<f64>,
    /// Maximum time, excluding time spent on approvals.
    pub time: Duration,
    /// Maximum number of tokens of one answer.
    pub answer_tokens: u64,
    /// Approximate maximum number of tokens per request.
    pub context_tokens: u64,
    /// How a conversation that nears `context_tokens` is shortened.
    pub compaction: CompactionMode,
    /// Maximum number of retries per request.
    pub retries: u64,
}

impl AgentBudget {
    /// An empty budget.
    pub const NOTHING: Self = Self {
        turns: 0,
        tool_calls: 0,
        tokens: 0,
        cost: None,
        time: Duration::ZERO,
        answer_tokens: 0,
        context_tokens: 0,
        compaction: CompactionMode::Summary,
        retries: 0,
    };
}

impl Default for AgentBudget {
    fn default() -> Self {
        Self {
            // Long tasks take tens of turns. More are usually a loop.
            turns: 50,
            tool_calls: 200,
            // Some fifty turns with a context of 40,000 tokens.
            tokens: 2_000_000,
            cost: None,
            // Half an hour.
            time: Duration::from_secs(1_800),
            // The maximum answer of every current model.
            answer_tokens: 8_192,
            // Fits into the context of nearly every model, with space for the answer.
            context_tokens: 100_000,
            // A long task would otherwise forget what was decided at its beginning.
            compaction: CompactionMode::Summary,
            // With the waits in between, about half a minute.
            retries: 4,
        }
    }
}

/// The range of counts. No task reaches the maximum.
const COUNT_RANGE: (u64, u64) = (1, 1 << 40);

/// The range of times in milliseconds: up to a day, as for calls.
const TIME_RANGE: (u64, u64) = (1, 24 * 60 * 60 * 1_000);

/// The range of `contextTokens`. The minimum is the size of a short conversation with its tools.
const CONTEXT_RANGE: (u64, u64) = (1_000, 1 << 30);

/// The range of `retries`. The maximum is about an hour of waiting.
const RETRIES_RANGE: (u64, u64) = (0, 100);

impl AgentSettings {
    fn limits_with_ranges(&self) -> [(&'static str, Option<u64>, (u64, u64)); 7] {
        [
            ("maxTurns", self.max_turns, COUNT_RANGE),
            ("maxToolCalls", self.max_tool_calls, COUNT_RANGE),
            ("maxTokens", self.max_tokens, COUNT_RANGE),
            ("maxTimeMs", self.max_time_ms, TIME_RANGE),
            ("maxAnswerTokens", self.max_answer_tokens, COUNT_RANGE),
            ("contextTokens", self.context_tokens, CONTEXT_RANGE),
            ("retries", self.retries, RETRIES_RANGE),
        ]
    }

    /// Checks that every limit is in range. `block_key` is the key of the block. The error names the invalid key.
    pub fn check(&self, block_key: &str) -> Result<(), String> {
        for (key, value, (min, max)) in self.limits_with_ranges() {
            if let Some(value) = value.filter(|value| !(min..=max).contains(value)) {
                return Err(format!(
                    "{block_key}.{key}: {value} is out of range: expected {min} to {max}"
                ));
            }
        }
        match self.max_cost {
            Some(cost) if !cost.is_finite() || cost <= 0.0 => Err(format!(
                "{block_key}.maxCost: {cost} is out of range: expected more than 0"
            )),
            _ => Ok(()),
        }
    }

    /// Returns these limits, with unset ones taken from `base`.
    pub fn over(&self, base: AgentBudget) -> AgentBudget {
        AgentBudget {
            turns: self.max_turns.unwrap_or(base.turns),
            tool_calls: self.max_tool_calls.unwrap_or(base.tool_calls),
            tokens: self.max_tokens.unwrap_or(base.tokens),
            cost: self.max_cost.or(base.cost),
            time: self.max_time_ms.map_or(base.time, Duration::from_millis),
            answer_tokens: self.max_answer_tokens.unwrap_or(base.answer_tokens),
            context_tokens: self.context_tokens.unwrap_or(base.context_tokens),
            compaction: self.compaction.unwrap_or(base.compaction),
            retries: self.retries.unwrap_or(base.retries),
        }
    }

    /// Collects the keys that raise a limit of `below` or change the instructions.
    pub(super) fn collect_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        if self.instructions.is_some() && self.instructions != below.instructions {
            keys.push("agent.instructions".to_owned());
        }
        let base = below.over(AgentBudget::default());
        let budget = self.over(base);
        if budget != budget.tightest(base) {
            keys.push("agent".to_owned());
        }
    }

    /// Caps the limits by those of the weaker files, and takes their instructions.
    pub(super) fn clamp_to(&mut self, below: &Self) {
        let base = below.over(AgentBudget::default());
        let budget = self.over(base).tightest(base);
        *self = Self::from(budget);
        self.instructions.clone_from(&below.instructions);
    }

    /// Applies a team's settings. The team's limits are caps, and its instructions, if set, replace these.
    pub(super) fn under_team(&mut self, team: &Self) {
        if team.instructions.is_some() {
            self.instructions.clone_from(&team.instructions);
        }
        for (own, cap) in [
            (&mut self.max_turns, team.max_turns),
            (&mut self.max_tool_calls, team.max_tool_calls),
            (&mut self.max_tokens, team.max_tokens),
            (&mut self.max_time_ms, team.max_time_ms),
            (&mut self.max_answer_tokens, team.max_answer_tokens),
            (&mut self.context_tokens, team.context_tokens),
            (&mut self.retries, team.retries),
        ] {
            *own = smaller_limit(*own, cap);
        }
        self.max_cost = smaller_cost(self.max_cost, team.max_cost);
        self.compaction = team.compaction.or(self.compaction);
    }
}

impl From<AgentBudget> for AgentSettings {
    fn from(budget: AgentBudget) -> Self {
        Self {
            instructions: None,
            max_turns: Some(budget.turns),
            max_tool_calls: Some(budget.tool_calls),
            max_tokens: Some(budget.tokens),
            max_cost: budget.cost,
            max_time_ms: Some(u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX)),
            max_answer_tokens: Some(budget.answer_tokens),
            context_tokens: Some(budget.context_tokens),
            compaction: Some(budget.compaction),
            retries: Some(budget.retries),
        }
    }
}

/// Returns the smaller of two optional costs.
fn smaller_cost(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl AgentBudget {
    /// Returns the tighter of each pair of limits. The mode of compaction is that of `self`.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            turns: self.turns.min(other.turns),
            tool_calls: self.tool_calls.min(other.tool_calls),
            tokens: self.tokens.min(other.tokens),
            cost: smaller_cost(self.cost, other.cost),
            time: self.time.min(other.time),
            answer_tokens: self.answer_tokens.min(other.answer_tokens),
            context_tokens: self.context_tokens.min(other.context_tokens),
            compaction: self.compaction,
            retries: self.retries.min(other.retries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(value: serde_json::Value) -> AgentSettings {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn agent_settings_are_checked_against_bounds() {
        for (key, _, (min, max)) in AgentSettings::default().limits_with_ranges() {
            let check = |value: u64| block(json!({ key: value })).check("agent");
            assert_eq!(check(min), Ok(()));
            assert_eq!(check(max), Ok(()));
            assert!(
                check(max + 1)
                    .unwrap_err()
                    .starts_with(&format!("agent.{key}: "))
            );
            assert_eq!(check(0).is_ok(), min == 0, "{key}");
        }
        for bad in [0.0, -1.0] {
            assert!(block(json!({ "maxCost": bad })).check("agent").is_err());
        }
        assert_eq!(
            AgentSettings::from(AgentBudget::default()).check("agent"),
            Ok(())
        );
    }

    #[test]
    fn agent_settings_of_an_untrusted_file_only_tighten() {
        let below = block(json!({"maxTurns": 10, "instructions": "mine"}));
        let mut file = block(
            json!({"maxTurns": 20, "maxToolCalls": 3, "maxCost": 1.5, "instructions": "theirs"}),
        );
        let mut keys = Vec::new();
        file.collect_weakening_keys(&below, &mut keys);
        assert_eq!(keys, ["agent.instructions", "agent"]);
        file.clamp_to(&below);
        let budget = file.over(AgentBudget::default());
        assert_eq!(
            (budget.turns, budget.tool_calls, budget.cost),
            (10, 3, Some(1.5))
        );
        assert_eq!(file.instructions.as_deref(), Some("mine"));
        let mut keys = Vec::new();
        block(json!({"maxTurns": 9, "maxCost": 1})).collect_weakening_keys(&below, &mut keys);
        assert!(keys.is_empty(), "{keys:?}");
    }

    #[test]
    fn agent_weakening_keys_omit_keys_absent_from_the_file() {
        for key in AgentSettings::default()
            .limits_with_ranges()
            .map(|(key, _, _)| key)
        {
            for value in [1_000, 900_000] {
                let below = block(json!({ key: value, "instructions": "mine", "maxCost": 2 }));
                let mut keys = Vec::new();
                AgentSettings::default().collect_weakening_keys(&below, &mut keys);
                assert!(keys.is_empty(), "{below:?}: {keys:?}");
            }
        }
        let (below, mut keys) = (block(json!({"maxTurns": 2})), Vec::new());
        block(json!({"maxTurns": 3})).collect_weakening_keys(&below, &mut keys);
        assert_eq!(keys, ["agent"]);
    }

    #[test]
    fn agent_settings_are_capped_by_the_team() {
        let mut own = block(json!({"maxTurns": 10, "maxCost": 5}));
        own.under_team(&block(
            json!({"maxTurns": 20, "maxCost": 2, "retries": 1, "instructions": "x"}),
        ));
        let budget = own.over(AgentBudget::default());
        assert_eq!(
            (budget.turns, budget.cost, budget.retries),
            (10, Some(2.0), 1)
        );
        assert_eq!(own.instructions.as_deref(), Some("x"));
    }
}
