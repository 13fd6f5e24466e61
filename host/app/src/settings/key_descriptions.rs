//! Descriptions of the keys of config files for people who edit them: the kind of value, and the purpose.

use serde_json::Value;

use super::ConfigSchema;
use super::config_schema::SchemaNode;

/// Maximum depth of a described key. The settings are not nested deeper.
const DEPTH_MAX: usize = 6;

/// A key of config files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// The keys from the outermost to the innermost, with `*` for a name that the user chooses.
    pub path: Vec<String>,
    /// The kind of value, such as `a whole number`.
    pub expected: String,
    /// The purpose, in one line. Empty if the schema has none.
    pub purpose: String,
}

impl ConfigSchema {
    /// Returns all keys that have no keys below them.
    pub fn describe_keys(&self) -> Vec<KeyDescription> {
        let mut keys = Vec::new();
        self.collect_keys(&self.root(), &mut Vec::new(), &mut keys);
        keys
    }

    /// Returns the kind of value of a key, such as `true or false`. `None` if the key is unknown.
    pub fn expected_value(&self, path: &[String]) -> Option<String> {
        let node = path
            .iter()
            .try_fold(self.root(), |node, key| self.below(&node, key))?;
        Some(self.kind(&node))
    }

    fn collect_keys<'a>(
        &'a self,
        node: &SchemaNode<'a>,
        path: &mut Vec<String>,
        keys: &mut Vec<KeyDescription>,
    ) {
        let mut names: Vec<&str> = node.names().collect();
        if node.is_map() {
            names.push("*");
        }
        if names.is_empty() || path.len() >= DEPTH_MAX {
            keys.push(KeyDescription {
                path: path.clone(),
                expected: self.kind(node),
                purpose: node.purpose(),
            });
            return;
        }
        for name in names {
            if let Some(below) = self.below(node, name) {
                path.push(name.to_owned());
                self.collect_keys(&below, path, keys);
                path.pop();
            }
        }
    }

    /// Describes the values that a schema takes.
    fn kind(&self, node: &SchemaNode<'_>) -> String {
        let mut words = Vec::new();
        let mut kinds: Vec<String> = Vec::new();
        for form in node.forms() {
            words.extend(form["const"].as_str());
            words.extend(
                form["enum"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str),
            );
            if form.get("const").is_some() || form.get("enum").is_some() {
                continue;
            }
            let types = match &form["type"] {
                Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
                one => one.as_str().into_iter().collect::<Vec<_>>(),
            };
            for kind in types {
                let kind = match kind {
                    "boolean" => "true or false".to_owned(),
                    "integer" => "a whole number".to_owned(),
                    "number" => "a number".to_owned(),
                    "string" => "a text".to_owned(),
                    "array" => self.kind_of_list(&form["items"]),
                    "object" => kind_of_block(form),
                    _ => continue,
                };
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        if !words.is_empty() {
            words.dedup();
            kinds.insert(0, words.join(", "));
            if words.len() > 1 {
                kinds[0] = format!("one of {}", words.join(", "));
            }
        }
        match kinds.is_empty() {
            true => "any value".to_owned(),
            false => kinds.join(", or "),
        }
    }

    fn kind_of_list(&self, items: &Value) -> String {
        let node = self.node(items);
        let kind = match self.kind(&node).as_str() {
            "a text" => "texts".to_owned(),
            "a whole number" => "whole numbers".to_owned(),
            kind if kind.starts_with("a block") => kind.replacen("a block", "blocks", 1),
            "any value" => return "a list".to_owned(),
            kind => kind.to_owned(),
        };
        format!("a list of {kind}")
    }
}

fn kind_of_block(form: &Value) -> String {
    let names = form["properties"].as_object().into_iter().flatten();
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    match names.is_empty() {
        true => "a block with names of your choice".to_owned(),
        false => format!("a block with {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_keys_are_described_by_the_kind_of_their_values() {
        let schema = ConfigSchema::default();
        for (key, expected) in [
            ("tools.exec.enabled", "true or false"),
            ("limits.timeMs", "a whole number"),
            ("policy.deny", "a list of texts"),
            ("network.blockedPorts", "a list of whole numbers"),
            ("network.mode", "one of none, allowlist, any"),
            ("secrets.KEY", "a block with env"),
            ("agent.maxCost", "a number"),
        ] {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            assert_eq!(
                schema.expected_value(&path).as_deref(),
                Some(expected),
                "{key}"
            );
        }
        assert_eq!(schema.expected_value(&["nonsense".to_owned()]), None);
        let keys = schema.describe_keys();
        let find = |key: &str| keys.iter().find(|known| known.path.join(".") == key);
        let approval = find("tools.*.approval.level").unwrap();
        assert!(!approval.purpose.is_empty(), "{approval:?}");
        assert!(
            find("policy.rules")
                .is_some_and(|key| key.expected.starts_with("a list of blocks with"))
        );
        assert!(keys.len() > 150 && keys.len() < 600, "{}", keys.len());
    }
}
