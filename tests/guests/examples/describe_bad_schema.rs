//! Has an invalid input schema.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        definition.input_schema =
            r#"{"type":"object","properties":{"a":{"type":"objekt"}}}"#.into();
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
