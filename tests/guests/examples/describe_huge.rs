//! Has a description of fifty megabytes.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        definition.description = "x".repeat(50 << 20);
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
