//! Claims ten thousand tools.

use mimir_guests::{Answer, Hostile, Manifest, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        manifest((0..10_000).map(|at| tool(&format!("tool_{at}"))).collect())
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
