//! The parts of requests of other servers, until they are complete.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::frame::{ExchangeId, FrameKind, PeerFrame};

/// Maximum size of a request: the largest message of a client, with its header.
const MAX_REQUEST_SIZE: usize = 17 << 20;

/// Maximum number of requests that are not complete.
const MAX_INCOMPLETE: usize = 64;

/// Time after which an incomplete request is dropped.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Requests that are not complete.
#[derive(Default)]
pub(super) struct RequestAssembly(HashMap<ExchangeId, (Instant, Vec<u8>)>);

impl RequestAssembly {
    /// Adds a part of a request. Returns the request if it is complete.
    pub(super) fn add(&mut self, frame: &PeerFrame) -> Option<Vec<u8>> {
        if frame.kind == FrameKind::RequestEnd && !self.0.contains_key(&frame.exchange) {
            return Some(frame.payload.to_vec());
        }
        if self.0.len() >= MAX_INCOMPLETE && !self.0.contains_key(&frame.exchange) {
            return None;
        }
        let (_, request) = self
            .0
            .entry(frame.exchange)
            .or_insert_with(|| (Instant::now(), Vec::new()));
        if request.len() + frame.payload.len() > MAX_REQUEST_SIZE {
            self.0.remove(&frame.exchange);
            return None;
        }
        request.extend(&frame.payload);
        if frame.kind != FrameKind::RequestEnd {
            return None;
        }
        self.0.remove(&frame.exchange).map(|(_, request)| request)
    }

    /// Drops the requests whose sender has ended.
    pub(super) fn drop_old_parts(&mut self) {
        self.0.retain(|_, (since, _)| since.elapsed() < MAX_AGE);
    }
}
