//! A model that reads a secret in chunks, none of which looks like a secret.

use std::fs;

use mimir_testkit::{Testkit, json};

/// Lines of a key that must not be shown.
const KEY: [&str; 3] = [
    "MIIEpAIBAAKCAQEAn4mVZ0rJ8a1q0rZ7bYwqK3Vb5xYw8mX2pQ9sT1kL6jH5gF4d",
    "S3aP2oI1uY0tR9eW8qZ7xC6vB5nM4lK3jH2gF1dS0aP9oI8uY7tR6eW5qZ4xC3vB",
    "2nM1lK0jH9gF8dS7aP6oI5uY4tR3eW2qZ1xC0vB9nM8lK7jH6gF5dS4aP3oI2uY1",
];

const TOKEN: &str = "ghp_8aZq2WvX7kL1sD9fGhB3nM5cR6tY0uE4iO2p";

fn workspace() -> Testkit {
    let kit = Testkit::with_bundled(mimir_kit::builtins()).unwrap();
    let key = KEY.join("\n");
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{key}\n-----END RSA PRIVATE KEY-----\n");
    fs::write(kit.path().join("notes.txt"), format!("first\n{key}after\n")).unwrap();
    let members = "\"member\": 123, ".repeat(100);
    let line = format!("{{{members}\"token\": \"{TOKEN}\", {members}\"last\": 1}}\n");
    fs::write(kit.path().join("long.json"), line).unwrap();
    // More than is read of a file at once.
    let many = "a line of a large file\n".repeat(300_000);
    fs::write(kit.path().join("large.txt"), format!("{many}{key}{many}")).unwrap();
    kit
}

/// All output of a successful call.
fn seen(kit: &Testkit, tool: &str, arguments: mimir_testkit::Value) -> String {
    let outcome = kit.call(tool, arguments.clone());
    assert!(outcome.result().is_ok(), "{tool} {arguments}: {outcome:?}");
    serde_json::to_string(&outcome).unwrap()
}

fn nothing_of_the_key(seen: &str) {
    for line in KEY {
        for piece in line.as_bytes().chunks(16) {
            let piece = String::from_utf8_lossy(piece);
            assert!(!seen.contains(&*piece), "{seen}");
        }
    }
}

#[test]
fn private_key_read_line_by_line_is_masked() {
    let kit = workspace();
    for start in 1..=7 {
        for end in start..=7 {
            let lines = json!({"path": "notes.txt", "startLine": start, "endLine": end});
            nothing_of_the_key(&seen(&kit, "read_file", lines));
        }
    }
    let inside = json!({"path": "notes.txt", "startLine": 4, "endLine": 7});
    let inside = seen(&kit, "read_file", inside);
    assert!(inside.contains("4|[REDACTED:private-key]"), "{inside}");
    assert!(inside.contains("7|after"), "{inside}");
    let inside = json!({"path": "large.txt", "startLine": 300_003, "endLine": 300_003});
    nothing_of_the_key(&seen(&kit, "read_file", inside));
}

#[test]
fn private_key_found_by_search_is_masked() {
    let kit = workspace();
    for query in ["MIIE", "qZ4x", "uY1", "--END", "KEY", "after", "first"] {
        for context in [0, 1, 3] {
            let search = json!({
                "mode": "grep", "query": query, "path": ".", "include": ["notes.txt"],
                "contextLines": context, "maxResults": 5
            });
            let found = seen(&kit, "file_search", search);
            nothing_of_the_key(&found);
            assert!(found.contains("notes.txt"), "{found}");
        }
    }
}

#[test]
fn token_in_an_excerpt_is_masked() {
    let kit = workspace();
    for cut in 4..TOKEN.len() {
        let search = json!({"mode": "grep", "query": &TOKEN[cut - 4..cut], "path": "long.json"});
        let found = seen(&kit, "file_search", search);
        assert!(found.contains("[REDACTED:"), "{found}");
        for piece in [&TOKEN[4..14], &TOKEN[14..24], &TOKEN[24..34]] {
            assert!(!found.contains(piece), "{found}");
        }
    }
}
