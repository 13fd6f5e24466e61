//! Returns as much as its memory holds.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Huge;

impl Hostile for Huge {
    fn call(_: String) -> Answer {
        text("x".repeat(120 << 20))
    }
}

hostile!(Huge);
