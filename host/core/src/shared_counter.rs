//! Counters that all processes of a deployment share, such as the money that a session has spent.

use std::time::Duration;

use crate::shared_state::{SharedState, SharedStateError, SharedStateHandle, StateArea, StateKey};

/// Maximum number of attempts to change a value that other processes change at the same time.
const ATTEMPTS_MAX: usize = 256;

/// A number with an upper limit in the shared state, in the unit of its users, such as a millionth of a currency unit.
///
/// Users reserve an amount before they spend it, and return what they have not spent. If the process ends in between, the
/// amount stays reserved.
pub struct SharedCounter {
    state: SharedStateHandle,
    key: StateKey,
    lifetime: Option<Duration>,
}

impl SharedCounter {
    /// Creates the counter of this key, which is zero until it is changed, and again after it was not changed for
    /// `lifetime`.
    pub fn new(state: SharedStateHandle, key: &[&str], lifetime: Option<Duration>) -> Self {
        let parts = ["counter"].into_iter().chain(key.iter().copied());
        Self {
            state,
            key: StateKey::new(parts),
            lifetime,
        }
    }

    /// Returns the value.
    pub async fn value(&self) -> Result<u64, SharedStateError> {
        let entry = self.state.get(StateArea::Limits, &self.key).await?;
        entry.map_or(Ok(0), |entry| self.decode(&entry.value))
    }

    /// Adds `amount`, unless the value would exceed `max`. Returns false if nothing was added.
    pub async fn add(&self, amount: u64, max: u64) -> Result<bool, SharedStateError> {
        self.change(|value| value.checked_add(amount).filter(|sum| *sum <= max))
            .await
    }

    /// Subtracts `amount`, for a part of an addition that was not used. The value does not get below zero.
    pub async fn subtract(&self, amount: u64) -> Result<(), SharedStateError> {
        self.change(|value| Some(value.saturating_sub(amount)))
            .await
            .map(drop)
    }

    /// Sets the value to zero.
    pub async fn reset(&self) -> Result<(), SharedStateError> {
        self.state.remove(StateArea::Limits, &self.key, None).await
    }

    /// Replaces the value. Returns false if `change` returns `None`.
    async fn change(
        &self,
        change: impl Fn(u64) -> Option<u64> + Send,
    ) -> Result<bool, SharedStateError> {
        let change = move |value: Option<&[u8]>| {
            let value = value.map_or(Ok(0), |value| self.decode(value))?;
            Ok(change(value).map(|value| value.to_string().into_bytes()))
        };
        let area = StateArea::Limits;
        change_value(&*self.state, area, &self.key, self.lifetime, change).await
    }

    fn decode(&self, value: &[u8]) -> Result<u64, SharedStateError> {
        let text = std::str::from_utf8(value).ok();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| SharedStateError::Unreachable {
                location: self.state.location(),
                text: format!("the value of `{}` is not a number", self.key),
            })
    }
}

/// Replaces a value that other processes may change at the same time. `change` gets the value, and returns the new one
/// or `None` to leave it as it is; it is called again if another process was faster. Returns true if the value was
/// replaced.
pub async fn change_value(
    state: &dyn SharedState,
    area: StateArea,
    key: &StateKey,
    lifetime: Option<Duration>,
    mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, SharedStateError> + Send,
) -> Result<bool, SharedStateError> {
    for _ in 0..ATTEMPTS_MAX {
        let entry = state.get(area, key).await?;
        let Some(value) = change(entry.as_ref().map(|entry| entry.value.as_slice()))? else {
            return Ok(false);
        };
        let written = match entry {
            Some(entry) => {
                let update = state.update(area, key, value, entry.revision, lifetime);
                update.await
            }
            None => state.create(area, key, value, lifetime).await,
        };
        match written {
            Ok(_) => return Ok(true),
            Err(SharedStateError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Err(SharedStateError::Conflict)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory_state::MemoryState;

    #[tokio::test]
    async fn shared_counter_never_exceeds_its_limit() {
        let state: SharedStateHandle = Arc::new(MemoryState::default());
        let counter = || SharedCounter::new(Arc::clone(&state), &["money", "session"], None);
        assert_eq!(counter().value().await, Ok(0));
        let adding = (0..50).map(|_| {
            let counter = counter();
            tokio::spawn(async move { counter.add(3, 100).await.unwrap() })
        });
        let mut added = 0;
        for task in adding.collect::<Vec<_>>() {
            added += u64::from(task.await.unwrap());
        }
        assert_eq!(added, 33);
        assert_eq!(counter().value().await, Ok(99));
        counter().subtract(50).await.unwrap();
        assert_eq!(counter().add(51, 100).await, Ok(true));
        assert_eq!(counter().add(1, 100).await, Ok(false));
        assert_eq!(counter().add(u64::MAX, u64::MAX).await, Ok(false));
        counter().reset().await.unwrap();
        assert_eq!(counter().value().await, Ok(0));
    }
}
