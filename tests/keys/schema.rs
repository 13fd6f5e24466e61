//! The keys of the settings file, from its JSON Schema.

use std::collections::BTreeSet;

use mimir_core::config::Config;
use mimir_testkit::Value;

/// Every key with its own value. `*` is a name that a person chooses, `[]` each item of a list; a list of plain values
/// is one key, and so is a block inside a block of the same type.
pub fn keys() -> BTreeSet<String> {
    let schema = Config::schema();
    let mut walk = Walk {
        definitions: &schema["$defs"],
        inside: Vec::new(),
        found: BTreeSet::new(),
    };
    walk.block(&schema, "");
    walk.found
}

struct Walk<'a> {
    definitions: &'a Value,
    /// The enclosing definitions.
    inside: Vec<&'a str>,
    found: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn block(&mut self, schema: &'a Value, key: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").expect("a definition");
            if self.inside.contains(&name) {
                self.found.insert(key.to_owned());
                return;
            }
            self.inside.push(name);
            self.block(&self.definitions[name], key);
            self.inside.pop();
            return;
        }
        let mut plain = true;
        for kind in ["anyOf", "oneOf", "allOf"] {
            for form in schema[kind].as_array().into_iter().flatten() {
                plain = false;
                if form["type"] != "null" {
                    self.block(form, key);
                }
            }
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            plain = false;
            self.block(inner, &below(key, name));
        }
        if schema["additionalProperties"].is_object() {
            plain = false;
            self.block(&schema["additionalProperties"], &below(key, "*"));
        }
        if schema["items"].is_object() {
            plain = false;
            let item = format!("{key}[]");
            self.block(&schema["items"], &item);
            if self.found.remove(&item) {
                self.found.insert(key.to_owned());
            }
        }
        if plain {
            self.found.insert(key.to_owned());
        }
    }
}

fn below(key: &str, name: &str) -> String {
    match key {
        "" => name.to_owned(),
        key => format!("{key}.{name}"),
    }
}

#[test]
fn schema_keys_of_all_kinds_are_found() {
    let keys = keys();
    for key in [
        "profile",
        "policy.groups.deny",
        "policy.rules[].match",
        "policy.rules[].when.*.not",
        "execApprovals.approvals[].addedBy",
        "secrets.*.env",
        "tools.autoLoadCustomTools",
        "tools.*.approval",
        "tools.*.approval.conditions.unknownHostRequiresApproval",
        "tools.*.rules[].when.*.equals",
        "tools.*.limits.timeMs",
    ] {
        assert!(keys.contains(key), "{key} is not among {keys:#?}");
    }
    let odd = |key: &&String| key.ends_with("[]") || key.contains("not.") || key.is_empty();
    assert_eq!(keys.iter().find(odd), None);
}
