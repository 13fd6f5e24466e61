//! Polls an event that is always ready, without end: almost no fuel, and no waiting.

use mimir_guests::{Answer, Hostile, hostile};
use wasip2::clocks::monotonic_clock::subscribe_instant;
use wasip2::io::poll::poll;

struct Poll;

impl Hostile for Poll {
    fn call(_: String) -> Answer {
        let now = subscribe_instant(0);
        loop {
            poll(&[&now]);
        }
    }
}

hostile!(Poll);
