//! Panics with a message that its author will want to read.

use mimir_guests::{Answer, Hostile, hostile};

struct Panic;

impl Hostile for Panic {
    fn call(_: String) -> Answer {
        panic!("the flux capacitor is empty")
    }
}

hostile!(Panic);
