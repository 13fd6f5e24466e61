//! Lookup of keys in the JSON Schema of config files.

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::visible;
use serde_json::Value;

/// The JSON Schema of config files.
pub struct ConfigSchema(Value);

/// The schema of a value.
#[derive(Clone)]
pub struct SchemaNode<'a> {
    /// The alternative schemas of the value.
    forms: Vec<&'a Value>,
}

/// Maximum number of references that are followed from one value. The settings are not nested deeper.
const MAX_REFERENCES: usize = 8;

impl Default for ConfigSchema {
    /// Creates the schema of [`Config`].
    fn default() -> Self {
        Self(Config::schema())
    }
}

impl ConfigSchema {
    /// Returns the schema of the whole file.
    pub fn root(&self) -> SchemaNode<'_> {
        self.node(&self.0)
    }

    fn collect_forms<'a>(&'a self, schema: &'a Value, depth: usize, forms: &mut Vec<&'a Value>) {
        if depth == 0 {
            return;
        }
        forms.push(schema);
        let name = schema["$ref"].as_str();
        let name = name.and_then(|name| name.strip_prefix("#/$defs/"));
        if let Some(name) = name {
            self.collect_forms(&self.0["$defs"][name], depth - 1, forms);
        }
        for kind in ["anyOf", "oneOf", "allOf"] {
            for form in schema[kind].as_array().into_iter().flatten() {
                self.collect_forms(form, depth - 1, forms);
            }
        }
    }

    /// Returns the node of a schema within the schema of the file.
    pub(super) fn node<'a>(&'a self, schema: &'a Value) -> SchemaNode<'a> {
        let mut forms = Vec::new();
        self.collect_forms(schema, MAX_REFERENCES, &mut forms);
        SchemaNode { forms }
    }

    /// Returns the schema of the value of `key`. A map whose names the user chooses accepts any key.
    pub fn below<'a>(&'a self, node: &SchemaNode<'a>, key: &str) -> Option<SchemaNode<'a>> {
        let named = node
            .forms
            .iter()
            .find_map(|form| form["properties"].get(key));
        let of_map = || node.map_value_schema();
        Some(self.node(named.or_else(of_map)?))
    }

    /// Splits a dotted path into its keys. Fails with a suggestion if a key is unknown.
    pub fn path(&self, key: &str) -> Result<Vec<String>, ToolError> {
        let mut node = self.root();
        let mut path = Vec::new();
        for part in key.split('.') {
            let below = self.below(&node, part).filter(|_| !part.is_empty());
            node = below.ok_or_else(|| {
                let near = did_you_mean(part, node.names());
                let shown = visible(mimir_core::text::prefix(key, 200));
                let context = if path.is_empty() {
                    String::new()
                } else {
                    format!(" under `{}`", path.join("."))
                };
                let part = visible(mimir_core::text::prefix(part, 64));
                ToolError::not_found(format!(
                    "unknown key `{shown}`: `{part}` is unknown{context}.{near} `mimir config schema` lists all keys."
                ))
            })?;
            path.push(part.to_owned());
        }
        Ok(path)
    }
}

impl<'a> SchemaNode<'a> {
    /// Returns the fixed keys of the value.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        let blocks = self
            .forms
            .iter()
            .filter_map(|form| form["properties"].as_object());
        let names: Vec<&str> = blocks
            .flat_map(|block| block.keys().map(String::as_str))
            .collect();
        names.into_iter()
    }

    /// Returns the default value in the schema, if there is one.
    pub fn default(&self) -> Option<&'a Value> {
        let mut stated = self.forms.iter().filter_map(|form| form.get("default"));
        stated.find(|value| !value.is_null())
    }

    /// Returns the alternative schemas of the value.
    pub(super) fn forms(&self) -> &[&'a Value] {
        &self.forms
    }

    /// Returns the description of the value in one line. Empty if there is none.
    pub(super) fn purpose(&self) -> String {
        let mut texts = self.forms.iter().map(|form| &form["description"]);
        let text = texts.find_map(|text| text.as_str()).unwrap_or_default();
        text.replace('\n', " ")
    }

    fn map_value_schema(&self) -> Option<&'a Value> {
        let mut maps = self.forms.iter().map(|form| &form["additionalProperties"]);
        maps.find(|schema| schema.is_object())
    }

    /// Returns true if the value is a map whose names the user chooses.
    pub fn is_map(&self) -> bool {
        self.map_value_schema().is_some()
    }

    /// Returns true if the value has no keys.
    pub fn is_leaf(&self) -> bool {
        self.names().next().is_none() && !self.is_map()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_key_paths_resolve_and_typos_suggest_the_nearest() {
        let keys = ConfigSchema::default();
        for good in [
            "profile",
            "tools.git.enabled",
            "tools.maxExecutionTime",
            "limits.timeMs",
            "tools.git.limits.timeMs",
            "mcp.servers.files.command",
            "secrets.KEY.env",
            "sandbox.mode",
            "sandbox.images.python",
        ] {
            assert_eq!(
                keys.path(good).map(|path| path.join(".")),
                Ok(good.to_owned())
            );
        }
        for (bad, near) in [
            ("polcy.deny", "`policy`"),
            ("limits.timems", "`timeMs`"),
            ("tools.git.enable", "`enabled`"),
            ("limits..fuel", "unknown key"),
            ("", "unknown key"),
            ("profile.x", "under `profile`"),
        ] {
            let error = keys.path(bad).unwrap_err();
            assert!(error.message.contains(near), "{bad}: {error}");
        }
    }
}
