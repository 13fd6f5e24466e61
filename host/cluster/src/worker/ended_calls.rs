//! The calls that have ended on a worker, for servers that have missed the last frame.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::frames::{self, WorkerFrame};

/// Time for which an ended call is remembered. Servers give up earlier.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of remembered calls. At more than 1,000 calls per second, the time is shorter.
const MAX_CALLS: usize = 600_000;

/// Maximum size of all stored last frames, and of one, in bytes.
const MAX_STORED: usize = 32 << 20;
const MAX_STORED_EACH: usize = 1 << 20;

/// How a call ended.
#[derive(Debug, Clone)]
pub(super) enum EndedCall {
    /// The call was never received, and is refused from now on.
    Refused,
    /// The call was stopped before it ran.
    GivenUp,
    /// The call was stopped and recorded as cancelled.
    Stopped,
    /// The node was closed by another process.
    Closed,
    /// The encoded last frames.
    Done(Vec<Bytes>),
    /// The last frames are not stored any more.
    Forgotten,
}

impl EndedCall {
    /// Returns the frames that report the end.
    pub(super) fn frames(self, max_payload: usize) -> Vec<Bytes> {
        let frame = match self {
            EndedCall::Done(encoded) => return encoded,
            EndedCall::Refused => WorkerFrame::NotRunning,
            EndedCall::GivenUp => WorkerFrame::GivenUp,
            EndedCall::Stopped => WorkerFrame::Stopped,
            EndedCall::Closed => WorkerFrame::Closed,
            EndedCall::Forgotten => WorkerFrame::Ended,
        };
        frames::encode(&[frame], max_payload)
    }

    fn size(&self) -> usize {
        match self {
            EndedCall::Done(encoded) => encoded.iter().map(Bytes::len).sum(),
            _ => 0,
        }
    }
}

/// The ended calls, by their reply subject.
#[derive(Default)]
pub(super) struct EndedCalls {
    calls: HashMap<String, EndedCall>,
    /// The calls with the time of their end, the oldest first.
    order: VecDeque<(Instant, String)>,
    /// Number of calls at the front of `order` whose last frames are not stored any more.
    forgotten: usize,
    /// Size of all stored last frames in bytes.
    size: usize,
}

impl EndedCalls {
    pub(super) fn get(&self, reply: &str) -> Option<&EndedCall> {
        self.calls.get(reply)
    }

    /// Refuses a call that was not received yet.
    pub(super) fn refuse(&mut self, reply: &str) {
        if !self.calls.contains_key(reply) {
            self.insert(reply, EndedCall::Refused);
        }
    }

    /// Adds a call. Removes the oldest ones beyond the limits.
    pub(super) fn insert(&mut self, reply: &str, ended: EndedCall) {
        self.insert_at(reply, ended, Instant::now());
    }

    fn insert_at(&mut self, reply: &str, mut ended: EndedCall, now: Instant) {
        if ended.size() > MAX_STORED_EACH {
            ended = EndedCall::Forgotten;
        }
        self.size += ended.size();
        self.order.push_back((now, reply.to_owned()));
        if let Some(replaced) = self.calls.insert(reply.to_owned(), ended) {
            self.size -= replaced.size();
        }
        while self.size > MAX_STORED
            && let Some((_, oldest)) = self.order.get(self.forgotten)
        {
            if let Some(ended @ EndedCall::Done(_)) = self.calls.get_mut(oldest) {
                self.size -= ended.size();
                *ended = EndedCall::Forgotten;
            }
            self.forgotten += 1;
        }
        while let Some((at, oldest)) = self.order.front()
            && (self.order.len() > MAX_CALLS || now.duration_since(*at) > LIFETIME)
        {
            if let Some(removed) = self.calls.remove(oldest) {
                self.size -= removed.size();
            }
            self.order.pop_front();
            self.forgotten = self.forgotten.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_frames_are_stored_up_to_a_size() {
        let mut ended = EndedCalls::default();
        let frames = |size| EndedCall::Done(vec![Bytes::from(vec![0; size])]);
        ended.insert("large", frames(MAX_STORED_EACH + 1));
        assert!(matches!(ended.get("large"), Some(EndedCall::Forgotten)));
        for call in 0..40 {
            ended.insert(&call.to_string(), frames(MAX_STORED_EACH));
        }
        assert!(matches!(ended.get("0"), Some(EndedCall::Forgotten)));
        assert!(matches!(ended.get("39"), Some(EndedCall::Done(_))));
        assert!(ended.size <= MAX_STORED);
        assert_eq!(ended.calls.len(), 41, "that they ended is known");
    }

    #[test]
    fn old_calls_leave_nothing_behind() {
        let mut ended = EndedCalls::default();
        let frames = |size| EndedCall::Done(vec![Bytes::from(vec![0; size])]);
        let begin = Instant::now();
        for call in 0..2000_u32 {
            let now = begin + Duration::from_secs(call.into());
            let size = if call < 1000 { 700 } else { MAX_STORED_EACH };
            ended.insert_at(&call.to_string(), frames(size), now);
            assert!(ended.order.len() <= 601 && ended.calls.len() <= 601);
            assert!(ended.size <= MAX_STORED && ended.forgotten <= ended.order.len());
        }
        assert!(ended.get("1398").is_none() && ended.get("1399").is_some());
        assert!(matches!(ended.get("1967"), Some(EndedCall::Forgotten)));
        assert!(matches!(ended.get("1968"), Some(EndedCall::Done(_))));
        ended.insert_at(
            "last",
            EndedCall::Stopped,
            begin + Duration::from_secs(9999),
        );
        assert_eq!((ended.calls.len(), ended.order.len()), (1, 1));
        assert_eq!((ended.size, ended.forgotten), (0, 0));
    }

    #[test]
    fn refusing_does_not_replace_an_end() {
        let mut ended = EndedCalls::default();
        ended.insert("a", EndedCall::Stopped);
        ended.refuse("a");
        ended.refuse("b");
        assert!(matches!(ended.get("a"), Some(EndedCall::Stopped)));
        assert!(matches!(ended.get("b"), Some(EndedCall::Refused)));
    }
}
