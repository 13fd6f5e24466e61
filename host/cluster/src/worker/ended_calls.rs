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
    order: VecDeque<(Instant, String)>,
    /// The calls whose last frames are stored, and their total size.
    stored: VecDeque<String>,
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
    pub(super) fn insert(&mut self, reply: &str, mut ended: EndedCall) {
        let now = Instant::now();
        let size = ended.size();
        if size > MAX_STORED_EACH {
            ended = EndedCall::Forgotten;
        } else if size > 0 {
            self.size += size;
            self.stored.push_back(reply.to_owned());
        }
        self.order.push_back((now, reply.to_owned()));
        self.calls.insert(reply.to_owned(), ended);
        while self.size > MAX_STORED
            && let Some(oldest) = self.stored.pop_front()
        {
            if let Some(ended) = self.calls.get_mut(&oldest) {
                self.size -= ended.size();
                *ended = EndedCall::Forgotten;
            }
        }
        while let Some((at, oldest)) = self.order.front()
            && (self.order.len() > MAX_CALLS || now.duration_since(*at) > LIFETIME)
        {
            if let Some(removed) = self.calls.remove(oldest) {
                self.size -= removed.size();
            }
            self.order.pop_front();
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
    fn refusing_does_not_replace_an_end() {
        let mut ended = EndedCalls::default();
        ended.insert("a", EndedCall::Stopped);
        ended.refuse("a");
        ended.refuse("b");
        assert!(matches!(ended.get("a"), Some(EndedCall::Stopped)));
        assert!(matches!(ended.get("b"), Some(EndedCall::Refused)));
    }
}
