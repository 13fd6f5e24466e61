//! Waits for an event that never occurs.

use mimir_guests::{Answer, Hostile, hostile, text};
use wasip2::clocks::monotonic_clock::subscribe_instant;
use wasip2::io::poll::poll;

struct Poll;

impl Hostile for Poll {
    fn call(_: String) -> Answer {
        let never = subscribe_instant(u64::MAX);
        poll(&[&never]);
        text("the end of time")
    }
}

hostile!(Poll);
