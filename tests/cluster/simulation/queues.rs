//! Events in order of time, and servers with a queue.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Events in order of their time in milliseconds.
pub struct EventQueue<T> {
    heap: BinaryHeap<TimedEvent<T>>,
    now: f64,
    count: u64,
}

struct TimedEvent<T> {
    time: f64,
    count: u64,
    event: T,
}

impl<T> EventQueue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            now: 0.0,
            count: 0,
        }
    }

    /// Returns the time of the newest event.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Adds an event.
    pub fn after(&mut self, delay: f64, event: T) {
        self.count += 1;
        self.heap.push(TimedEvent {
            time: self.now + delay.max(0.0),
            count: self.count,
            event,
        });
    }

    /// Removes the next event.
    pub fn next(&mut self) -> Option<T> {
        let next = self.heap.pop()?;
        self.now = next.time;
        Some(next.event)
    }
}

// The heap returns the greatest first; events of the same time in the order in which they were added.
impl<T> Ord for TimedEvent<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = other.time.total_cmp(&self.time);
        by_time.then_with(|| other.count.cmp(&self.count))
    }
}

impl<T> PartialOrd for TimedEvent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for TimedEvent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for TimedEvent<T> {}

/// Equal servers with one queue, first come, first served.
pub struct FifoServers<T> {
    free: usize,
    queue: VecDeque<(T, f64)>,
    /// Time for which servers were busy.
    pub busy_ms: f64,
}

impl<T> FifoServers<T> {
    /// Creates idle servers.
    pub fn new(servers: usize) -> Self {
        Self {
            free: servers,
            queue: VecDeque::new(),
            busy_ms: 0.0,
        }
    }

    /// Adds a job. Returns it if it begins at once.
    pub fn enter(&mut self, job: T, time: f64) -> Option<(T, f64)> {
        if self.free == 0 {
            self.queue.push_back((job, time));
            return None;
        }
        self.free -= 1;
        self.busy_ms += time;
        Some((job, time))
    }

    /// Ends a job. Returns the next one.
    pub fn leave(&mut self) -> Option<(T, f64)> {
        let next = self.queue.pop_front();
        match &next {
            Some((_, time)) => self.busy_ms += time,
            None => self.free += 1,
        }
        next
    }
}
