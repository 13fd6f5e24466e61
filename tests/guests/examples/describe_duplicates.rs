//! Has two tools with the same name.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        manifest(vec![tool(Self::NAME), tool(Self::NAME)])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
