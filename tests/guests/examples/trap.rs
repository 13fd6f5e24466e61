//! Executes an `unreachable` instruction.

use mimir_guests::{Answer, Hostile, hostile};

struct Trap;

impl Hostile for Trap {
    fn call(_: String) -> Answer {
        std::process::abort()
    }
}

hostile!(Trap);
