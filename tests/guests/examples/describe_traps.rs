//! Crashes instead of returning its description.

use mimir_guests::{Answer, Hostile, Manifest, hostile, text};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        panic!("ask me tomorrow")
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
