//! Calls that wait for a person between two requests of a client.
//!
//! From 2026-07-28 on a server asks nothing by itself: it answers a call with what it needs to know, and the client
//! calls again with the answer. What has run of a call by then is not run twice: it waits here, and the state that the
//! client is given is the name of the waiting call, which nobody can guess, works once, and only for who got it and for
//! the very same call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Whose;
use crate::progress::{Heard, Question};
use crate::work::Work;

/// A call that waits.
pub(crate) struct Parked {
    /// Whose call it is, and what was called, as it came in.
    pub(crate) key: Key,
    /// The call itself. It goes on without its client: the person's time runs out there, too.
    pub(crate) work: Work,
    pub(crate) heard: Heard,
    /// What the person was asked.
    pub(crate) question: Question,
}

/// What a request must be to take up a call that waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) owner: String,
    /// Whose answer it waits for.
    pub(crate) whose: Whose,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// Where calls wait.
#[derive(Default)]
pub(crate) struct Parking(Mutex<HashMap<String, (Instant, Parked)>>);

/// Calls that wait at a time: more than any person answers.
const PLACES: usize = 256;

/// How long a call that has ended meanwhile waits for a client that is late with its answer.
const LATE: Duration = Duration::from_secs(15 * 60);

impl Parking {
    /// Lets a call wait, and gives its name; gives it back if there is no place.
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

    /// The waiting call of this name, if it is that one. Who asks for another's, or with another call, does not end it.
    pub(crate) fn take(&self, name: &str, key: &Key) -> Option<Parked> {
        let mut places = self.lock();
        places.get(name).filter(|(_, parked)| parked.key == *key)?;
        places.remove(name).map(|(_, parked)| parked)
    }

    /// Stops all calls of an owner that has gone away.
    pub(crate) fn clear(&self, owner: &str) {
        self.lock()
            .retain(|_, (_, parked)| parked.key.owner != owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Parked)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
