//! Has a tool whose name is a path, or an escape sequence.

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
