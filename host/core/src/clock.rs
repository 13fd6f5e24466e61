//! The clock port, and deadlines of calls, which are paused while an approval is pending.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::backend::BoxFuture;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Returns the date and time.
    fn now(&self) -> SystemTime;
    /// Returns the monotonic time.
    fn instant(&self) -> Instant;
    /// Completes at `at`.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// The deadline of a call. Clones share their state.
#[derive(Clone)]
pub struct Deadline {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<DeadlineState>>,
    /// Time between the expiry of this deadline and that of the shared state, which is later.
    early: Duration,
    outer: Option<Arc<Deadline>>,
}

struct DeadlineState {
    /// The expiry, not counting the current pause.
    at: Instant,
    /// The number of active pauses; `since` is the start of the first one.
    pauses: u32,
    since: Instant,
}

impl Deadline {
    /// Creates a deadline `limit` from now, nested in the deadline of an outer call.
    pub fn new(clock: Arc<dyn Clock>, limit: Duration, outer: Option<Deadline>) -> Self {
        let now = clock.instant();
        Self {
            state: Arc::new(Mutex::new(DeadlineState {
                at: now + limit,
                pauses: 0,
                since: now,
            })),
            clock,
            early: Duration::ZERO,
            outer: outer.map(Arc::new),
        }
    }

    /// Returns a deadline that shares the pauses of this one, and expires `limit` from now if that is sooner.
    #[must_use]
    pub fn with_limit(&self, limit: Option<Duration>) -> Self {
        let now = self.clock.instant();
        let left = self.state.lock().expiry(now).saturating_duration_since(now);
        let early = left.saturating_sub(limit.unwrap_or(Duration::MAX));
        Self {
            early: early.max(self.early),
            ..self.clone()
        }
    }

    /// Pauses this deadline and the outer deadlines until the guard is dropped.
    pub fn pause(&self) -> DeadlinePause {
        let now = self.clock.instant();
        let mut chain = vec![];
        let mut next = Some(self);
        while let Some(deadline) = next {
            let mut state = deadline.state.lock();
            if state.pauses == 0 {
                state.since = now;
            }
            state.pauses += 1;
            drop(state);
            chain.push((deadline.clock.clone(), deadline.state.clone()));
            next = deadline.outer.as_deref();
        }
        DeadlinePause(chain)
    }

    /// Runs `work` until it completes or the deadline expires. `work` is taken pinned, because the futures of calls are
    /// large and would be moved repeatedly by value.
    pub async fn run_until<F: Future>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, DeadlineElapsed> {
        let mut timer: Option<(Instant, BoxFuture<'static, ()>)> = None;
        std::future::poll_fn(move |cx: &mut Context<'_>| {
            // Polled first, so that a result that is ready is never discarded.
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            loop {
                // During a pause, `at` is the time of the next check, because the expiry is not known yet.
                let now = self.clock.instant();
                let at = self.next_check(now);
                if at <= now {
                    // Polled once more, so that work that watches the same deadline can report its usage.
                    return match work.as_mut().poll(cx) {
                        Poll::Ready(output) => Poll::Ready(Ok(output)),
                        Poll::Pending => Poll::Ready(Err(DeadlineElapsed)),
                    };
                }
                let sleep = match &mut timer {
                    Some((wake, sleep)) if *wake >= now && *wake <= at => sleep,
                    _ => &mut timer.insert((at, self.clock.sleep_until(at))).1,
                };
                match Pin::new(sleep).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => timer = None,
                }
            }
        })
        .await
    }

    /// Returns true if this deadline or an outer one expires until `at`, unless it is paused.
    pub(crate) fn is_over_at(&self, at: Instant) -> bool {
        let now = self.clock.instant();
        let is_paused = self.state.lock().pauses > 0;
        let is_over = !is_paused && self.next_check(now) <= at;
        is_over
            || self
                .outer
                .as_ref()
                .is_some_and(|outer| outer.is_over_at(at))
    }

    /// Returns the expiry, or the time of the next check during a pause.
    fn next_check(&self, now: Instant) -> Instant {
        let state = self.state.lock();
        let shared = state.expiry(now);
        let expiry = shared.checked_sub(self.early).unwrap_or(shared);
        if state.pauses > 0 {
            expiry.max(now + PAUSED_CHECK_INTERVAL)
        } else {
            expiry
        }
    }
}

/// Measures the running time of a call, excluding time spent on approvals. Clones share their state.
#[derive(Clone)]
pub struct Stopwatch(Deadline);

impl Stopwatch {
    /// Starts a stopwatch, nested in the stopwatch of an outer call.
    pub fn new(clock: Arc<dyn Clock>, outer: Option<&Stopwatch>) -> Self {
        let outer = outer.map(|watch| watch.0.clone());
        Self(Deadline::new(clock, Duration::ZERO, outer))
    }

    /// Returns the system time.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.clock.now()
    }

    /// Pauses this stopwatch and the outer stopwatches until the guard is dropped.
    pub fn pause(&self) -> DeadlinePause {
        self.0.pause()
    }

    /// Returns the elapsed time.
    pub fn elapsed(&self) -> Duration {
        let now = self.0.clock.instant();
        let state = self.0.state.lock();
        let until = if state.pauses > 0 { state.since } else { now };
        // Each pause has moved `at`, the start, forward by its length.
        until.saturating_duration_since(state.at)
    }
}

/// The interval at which a paused deadline is checked.
const PAUSED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl DeadlineState {
    /// Returns the expiry, as if the current pause ended now.
    fn expiry(&self, now: Instant) -> Instant {
        if self.pauses > 0 {
            self.at + now.saturating_duration_since(self.since)
        } else {
            self.at
        }
    }
}

/// A guard that pauses deadlines until it is dropped.
pub struct DeadlinePause(Vec<PausedDeadline>);

/// A paused deadline and its clock.
type PausedDeadline = (Arc<dyn Clock>, Arc<Mutex<DeadlineState>>);

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        for (clock, state) in &self.0 {
            let now = clock.instant();
            let mut state = state.lock();
            state.pauses -= 1;
            if state.pauses == 0 {
                let waited = now.saturating_duration_since(state.since);
                state.at += waited;
            }
        }
    }
}

/// Error of work that has not completed before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineElapsed;

#[cfg(test)]
pub(crate) use tests::ManualClock;

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that a test moves by hand.
    pub(crate) struct ManualClock(pub(crate) Mutex<Instant>);

    impl Clock for ManualClock {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn instant(&self) -> Instant {
            *self.0.lock()
        }
        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn poll_once(deadline: &Deadline) -> Poll<Result<(), DeadlineElapsed>> {
        let pending = std::pin::pin!(std::future::pending::<()>());
        let mut work = std::pin::pin!(deadline.run_until(pending));
        work.as_mut()
            .poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// A clock that advances by 100 ms each time it is read.
    struct SlowClock(Mutex<Instant>);

    impl Clock for SlowClock {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn instant(&self) -> Instant {
            let mut at = self.0.lock();
            let now = *at;
            *at += Duration::from_millis(100);
            now
        }
        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn deadline_nested_run_until_expires_in_the_inner_future() {
        let clock = Arc::new(SlowClock(Mutex::new(Instant::now())));
        let deadline = Deadline::new(clock, Duration::from_millis(150), None);
        let inner = deadline.clone();
        // Time runs out after the inner future has read the clock, and before the outer one does.
        let work = std::pin::pin!(async move {
            let pending = std::pin::pin!(std::future::pending::<()>());
            inner.run_until(pending).await.is_err()
        });
        let mut outer = std::pin::pin!(deadline.run_until(work));
        let ended = outer
            .as_mut()
            .poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert_eq!(ended, Poll::Ready(Ok(true)));
    }

    #[test]
    fn stopwatch_pause_stops_the_inner_and_outer_watch() {
        let clock = Arc::new(ManualClock(Mutex::new(Instant::now())));
        let advance = |secs| *clock.0.lock() += Duration::from_secs(secs);
        let outer = Stopwatch::new(clock.clone(), None);
        advance(1);
        let inner = Stopwatch::new(clock.clone(), Some(&outer));
        advance(2);
        let pause = inner.pause();
        advance(100);
        let elapsed = |watch: &Stopwatch| watch.elapsed().as_secs();
        assert_eq!((elapsed(&outer), elapsed(&inner)), (3, 2), "while paused");
        drop(pause);
        advance(4);
        assert_eq!((elapsed(&outer), elapsed(&inner)), (7, 6), "afterwards");
    }

    #[test]
    fn deadline_pause_stops_the_inner_and_outer_deadline() {
        let clock = Arc::new(ManualClock(Mutex::new(Instant::now())));
        let advance = |secs| *clock.0.lock() += Duration::from_secs(secs);
        let outer = Deadline::new(clock.clone(), Duration::from_secs(10), None);
        let inner = Deadline::new(clock.clone(), Duration::from_secs(5), Some(outer.clone()));
        advance(4);
        {
            let _first = inner.pause();
            advance(100);
            let _second = inner.pause();
            advance(100);
            assert!(poll_once(&inner).is_pending());
            assert!(poll_once(&outer).is_pending());
        }
        assert!(poll_once(&inner).is_pending());
        advance(2);
        assert_eq!(poll_once(&inner), Poll::Ready(Err(DeadlineElapsed)));
        assert!(poll_once(&outer).is_pending());
        advance(5);
        assert_eq!(poll_once(&outer), Poll::Ready(Err(DeadlineElapsed)));
    }

    #[test]
    fn deadline_with_limit_shares_the_pauses() {
        let clock = Arc::new(ManualClock(Mutex::new(Instant::now())));
        let advance = |secs| *clock.0.lock() += Duration::from_secs(secs);
        let call = Deadline::new(clock.clone(), Duration::from_secs(100), None);
        advance(10);
        let limited = call.with_limit(Some(Duration::from_secs(5)));
        let nested = limited.with_limit(Some(Duration::from_secs(60)));
        advance(4);
        let pause = call.pause();
        advance(1000);
        assert!(poll_once(&limited).is_pending());
        let begun_in_pause = call.with_limit(Some(Duration::from_secs(3)));
        advance(1000);
        drop(pause);
        for deadline in [&limited, &nested, &begun_in_pause] {
            assert!(poll_once(deadline).is_pending());
        }
        advance(1);
        assert_eq!(poll_once(&limited), Poll::Ready(Err(DeadlineElapsed)));
        assert_eq!(poll_once(&nested), Poll::Ready(Err(DeadlineElapsed)));
        assert!(poll_once(&begun_in_pause).is_pending());
        advance(2);
        assert_eq!(
            poll_once(&begun_in_pause),
            Poll::Ready(Err(DeadlineElapsed))
        );
        assert!(poll_once(&call).is_pending());
        advance(83);
        for later in [None, Some(Duration::from_secs(1000))] {
            let later = call.with_limit(later);
            assert_eq!(poll_once(&later), Poll::Ready(Err(DeadlineElapsed)));
        }
    }
}
