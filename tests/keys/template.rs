//! The example of a settings file, which contains every key.

use std::collections::BTreeSet;

use super::schema;

const EXAMPLE: &str = include_str!("../../host/app/src/settings/config.example.yml");

/// Blocks that appear once in full, and elsewhere only by name.
const SAME: [(&str, &str); 4] = [
    ("tools.*.limits", "limits"),
    ("tools.*.network", "network"),
    ("tools.*.rules[]", "policy.rules[]"),
    ("roles.*.rules[]", "policy.rules[]"),
];

/// The keys in the example after a `#`, each with its parents. Another test checks that all of it is valid as
/// settings.
fn written() -> BTreeSet<String> {
    let mut around: Vec<(usize, String)> = Vec::new();
    let mut found = BTreeSet::new();
    for line in EXAMPLE.lines() {
        let Some(line) = line.strip_prefix('#') else {
            around.clear();
            continue;
        };
        let Some(line) = line.strip_prefix(' ') else {
            continue;
        };
        let mut key = line.trim_start();
        let mut indent = line.len() - key.len();
        while around.last().is_some_and(|(outer, _)| *outer >= indent) {
            around.pop();
        }
        if let Some(item) = key.strip_prefix("- ") {
            around.push((indent, "[]".to_owned()));
            indent += 2;
            key = item;
        }
        let Some((name, _)) = key.split_once(':') else {
            continue;
        };
        // A name of a host, such as a key of `registries.mirrors`, is one part of a path in spite of its dots.
        let name = name.replace(['.', '-'], "_");
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        around.push((indent, format!(".{name}")));
        let path: String = around.iter().map(|(_, part)| part.as_str()).collect();
        found.insert(path[1..].to_owned());
    }
    found
}

/// Returns true if a key in the example matches this key, whose `*` matches any name.
fn is_it(written: &str, key: &str) -> bool {
    let mut parts = written.split('.');
    let same = |part: &str| parts.next().is_some_and(|name| part == "*" || part == name);
    key.split('.').all(same) && parts.next().is_none()
}

#[test]
fn example_contains_all_config_keys() {
    let written = written();
    let has = |key: &str| written.iter().any(|written| is_it(written, key));
    let missing: Vec<_> = schema::keys()
        .into_iter()
        .filter(|key| {
            let same = SAME.iter().find_map(|(here, there)| {
                let rest = key.strip_prefix(here)?;
                Some(has(here.trim_end_matches("[]")) && has(&format!("{there}{rest}")))
            });
            // In a tool's own block the name of the tool is not repeated.
            !same.unwrap_or_else(|| has(key))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?} are not in {written:#?}");
}
