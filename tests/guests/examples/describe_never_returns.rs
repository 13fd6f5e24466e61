//! Never returns its description.

use mimir_guests::{Answer, Hostile, Manifest, hostile, text};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        loop {
            std::hint::black_box(());
        }
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
