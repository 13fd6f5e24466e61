//! Logs a million lines and reports progress a million times.

use mimir_guests::host::{log, progress};
use mimir_guests::{Answer, Hostile, hostile, text};

struct Flood;

const MILLION: u64 = 1_000_000;

impl Hostile for Flood {
    fn call(_: String) -> Answer {
        for at in 0..MILLION {
            log::write(log::Level::Info, "line");
            progress::report(at, Some(MILLION), None);
        }
        text("logged")
    }
}

hostile!(Flood);
