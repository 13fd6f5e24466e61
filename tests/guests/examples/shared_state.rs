//! Leaves a mark in every place that a later call could read, and returns the number of marks it found.

use mimir_guests::{Answer, Hostile, hostile, text};
use std::sync::atomic::{AtomicU32, Ordering};

struct Shared;

static CALLS: AtomicU32 = AtomicU32::new(0);

impl Hostile for Shared {
    fn call(_: String) -> Answer {
        let mut marks = CALLS.fetch_add(1, Ordering::Relaxed);
        for place in ["/tmp/mark", "mark", "/mark", "/workspace/mark", "../mark"] {
            marks += u32::from(std::fs::exists(place).unwrap_or(false));
            marks += u32::from(std::fs::write(place, "was here").is_ok());
        }
        text(marks.to_string())
    }
}

hostile!(Shared);
