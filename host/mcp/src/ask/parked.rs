//! Calls that wait for a person between two requests of a client.
//!
//! From 2026-07-28 on a server sends no requests: it responds to a call with its questions, and the client calls again
//! with the answers. The part of the call that has already run is not repeated: the call waits here, and the state
//! that the client gets is the name of the pending call. The name cannot be guessed, works once, and only for the
//! client that got it and for the very same call.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Whose;
use crate::progress::{Heard, Question};
use crate::work::Work;

/// A pending call.
pub(crate) struct Parked {
    /// Owner and request of the call.
    pub(crate) key: Key,
    /// The call itself. It continues without its client, so that the time limit of the person's answer applies.
    pub(crate) work: Work,
    pub(crate) heard: Heard,
    /// The question to the person.
    pub(crate) question: Question,
}

/// Properties that a request must have to resume a pending call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) owner: String,
    /// Scope of the answer that the call waits for.
    pub(crate) whose: Whose,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// All pending calls.
#[derive(Default)]
pub(crate) struct Parking(Mutex<HashMap<String, (Instant, Parked)>>);

/// Maximum number of pending calls: more than people answer.
const PLACES: usize = 256;

/// Time for which the outcome of an ended call is available to a client that answers late.
const LATE: Duration = Duration::from_secs(15 * 60);

impl Parking {
    /// Stores a call, and returns its name; returns the call if there is no room.
    pub(crate) fn leave(&self, call: Parked) -> Result<String, Box<Parked>> {
        let mut places = self.lock();
        places.retain(|_, (since, parked)| !parked.work.is_over() || since.elapsed() < LATE);
        match super::token() {
            Some(name) if places.len() < PLACES => {
                places.insert(name.clone(), (Instant::now(), call));
                Ok(name)
            }
            _ => Err(Box::new(call)),
        }
    }

    /// Removes and returns the pending call of this name, if the key matches. A mismatch leaves the call pending.
    pub(crate) fn take(&self, name: &str, key: &Key) -> Option<Parked> {
        let mut places = self.lock();
        places.get(name).filter(|(_, parked)| parked.key == *key)?;
        places.remove(name).map(|(_, parked)| parked)
    }

    /// Stops all calls of an owner that has disconnected.
    pub(crate) fn clear(&self, owner: &str) {
        self.lock()
            .retain(|_, (_, parked)| parked.key.owner != owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Parked)>> {
        self.0.lock()
    }
}
