//! Returns as much as its memory can hold.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Huge;

impl Hostile for Huge {
    fn call(_: String) -> Answer {
        text("x".repeat(120 << 20))
    }
}

hostile!(Huge);
