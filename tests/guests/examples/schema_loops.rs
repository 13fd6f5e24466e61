//! Has valid recursive schemas, and a result 60 levels deep that matches none of their alternatives.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, structured, tool};

struct Loops;

const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/tree"}},
    "$defs": {"tree": {"anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "minProperties": 1}
    ]}}
}"##;

impl Hostile for Loops {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        definition.input_schema = SCHEMA.into();
        definition.output_schema = Some(SCHEMA.into());
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        structured(&format!("{}5{}", r#"{"a":"#.repeat(60), "}".repeat(60)))
    }
}

hostile!(Loops);
