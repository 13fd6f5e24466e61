//! Guests that try to access files without permission.

mod audit;
mod handles;
mod links;
mod paths;
mod protected;
mod rights;

use std::fs;

use mimir_kit::{Arena, picture};
use mimir_testkit::{Value, json};

use crate::guests;

/// The result of each step. The call itself must succeed.
fn probe(arena: &Arena, tool: &str, steps: &[[&str; 3]]) -> Vec<Value> {
    let outcome = arena.kit().call(tool, json!({ "steps": steps }));
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    let results = output.structured.as_ref().unwrap()["results"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(results.len(), steps.len());
    results
}

/// Returns true if a step ended with an error.
fn refused(result: &Value) -> bool {
    result.get("error").is_some()
}

/// Runs all steps and asserts that each is refused and that the workspace is unchanged.
fn all_refused(arena: &Arena, steps: &[[&str; 3]]) {
    let before = picture(arena.kit().path());
    let results = probe(arena, "file_probe", steps);
    for (step, result) in steps.iter().zip(&results) {
        assert!(refused(result), "{step:?} was not refused: {result}");
    }
    assert_eq!(picture(arena.kit().path()), before);
}

fn arena() -> Arena {
    let arena = Arena::new(guests::FILE_PROBE).limits(json!({"timeMs": 30_000}));
    let root = arena.kit().path();
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    // The host makes it for the first record of `mimir undo`.
    fs::create_dir_all(root.join(".mimir/state/backups")).unwrap();
    fs::write(root.join("plain.txt"), "plain").unwrap();
    fs::write(root.join("sub/plain.txt"), "plain").unwrap();
    arena
}
