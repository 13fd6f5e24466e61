//! Has no tools.

use mimir_guests::{Answer, Hostile, Manifest, hostile, manifest, text};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        manifest(vec![])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
