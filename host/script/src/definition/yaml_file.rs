//! The keys of a YAML tool file, and the JSON Schema with which editors validate it.

use mimir_core::tool::RiskLevel;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::docker_platform::ScriptPlatform;

/// Keys of a file.
pub(super) const KEYS: [&str; 9] = [
    "name",
    "description",
    "enabled",
    "tokenCost",
    "schema",
    "runtime",
    "platform",
    "permissions",
    "code",
];

/// Keys of the `permissions` block.
pub(super) const PERMISSION_KEYS: [&str; 3] = ["allowlist", "autoAccept", "riskLevel"];

/// A tool definition for mimir: a file in `.mimir/tools`.
// Unknown keys are errors: a file must not promise something that is not implemented.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct YamlToolFile {
    /// Name of the tool as models see it: lower-case letters, digits and `_`.
    #[schemars(regex(pattern = "^[a-z0-9_]{1,64}$"))]
    pub(super) name: String,
    /// Description of what the tool does and when to use it. A model chooses the tool by this.
    #[schemars(length(min = 1, max = 8000))]
    pub(super) description: String,
    /// Enables the tool.
    #[serde(default = "enabled_by_default")]
    pub(super) enabled: bool,
    /// Approximate cost in a prompt, in tokens.
    #[schemars(range(max = 1_000_000))]
    pub(super) token_cost: Option<u32>,
    /// JSON Schema of the arguments: `type: object`, `properties`, `required`.
    #[schemars(schema_with = "object_schema")]
    pub(super) schema: Value,
    /// Runtime of the code.
    #[serde(default)]
    pub(super) runtime: ScriptRuntime,
    /// Environment of the code, in place of mimir's engines or the sandbox of commands.
    pub(super) platform: Option<ScriptPlatform>,
    /// Permissions and approval settings.
    #[serde(default)]
    pub(super) permissions: ScriptPermissions,
    /// The code. TypeScript and JavaScript export `execute(args, context)`, Python defines it; bash is a whole script
    /// that gets the arguments as JSON on stdin and each one in `$ARG_name`.
    pub(super) code: String,
}

fn enabled_by_default() -> bool {
    true
}

fn object_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "type": "object",
        "properties": { "type": { "const": "object" } },
        "required": ["type"],
    })
}

/// Runtime of a tool's code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScriptRuntime {
    /// TypeScript, in WebAssembly.
    #[default]
    Typescript,
    /// JavaScript, in WebAssembly.
    Javascript,
    /// Python, in WebAssembly.
    Python,
    /// bash, in WebAssembly.
    Bash,
    /// JavaScript, run by the machine's `node` in the command sandbox.
    Node,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptPermissions {
    /// Patterns of the commands that the tool may run: `npm test *`. They narrow what the code requests, and grant
    /// nothing. Not supported with `runtime: node`, whose commands are not checked.
    #[schemars(length(max = 100))]
    pub(super) allowlist: Option<Vec<String>>,
    /// Set to false to ask for approval of each call, to true to never ask. By default, approval is needed if the tool
    /// has any needs.
    pub(super) auto_accept: Option<bool>,
    /// Severity of a wrong call.
    pub(super) risk_level: Option<RiskLevel>,
}

/// Returns the JSON Schema of a tool file, for editors.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let schema = settings
        .into_generator()
        .into_root_schema_for::<YamlToolFile>();
    let mut schema = schema.to_value();
    schema["title"] = "A mimir tool".into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_keys_match_the_schema() {
        let schema = schema();
        let mut keys: Vec<&str> = KEYS.to_vec();
        keys.sort_unstable();
        let mut schema_keys: Vec<&String> =
            schema["properties"].as_object().unwrap().keys().collect();
        schema_keys.sort_unstable();
        assert_eq!(schema_keys, keys);
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
