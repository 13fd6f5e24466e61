//! Logs megabytes at a time without end: almost no fuel, much work for the host, and no waiting.

use mimir_guests::host::log;
use mimir_guests::{Answer, Hostile, hostile};

struct Heavy;

impl Hostile for Heavy {
    fn call(_: String) -> Answer {
        let line = "x".repeat(12 << 20);
        loop {
            log::write(log::Level::Info, &line);
        }
    }
}

hostile!(Heavy);
