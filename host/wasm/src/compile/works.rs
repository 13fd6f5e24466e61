//! Where components are compiled: each of them once, however many ask for it, a few at a time, and on threads of their
//! own. Compiling goes on when who asked has gone: it can't be stopped, and the next one who asks finds it under way.
//!
//! Nobody waits for ever. What takes too long is left alone for a while, and gives its place to others.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mimir_core::Code;
use tokio::sync::watch;
use wasmtime::component::Component;

use crate::cache::Cache;
use crate::digest::Hash;
use crate::error::HostError;
use crate::rest;

/// How long anybody waits for a component to be compiled. Engines of languages take up to half a minute on a slow
/// machine.
const WAIT: Duration = Duration::from_secs(120);

/// How many are compiled at a time. Each uses all cores, and up to some hundred megabytes.
const AT_A_TIME: usize = 2;

type Compiled = Option<Result<Component, HostError>>;

/// Components that are being compiled.
#[derive(Default)]
pub(crate) struct Works(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something has ended.
    free: Condvar,
}

#[derive(Default)]
struct State {
    /// What can be waited for.
    under_way: HashMap<Hash, watch::Receiver<Compiled>>,
    /// What has a place. It loses it when it is done, or when it takes too long.
    places: Vec<Hash>,
    /// What has had a place, and is not done.
    begun: HashSet<Hash>,
}

impl Works {
    /// The component, compiled by `work` if it is not under way already.
    pub(crate) async fn component(
        &self,
        cache: &Cache,
        digest: Hash,
        place: &str,
        work: impl FnOnce() -> Result<Component, HostError> + Send + 'static,
    ) -> Result<Component, HostError> {
        self.within(WAIT, cache, digest, place, work).await
    }

    async fn within(
        &self,
        wait: Duration,
        cache: &Cache,
        digest: Hash,
        place: &str,
        work: impl FnOnce() -> Result<Component, HostError> + Send + 'static,
    ) -> Result<Component, HostError> {
        let slow = |reason: String| HostError::Component(reason, Code::Timeout);
        if let Some(reason) = rest::reason(cache, &digest, rest::Kind::Compile) {
            return Err(slow(reason));
        }
        let mut done = self.join(digest, work)?;
        let ended = tokio::time::timeout(wait, done.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(compiled)) => match &*compiled {
                Some(compiled) => compiled.clone(),
                None => Err(lost()),
            },
            Ok(Err(_)) => Err(lost()),
            Err(_) => {
                let begun = self.0.leave(&digest);
                let seconds = wait.as_secs();
                let reason = format!("{place} was not compiled within {seconds} s");
                if !begun {
                    // Others were slow, not this one.
                    return Err(HostError::Component(
                        format!("{reason}, because others are being compiled; try again later"),
                        Code::Unavailable,
                    ));
                }
                rest::remember(cache, &digest, rest::Kind::Compile, &reason);
                let until = rest::reason(cache, &digest, rest::Kind::Compile);
                Err(slow(until.unwrap_or(reason)))
            }
        }
    }

    /// Waits with those who wait already, or begins.
    fn join(
        &self,
        digest: Hash,
        work: impl FnOnce() -> Result<Component, HostError> + Send + 'static,
    ) -> Result<watch::Receiver<Compiled>, HostError> {
        let mut state = self.0.lock();
        if let Some(done) = state.under_way.get(&digest) {
            return Ok(done.clone());
        }
        let (tell, done) = watch::channel(None);
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new()
            .name("compile".to_owned())
            .spawn(move || {
                let place = Place::take(shared, digest);
                // What panics is told to nobody else: who waits sees that the sender has gone.
                tell.send_replace(Some(work()));
                drop(place);
            });
        started.map_err(|error| HostError::Engine(format!("no thread can be had: {error}")))?;
        state.under_way.insert(digest, done.clone());
        Ok(done)
    }
}

fn lost() -> HostError {
    HostError::Engine("compiling ended without a result".to_owned())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its place from what is too slow; says whether it ever had one.
    fn leave(&self, digest: &Hash) -> bool {
        let mut state = self.lock();
        state.places.retain(|other| other != digest);
        self.free.notify_all();
        state.begun.contains(digest)
    }
}

/// One of the few places, held until it is dropped.
struct Place(Arc<Shared>, Hash);

impl Place {
    fn take(shared: Arc<Shared>, digest: Hash) -> Self {
        let mut state = shared.lock();
        while state.places.len() >= AT_A_TIME {
            state = shared
                .free
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.places.push(digest);
        state.begun.insert(digest);
        drop(state);
        Self(shared, digest)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave(&self.1);
        let mut state = self.0.lock();
        state.begun.remove(&self.1);
        state.under_way.remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn component() -> Result<Component, HostError> {
        let engine = wasmtime::Engine::default();
        Ok(Component::new(&engine, wat::parse_str("(component)").unwrap()).unwrap())
    }

    #[tokio::test]
    async fn one_component_is_compiled_once_and_its_caller_may_leave() {
        let (works, cache) = (Works::default(), Cache::new(None));
        let (go, gate) = mpsc::channel::<()>();
        let runs = Arc::new(AtomicUsize::new(0));
        let digest = Hash::of(b"one");
        let counted = Arc::clone(&runs);
        let first = works.component(&cache, digest, "one", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = gate.recv();
            component()
        });
        // The first one is cancelled.
        let gone = tokio::time::timeout(Duration::from_millis(50), first).await;
        assert!(gone.is_err());
        let (second, third) = (runs.clone(), runs.clone());
        let again = |runs: Arc<AtomicUsize>| {
            works.component(&cache, digest, "one", move || {
                runs.fetch_add(1, Ordering::SeqCst);
                component()
            })
        };
        let both = async { tokio::join!(again(second), again(third)) };
        let open = async { go.send(()).unwrap() };
        let ((one, two), ()) = tokio::join!(both, open);
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn few_are_compiled_at_a_time() {
        let (works, cache) = (Works::default(), Cache::new(None));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all = (0..6_u8).map(|n| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            works.component(&cache, Hash::of(&[n]), "it", move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                now.fetch_sub(1, Ordering::SeqCst);
                component()
            })
        });
        for one in futures::future::join_all(all).await {
            one.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), AT_A_TIME);
    }

    #[tokio::test]
    async fn what_takes_too_long_is_left_alone_and_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let works = Works::default();
        let cache = Cache::new(Some(folder.path().join("cache")));
        let wait = Duration::from_millis(50);
        let mut gates = Vec::new();
        for n in 0..AT_A_TIME as u8 {
            let (go, gate) = mpsc::channel::<()>();
            gates.push(go);
            let work = move || {
                let _ = gate.recv();
                component()
            };
            let error = works
                .within(wait, &cache, Hash::of(&[n]), "bomb", work)
                .await;
            let error = error.err().unwrap();
            assert_eq!(error.code(), Code::Timeout);
            assert!(error.to_string().contains("tried again"), "{error}");
        }
        // Both still compile, and neither keeps a place.
        let other = works.component(&cache, Hash::of(b"other"), "other", component);
        assert!(other.await.is_ok());
        let again = works.component(&cache, Hash::of(&[0]), "bomb", || unreachable!());
        assert_eq!(again.await.err().unwrap().code(), Code::Timeout);
    }

    #[tokio::test]
    async fn work_that_panics_is_a_failure_and_keeps_no_place() {
        let (works, cache) = (Works::default(), Cache::new(None));
        for _ in 0..=AT_A_TIME {
            let digest = Hash::of(b"panics");
            let ended = works.component(&cache, digest, "it", || panic!("on purpose"));
            assert_eq!(ended.await.err().unwrap().code(), Code::Unavailable);
        }
    }
}
