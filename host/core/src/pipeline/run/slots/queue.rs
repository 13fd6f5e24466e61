//! The running and waiting calls of one plugin.
//!
//! Each call has its own limit, so a changed setting applies from the next call on, and the tools of one plugin can
//! have different limits.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A waiting call. It may start when fewer than `max` calls run.
struct QueuedCall {
    max: usize,
    start: oneshot::Sender<QueueSlot>,
}

/// The number of running calls, and the waiting calls in order. Each released slot starts at most one waiting call.
#[derive(Default)]
struct Inner {
    running: usize,
    waiting: VecDeque<QueuedCall>,
}

/// The calls of one plugin.
#[derive(Default)]
pub(super) struct PluginQueue(Mutex<Inner>);

/// The slot of a running call. Dropping it releases the slot.
pub(super) struct QueueSlot(Arc<PluginQueue>);

impl PluginQueue {
    /// Returns a slot if fewer than `max` calls run, without waiting.
    pub(super) fn try_take(self: &Arc<Self>, max: usize) -> Option<QueueSlot> {
        let mut inner = self.0.lock();
        if inner.running >= max {
            return None;
        }
        inner.running += 1;
        Some(QueueSlot(Arc::clone(self)))
    }

    /// Waits until fewer than `max` calls run, and returns a slot. `None` if the queue was dropped, which cannot happen
    /// while a caller waits in it.
    pub(super) async fn take(self: &Arc<Self>, max: usize) -> Option<QueueSlot> {
        let slot = {
            let mut inner = self.0.lock();
            if inner.running < max {
                inner.running += 1;
                return Some(QueueSlot(Arc::clone(self)));
            }
            let (start, slot) = oneshot::channel();
            inner.waiting.push_back(QueuedCall { max, start });
            slot
        };
        slot.await.ok()
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let next = {
            let mut inner = self.0.0.lock();
            inner.running -= 1;
            let next = inner.next();
            inner.running += usize::from(next.is_some());
            next
        };
        if let Some(next) = next {
            // If the waiting caller was dropped in the meantime, the slot is dropped here and wakes the next call.
            let _ = next.start.send(QueueSlot(Arc::clone(&self.0)));
        }
    }
}

impl Inner {
    /// Removes and returns the first call that may start now. Also removes calls whose callers were dropped.
    fn next(&mut self) -> Option<QueuedCall> {
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at) {
            if waiting.start.is_closed() {
                self.waiting.remove(at);
            } else if waiting.max > self.running {
                return self.waiting.remove(at);
            } else {
                at += 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn plugin_queue_calls_wait_for_their_own_limit() {
        let queue = Arc::<PluginQueue>::default();
        let first = queue.try_take(2).unwrap();
        let second = queue.try_take(2).unwrap();
        assert!(queue.try_take(2).is_none());
        let (mut narrow, mut wide) = (pin!(queue.take(1)), pin!(queue.take(2)));
        assert!(poll(narrow.as_mut()).is_pending() && poll(wide.as_mut()).is_pending());
        let third = queue.try_take(3).unwrap();
        drop(third);
        assert!(poll(wide.as_mut()).is_pending());
        drop(first);
        assert!(poll(narrow.as_mut()).is_pending(), "another call runs");
        let Poll::Ready(Some(wide)) = poll(wide.as_mut()) else {
            panic!("a waiting call with a lower limit blocks a call with a higher limit");
        };
        drop(second);
        assert!(poll(narrow.as_mut()).is_pending());
        drop(wide);
        assert!(poll(narrow.as_mut()).is_ready());
    }

    #[test]
    fn plugin_queue_dropped_waiters_do_not_block_it() {
        let queue = Arc::<PluginQueue>::default();
        let slot = queue.try_take(1).unwrap();
        let mut behind = pin!(queue.take(1));
        {
            let mut gone = pin!(queue.take(1));
            assert!(poll(gone.as_mut()).is_pending());
            assert!(poll(behind.as_mut()).is_pending());
        }
        {
            let mut woken = pin!(queue.take(1));
            assert!(poll(woken.as_mut()).is_pending());
            drop(slot);
            assert!(poll(behind.as_mut()).is_ready());
        }
        // A caller that was woken and dropped its future has released its slot.
        assert!(queue.try_take(1).is_some());
    }
}
