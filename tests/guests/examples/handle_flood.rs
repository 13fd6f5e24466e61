//! Creates handles, which use the host's memory, and drops none.

use mimir_guests::{Answer, Hostile, hostile};
use wasip2::clocks::monotonic_clock::subscribe_duration;

struct Handles;

impl Hostile for Handles {
    fn call(_: String) -> Answer {
        loop {
            std::mem::forget(subscribe_duration(u64::MAX));
        }
    }
}

hostile!(Handles);
