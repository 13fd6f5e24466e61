//! An observer that shows nothing of commands that end soon, and everything of others.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::backend::BoxFuture;
use crate::call::{CallObserver, CallProgress, LogLine};
use crate::clock::Clock;
use crate::command::CommandStream;

/// Run time from which on the output of a helper command is shown.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// Forwards progress to another observer once the command has run for [`SHOW_AFTER`]. Earlier progress is forwarded
/// then, too: the other observer masks secrets, and would not find one whose beginning is missing.
pub(super) struct DelayedObserver {
    inner: Arc<dyn CallObserver>,
    clock: Arc<dyn Clock>,
    shown_from: Instant,
    /// Progress that is not forwarded yet, with the stream of output. Its sender bounds it.
    early: Mutex<Vec<(Option<CommandStream>, CallProgress)>>,
}

impl DelayedObserver {
    pub(super) fn new(inner: Arc<dyn CallObserver>, clock: Arc<dyn Clock>) -> Self {
        let shown_from = clock.instant() + SHOW_AFTER;
        Self {
            inner,
            clock,
            shown_from,
            early: Mutex::default(),
        }
    }
}

impl DelayedObserver {
    fn add(&self, stream: Option<CommandStream>, progress: CallProgress) {
        let mut early = self.early.lock();
        early.push((stream, progress));
        if self.clock.instant() >= self.shown_from {
            self.forward(&mut early);
        }
    }

    fn forward(&self, early: &mut Vec<(Option<CommandStream>, CallProgress)>) {
        for (stream, progress) in early.drain(..) {
            match stream {
                Some(stream) => self.inner.output(stream, progress),
                None => self.inner.progress(progress),
            }
        }
    }

    /// Runs `work`, and forwards the early progress after [`SHOW_AFTER`], even if the command reports nothing then.
    pub(super) async fn show_while<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut shown = Some(self.clock.sleep_until(self.shown_from));
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            let is_due =
                |timer: &mut BoxFuture<'static, ()>| timer.as_mut().poll(context).is_ready();
            if shown.as_mut().is_some_and(is_due) {
                shown = None;
                self.forward(&mut self.early.lock());
            }
            Poll::Pending
        })
        .await
    }
}

impl CallObserver for DelayedObserver {
    fn progress(&self, progress: CallProgress) {
        self.add(None, progress);
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        self.add(Some(stream), progress);
    }

    fn log(&self, line: LogLine) {
        self.inner.log(line);
    }

    fn waiting(&self, tool: &str) {
        self.inner.waiting(tool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[derive(Default)]
    struct Seen(Mutex<Vec<u64>>);

    impl CallObserver for Seen {
        fn progress(&self, progress: CallProgress) {
            self.0.lock().push(progress.done);
        }
        fn log(&self, _: LogLine) {}
    }

    #[test]
    fn delayed_observer_shows_everything_of_long_commands_only() {
        let clock = Arc::new(ManualClock(Mutex::new(Instant::now())));
        let seen = Arc::new(Seen::default());
        let observer = DelayedObserver::new(seen.clone(), clock.clone());
        let report = |done| {
            observer.progress(CallProgress {
                done,
                total: None,
                message: None,
            });
        };
        report(1);
        report(2);
        assert!(seen.0.lock().is_empty());
        *clock.0.lock() += SHOW_AFTER;
        report(3);
        report(4);
        assert_eq!(*seen.0.lock(), [1, 2, 3, 4]);
    }

    /// A clock whose time is over for every sleeper.
    struct ExpiredClock(Instant);

    impl Clock for ExpiredClock {
        fn now(&self) -> std::time::SystemTime {
            std::time::SystemTime::UNIX_EPOCH
        }
        fn instant(&self) -> Instant {
            self.0
        }
        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[tokio::test]
    async fn delayed_observer_shows_commands_that_become_quiet() {
        let seen = Arc::new(Seen::default());
        let clock = Arc::new(ExpiredClock(Instant::now()));
        let observer = DelayedObserver::new(seen.clone(), clock);
        observer.progress(CallProgress {
            done: 1,
            total: None,
            message: None,
        });
        assert!(seen.0.lock().is_empty());
        let waits = async {
            tokio::task::yield_now().await;
            seen.0.lock().clone()
        };
        assert_eq!(observer.show_while(waits).await, [1]);
        // A command that has ended is not shown any more.
        observer.progress(CallProgress {
            done: 2,
            total: None,
            message: None,
        });
        observer.show_while(async {}).await;
        assert_eq!(*seen.0.lock(), [1]);
    }
}
