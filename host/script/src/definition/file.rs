//! The keys of a tool in a YAML file, and the schema that editors check such a file by.

use mimir_core::tool::Risk;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

/// The keys of a file.
pub(super) const KEYS: [&str; 8] = [
    "name",
    "description",
    "enabled",
    "tokenCost",
    "schema",
    "runtime",
    "permissions",
    "code",
];

/// The keys of the block `permissions`.
pub(super) const PERMISSION_KEYS: [&str; 3] = ["allowlist", "autoAccept", "riskLevel"];

/// A tool of mimir: a file in `.mimir/tools`.
// A key that is not here is an error: it would promise what nobody does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    /// Its name, for a model: small letters, digits and `_`.
    #[schemars(regex(pattern = "^[a-z0-9_]{1,64}$"))]
    pub(super) name: String,
    /// What it does, and when to use it. A model chooses the tool by this.
    #[schemars(length(min = 1, max = 8000))]
    pub(super) description: String,
    /// Whether it is in use.
    #[serde(default = "yes")]
    pub(super) enabled: bool,
    /// Tokens that it costs in a prompt, about.
    #[schemars(range(max = 1_000_000))]
    pub(super) token_cost: Option<u32>,
    /// A JSON Schema of its arguments: `type: object`, `properties`, `required`.
    #[schemars(schema_with = "of_an_object")]
    pub(super) schema: Value,
    /// What runs the code.
    #[serde(default)]
    pub(super) runtime: Runtime,
    /// What it may do, and how it is asked about.
    #[serde(default)]
    pub(super) permissions: Permissions,
    /// The code. In TypeScript and JavaScript it exports `execute(args, context)`, in Python it defines it; bash is a
    /// whole script, with the arguments as JSON on stdin and each in `$ARG_name`.
    pub(super) code: String,
}

fn yes() -> bool {
    true
}

fn of_an_object(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "type": "object",
        "properties": { "type": { "const": "object" } },
        "required": ["type"],
    })
}

/// What runs the code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    /// TypeScript, in WebAssembly.
    #[default]
    Typescript,
    /// JavaScript, in WebAssembly.
    Javascript,
    /// Python, in WebAssembly.
    Python,
    /// bash, in WebAssembly.
    Bash,
    /// JavaScript, by the `node` of the machine in the sandbox of commands.
    Node,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Permissions {
    /// Commands that it may run, as patterns: `npm test *`. It narrows what the code asks for, and grants nothing.
    /// Not with `runtime: node`, whose commands nobody would look at.
    #[schemars(length(max = 100))]
    pub(super) allowlist: Option<Vec<String>>,
    /// Whether a person is asked about each call. Left out, it is asked about where it reaches anything.
    pub(super) auto_accept: Option<bool>,
    /// How bad a wrong call could be.
    pub(super) risk_level: Option<Risk>,
}

/// The JSON Schema of a file, for editors.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<File>();
    let mut schema = schema.to_value();
    schema["title"] = "A tool of mimir".into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_of_the_schema() {
        let schema = schema();
        let mut keys: Vec<&str> = KEYS.to_vec();
        keys.sort_unstable();
        let mut told: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        told.sort_unstable();
        assert_eq!(told, keys);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(
            schema["required"],
            serde_json::json!(["name", "description", "schema", "code"])
        );
        let text = schema.to_string();
        assert!(
            text.contains("autoAccept") && text.contains("\"high\"") && !text.contains("$ref"),
            "{text}"
        );
    }
}
