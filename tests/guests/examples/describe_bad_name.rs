//! Has a tool whose name would be a path, or an escape.

use mimir_guests::{Answer, Hostile, Manifest, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        manifest(vec![tool("../\u{1b}[2Jescape")])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
