//! Orders to stop agents that hold at all processes of a workspace in a cluster.
//!
//! They are stored beside the approvals, because each process follows these already, and servers may write them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mimir_core::call_monitor::RunningCalls;
use mimir_core::call_switch::{SessionStops, StopNotice, UnsharedStop};
use mimir_core::shared_state::{SharedStateError, StateArea, StateEntry, StateKey};

use super::{SESSION_LIFETIME, SharedApprovalStore, decode, encode, session_hash, write_value};

/// Time after which a change that could not be stored is stored again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl SharedApprovalStore {
    /// Makes the orders to stop single sessions of a pipeline those of the workspace: applies the current ones now, and
    /// follows changes in both directions on the current runtime, until the pipeline is dropped.
    pub(crate) fn share_agent_stops(self: &Arc<Self>, calls: &Arc<RunningCalls>) {
        calls.stops().share();
        calls.stops().apply_shared(self.agent_stops(calls.stops()));
        // Pipelines without a runtime run no calls.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (store, calls) = (Arc::clone(self), Arc::downgrade(calls));
            runtime.spawn(async move { store.follow_agent_stops(calls).await });
        }
    }

    async fn follow_agent_stops(&self, calls: Weak<RunningCalls>) {
        let mut stored = self.changes();
        let Some(mut given) = calls.upgrade().map(|calls| calls.stops().changes()) else {
            return;
        };
        loop {
            // Before they are read, so that no later change is missed.
            stored.mark_unchanged();
            given.mark_unchanged();
            let Some(calls) = calls.upgrade() else {
                return;
            };
            let is_complete = self.share_changes(calls.stops()).await;
            calls.stops().apply_shared(self.agent_stops(calls.stops()));
            drop(calls);
            let given_changed = async {
                if !is_complete {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    return true;
                }
                given.changed().await.is_ok()
            };
            let goes_on = tokio::select! {
                is_open = given_changed => is_open,
                changed = stored.changed() => changed.is_ok(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Stores the changes that were made here. Returns false if one could not be stored.
    async fn share_changes(&self, stops: &SessionStops) -> bool {
        let mut is_complete = true;
        for change in stops.unshared() {
            let stored = match &change {
                UnsharedStop::Given(notice) => self.store_agent_stop(notice).await,
                UnsharedStop::Withdrawn(notice) => self.remove_agent_stop(notice).await,
            };
            match stored {
                Ok(()) => stops.mark_shared(&change),
                Err(error) => {
                    tracing::debug!(%error, "an order about an agent is not known to other servers");
                    stops.mark_unshared(&change, &error.to_string());
                    is_complete = false;
                }
            }
        }
        is_complete
    }

    async fn store_agent_stop(&self, notice: &StopNotice) -> Result<(), SharedStateError> {
        let key = self.agent_stop_key(notice);
        let value = encode(notice);
        let written = write_value(&*self.state, &key, value.clone(), Some(SESSION_LIFETIME));
        let revision = written.await?;
        self.mirror.set(StateEntry {
            key,
            value,
            revision,
        });
        Ok(())
    }

    /// Removes an order that was withdrawn here. One for the same session that another server has given since then stays.
    async fn remove_agent_stop(&self, notice: &StopNotice) -> Result<(), SharedStateError> {
        let (area, key) = (StateArea::Approvals, self.agent_stop_key(notice));
        let withdrawn = notice.clone().cleaned();
        while let Some(entry) = self.state.get(area, &key).await? {
            let stored = decode::<StopNotice>(&entry).map(StopNotice::cleaned);
            if stored.is_some_and(|stored| !stored.is_same_order(&withdrawn)) {
                self.mirror.set(entry);
                return Ok(());
            }
            match self.state.remove(area, &key, Some(entry.revision)).await {
                Ok(_) => {
                    self.mirror.remove_version(&key, entry.revision);
                    return Ok(());
                }
                Err(SharedStateError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the orders of the workspace. One that cannot be read any more stays as it is known.
    fn agent_stops(&self, known: &SessionStops) -> Vec<StopNotice> {
        let entries = self.mirror.list(&self.keys.agent_stops());
        if entries.is_empty() {
            return Vec::new();
        }
        let known = known.notices();
        let is_of = |entry: &StateEntry, notice: &StopNotice| {
            notice.session.is_some() && self.agent_stop_key(notice) == entry.key
        };
        let read = |entry: &StateEntry| {
            let stored = decode::<StopNotice>(entry).map(StopNotice::cleaned);
            let stored = stored.filter(|notice| is_of(entry, notice));
            stored.or_else(|| known.iter().find(|notice| is_of(entry, notice)).cloned())
        };
        entries.iter().filter_map(read).collect()
    }

    /// Returns the key of the order for a session, by its shown name. Ids of sessions belong to one user, or to all of a
    /// workspace if users do not log in.
    fn agent_stop_key(&self, notice: &StopNotice) -> StateKey {
        let session = notice.session.as_deref().unwrap_or_default();
        self.keys.agent_stop(&session_hash(session))
    }
}

#[cfg(test)]
mod tests;
