//! Limits on the requests that are handled at the same time: of each person, and of all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::ConsoleLimits;
use crate::response::ConsoleRequestError;

/// The requests that wait or are handled.
pub(crate) struct RequestSlots {
    people: Mutex<HashMap<String, Arc<PersonSlots>>>,
    all: Arc<Semaphore>,
    evaluations: Arc<Semaphore>,
}

/// Room for the requests of one person.
struct PersonSlots {
    requests: Arc<Semaphore>,
    evaluations: Arc<Semaphore>,
}

/// A request that waits. Dropping it gives up its position.
pub(crate) struct WaitingRequest {
    slots: Arc<RequestSlots>,
    /// Counts as a request of the person until it is dropped.
    person: Arc<PersonSlots>,
}

/// A request that may be handled. Dropping it makes room for another one.
pub(crate) struct RequestSlot {
    request: WaitingRequest,
    permits: Vec<OwnedSemaphorePermit>,
}

impl RequestSlots {
    pub(crate) fn new(limits: &ConsoleLimits) -> Self {
        Self {
            people: Mutex::default(),
            all: Arc::new(Semaphore::new(limits.concurrent)),
            evaluations: Arc::new(Semaphore::new(limits.evaluations)),
        }
    }

    /// Counts a request of a person.
    ///
    /// # Errors
    /// Too many requests of the person wait or are handled already.
    pub(crate) fn enter(
        self: &Arc<Self>,
        person: &str,
        limits: &ConsoleLimits,
    ) -> Result<WaitingRequest, ConsoleRequestError> {
        let mut people = self.people.lock();
        people.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = people.entry(person.to_owned()).or_insert_with(|| {
            Arc::new(PersonSlots {
                requests: Arc::new(Semaphore::new(limits.user_concurrent)),
                evaluations: Arc::new(Semaphore::new(1)),
            })
        });
        // One is that of the map.
        if Arc::strong_count(slots) > limits.user_requests {
            return Err(ConsoleRequestError::too_many(
                "too many of your requests wait for an answer: wait until one has ended",
            ));
        }
        Ok(WaitingRequest {
            slots: Arc::clone(self),
            person: Arc::clone(slots),
        })
    }
}

impl WaitingRequest {
    /// Waits until the person has room for the request.
    pub(crate) async fn start(self) -> RequestSlot {
        let requests = Arc::clone(&self.person.requests);
        RequestSlot {
            permits: requests.acquire_owned().await.into_iter().collect(),
            request: self,
        }
    }
}

impl RequestSlot {
    /// Waits until the console has room for the request. An evaluation of rules takes long, so that few run at a time, and
    /// only one of each person.
    pub(crate) async fn run(mut self, is_evaluation: bool) -> Self {
        let WaitingRequest { slots, person } = &self.request;
        let evaluations = is_evaluation.then_some([&person.evaluations, &slots.evaluations]);
        for semaphore in evaluations.into_iter().flatten().chain([&slots.all]) {
            let permit = Arc::clone(semaphore).acquire_owned().await;
            self.permits.extend(permit);
        }
        self
    }
}
