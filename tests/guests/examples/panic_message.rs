//! Panics with a message that its author needs to see.

use mimir_guests::{Answer, Hostile, hostile};

struct Panic;

impl Hostile for Panic {
    fn call(_: String) -> Answer {
        panic!("the flux capacitor is empty")
    }
}

hostile!(Panic);
