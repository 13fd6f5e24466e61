//! Returns content that its own output schema forbids, or no structured content.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, structured, text, tool};

struct Breaks;

impl Hostile for Breaks {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        definition.output_schema = Some(schema.into());
        manifest(vec![definition])
    }

    fn call(arguments: String) -> Answer {
        if arguments.contains("nothing") {
            text("no structure here")
        } else {
            structured(r#"{"n":"three"}"#)
        }
    }
}

hostile!(Breaks);
