//! Checks the sources of the core and of the facts about commands for direct access to devices.

use std::fs;
use std::path::Path;

use super::root;
use super::tree::sources;

/// Access to devices, and the replacements.
const AMBIENT: [(&str, &str); 10] = [
    ("SystemTime::now", "the Clock port"),
    ("Instant::now", "the Clock port"),
    ("tokio::time", "the Clock port"),
    ("std::net", "no sockets; core::net has addresses"),
    ("tokio::net", "no sockets"),
    ("std::process::Command", "no programs"),
    ("std::env::var", "settings come in as values"),
    ("println!", "no terminal"),
    ("eprintln!", "no terminal"),
    ("std::thread::", "no threads"),
];

/// The code of a file without its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text)
}

#[test]
fn core_has_no_ambient_devices() {
    let mut faults = vec![];
    let folders = ["host/core/src", "host/commands/src"];
    for path in folders
        .iter()
        .flat_map(|folder| sources(&root().join(folder)))
    {
        if path.ends_with("tests.rs")
            || path
                .components()
                .any(|part| part.as_os_str() == Path::new("tests"))
        {
            continue;
        }
        // A stand-in for stores in tests of other crates, too.
        if path.ends_with("memory_state.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (word, instead) in AMBIENT {
            if code(&text).contains(word) {
                faults.push(format!("{}: {word}: {instead}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
