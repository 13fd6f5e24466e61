//! Has schemas of a few kilobytes that expand to millions: each definition refers twice to the next.

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, structured, tool};

struct Unfolds;

fn schema(keyword: &str) -> String {
    let mut defs = String::new();
    for level in 0..40 {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, level + 1);
        defs += &format!(r#""d{level}":{{"{keyword}":[{next},{next}]}},"#);
    }
    defs += r#""d40":{"type":"string"}"#;
    format!(
        r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{defs}}}}}"##
    )
}

impl Hostile for Unfolds {
    fn describe() -> Manifest {
        let mut input = tool(Self::NAME);
        input.input_schema = schema("allOf");
        let mut output = tool("describe_schema_unfolds_output");
        output.output_schema = Some(schema("anyOf"));
        manifest(vec![input, output])
    }

    fn call(_: String) -> Answer {
        structured(r#"{"a":5}"#)
    }
}

hostile!(Unfolds);
