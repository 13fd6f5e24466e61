//! The keys of config files, as their schema has them.

use std::collections::BTreeSet;

use serde_json::Value;

/// Keys by their paths. `*` is a name that a person chooses; the items of a list have the path of the list.
#[derive(Default)]
pub struct Keys {
    /// Every path, blocks included.
    all: BTreeSet<String>,
    /// Paths that can have a value.
    values: BTreeSet<String>,
}

/// Blocks that are described once, and elsewhere by their names.
const SAME: [(&str, &str); 4] = [
    ("tools.*.limits.", "limits."),
    ("tools.*.network.", "network."),
    ("tools.*.rules.", "policy.rules."),
    ("roles.*.rules.", "policy.rules."),
];

impl Keys {
    /// Reads the schema of config files.
    pub fn new(schema: &Value) -> Self {
        let mut keys = Self::default();
        keys.walk(schema, schema, "", &mut Vec::new());
        keys
    }

    /// The keys that can have a value, each once.
    pub fn values(&self) -> impl Iterator<Item = &String> {
        let is_same = |key: &str| SAME.iter().any(|(at, _)| key.starts_with(at));
        self.values.iter().filter(move |key| !is_same(key))
    }

    /// Checks that a path such as `tools.NAME.enabled` exists.
    pub fn check(&self, path: &str) -> Result<(), String> {
        let path = plain(path);
        let parts: Vec<&str> = path.split('.').collect();
        let fits = |key: &&String| {
            let known: Vec<&str> = key.split('.').collect();
            known.len() == parts.len()
                && known
                    .iter()
                    .zip(&parts)
                    .all(|(known, part)| same(known, part))
        };
        match self.all.iter().any(|key| fits(&key)) {
            true => Ok(()),
            false => Err(format!("`{path}` is not a config key")),
        }
    }

    fn walk<'a>(
        &mut self,
        root: &'a Value,
        schema: &'a Value,
        path: &str,
        inside: &mut Vec<&'a str>,
    ) {
        if !path.is_empty() {
            self.all.insert(path.to_owned());
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            if inside.contains(&name) {
                self.values.insert(path.to_owned());
                return;
            }
            inside.push(name);
            self.walk(root, &root["$defs"][name], path, inside);
            inside.pop();
            return;
        }
        let mut is_value = true;
        for kind in ["anyOf", "oneOf", "allOf"] {
            for form in schema[kind].as_array().into_iter().flatten() {
                is_value = false;
                if form["type"] != "null" {
                    self.walk(root, form, path, inside);
                }
            }
        }
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            is_value = false;
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            self.walk(root, below, &path, inside);
        }
        for (key, below) in [("additionalProperties", ".*"), ("items", "")] {
            if schema[key].is_object() {
                is_value = false;
                self.walk(root, &schema[key], &format!("{path}{below}"), inside);
            }
        }
        if is_value {
            self.values.insert(path.to_owned());
        }
    }
}

/// A path with `*` in place of `NAME`.
pub fn plain(path: &str) -> String {
    let parts = path.split('.');
    let parts = parts.map(|part| if part == "NAME" { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// Returns true if a part of a path is known. A chosen name is in small letters or in capitals, so that a misspelt key is not
/// taken for one.
fn same(known: &str, part: &str) -> bool {
    let small = part.contains(|c: char| c.is_ascii_lowercase());
    let large = part.contains(|c: char| c.is_ascii_uppercase());
    known == part || known == "*" && !(small && large)
}

/// All names of properties in a schema.
pub fn fields(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                names.extend(properties.keys().cloned());
            }
            members.values().for_each(|member| fields(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, names)),
        // Schemas of tools are text in the descriptions of plugins.
        Value::String(text) if text.starts_with('{') => {
            if let Ok(inner) = serde_json::from_str(text) {
                fields(&inner, names);
            }
        }
        _ => {}
    }
}
