//! The usage of sessions in the state that all processes of a deployment share.
//!
//! Reservations count as usage until they are returned. The limits are those of the process that reserves.

use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::AgentBudget;
use mimir_core::shared_counter::change_value;
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateArea, StateKey};

use crate::task_usage::TaskUsage;

use super::{SessionBudgetState, as_usage};

/// Time after which the usage of a session is forgotten if it does not change, as are the labels of the session.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The usage of all sessions.
pub(super) struct SharedUsage(SharedStateHandle);

fn key(session: &str) -> StateKey {
    StateKey::new(["budget", session])
}

impl SharedUsage {
    pub(super) fn new(state: SharedStateHandle) -> Self {
        Self(state)
    }

    /// Reserves the part that `share` takes from what is left of `all`. Returns `None` if `share` does.
    pub(super) async fn reserve(
        &self,
        session: &str,
        all: AgentBudget,
        share: impl Fn(&AgentBudget) -> Option<AgentBudget> + Send + Sync,
    ) -> Result<Option<AgentBudget>, ToolError> {
        let mut reserved = None;
        let reserve = |used: &mut TaskUsage| {
            let mut state = SessionBudgetState::new(all);
            state.apply(&AgentBudget::NOTHING, used);
            reserved = share(&state.left);
            let Some(budget) = &reserved else {
                return false;
            };
            used.add(&as_usage(budget));
            true
        };
        self.change(session, reserve).await?;
        Ok(reserved)
    }

    /// Replaces reserved usage by actual usage.
    pub(super) async fn replace(
        &self,
        session: &str,
        reserved: &TaskUsage,
        usage: &TaskUsage,
    ) -> Result<(), ToolError> {
        let replace = |used: &mut TaskUsage| {
            // The session's agent may have set a new budget meanwhile.
            *used = used.since(reserved);
            used.cost = used.cost.map(|cost| cost.max(0.0));
            used.add(usage);
            true
        };
        self.change(session, replace).await
    }

    /// Sets the usage to zero.
    pub(super) async fn reset(&self, session: &str) -> Result<(), ToolError> {
        let removed = self.0.remove(StateArea::Limits, &key(session), None).await;
        removed.map_err(|error| unavailable(&error))
    }

    /// Changes the usage of a session. `change` returns false to leave it as it is.
    async fn change(
        &self,
        session: &str,
        mut change: impl FnMut(&mut TaskUsage) -> bool + Send,
    ) -> Result<(), ToolError> {
        let encoded = |value: Option<&[u8]>| {
            let mut used = match value {
                Some(value) => self.decode(value)?,
                None => TaskUsage::default(),
            };
            if !change(&mut used) {
                return Ok(None);
            }
            serde_json::to_vec(&used)
                .map(Some)
                .map_err(|error| self.not_valid(&error))
        };
        let (area, lifetime) = (StateArea::Limits, Some(LIFETIME));
        let changed = change_value(&*self.0, area, &key(session), lifetime, encoded).await;
        changed.map(drop).map_err(|error| unavailable(&error))
    }

    fn decode(&self, value: &[u8]) -> Result<TaskUsage, SharedStateError> {
        serde_json::from_slice(value).map_err(|error| self.not_valid(&error))
    }

    fn not_valid(&self, error: &serde_json::Error) -> SharedStateError {
        SharedStateError::Unreachable {
            location: self.0.location(),
            text: format!("the usage of a session is not valid: {error}"),
        }
    }
}

fn unavailable(error: &SharedStateError) -> ToolError {
    ToolError::unavailable(format!(
        "the budget of the session is not available, so nothing was spent: {error}"
    ))
}
