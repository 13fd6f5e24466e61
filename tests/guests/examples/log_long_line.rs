//! Logs a line of a hundred megabytes, a hundred times, and a line with escape sequences.

use mimir_guests::host::{log, progress};
use mimir_guests::{Answer, Hostile, hostile, text};

struct Long;

impl Hostile for Long {
    fn call(_: String) -> Answer {
        let line = "ä".repeat(50 << 20);
        for _ in 0..100 {
            log::write(log::Level::Error, &line);
            progress::report(1, None, Some(&line));
        }
        log::write(log::Level::Info, "clear\u{1b}[2J");
        text("logged")
    }
}

hostile!(Long);
