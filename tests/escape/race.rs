//! Paths that change between the check and the use.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mimir_kit::{Arena, Outside, picture};
use mimir_testkit::{Value, json};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::guests;

/// Runs the guest's steps repeatedly while `one` and `other` are swapped as fast as possible.
fn while_swapping(arena: &Arena, one: &Path, other: &Path, steps: Value) -> Vec<Value> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let outcome = arena.call(json!({ "steps": steps, "times": 3_000 }));
        done.store(true, Ordering::Relaxed);
        let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
        output.structured.as_ref().unwrap()["results"]
            .as_array()
            .unwrap()
            .clone()
    })
}

fn arena() -> Arena {
    let settings =
        json!({"limits": {"timeMs": 60_000, "outputBytes": 64 << 20, "outputChars": 64 << 20}});
    Arena::new(guests::FILE_PROBE)
        .limits(json!({"timeMs": 60_000}))
        .settings(settings)
}

#[test]
fn symlink_to_the_outside_swapped_while_running() {
    let arena = arena();
    let outside = Outside::new();
    let root = arena.kit().path();
    fs::create_dir(root.join("place")).unwrap();
    fs::write(root.join("place/secret"), "harmless").unwrap();
    symlink(outside.path(), root.join("link")).unwrap();
    let steps = json!([
        ["read", "place/secret"],
        ["write", "place/secret", "harmless"],
        ["create", "place/new"],
        ["unlink", "place/new"],
        ["list", "place"],
        ["rename", "place/secret", "place/secret2"],
        ["rename", "place/secret2", "place/secret"],
    ]);
    let results = while_swapping(&arena, &root.join("place"), &root.join("link"), steps);
    let text = serde_json::to_string(&results).unwrap();
    assert!(!text.contains(Outside::SECRET), "it was read");
    assert!(!text.contains("inner"), "it was listed");
    assert!(
        text.contains("harmless"),
        "the race was never won by the honest side: it proves nothing"
    );
    assert!(
        text.contains("{\"error\""),
        "the link was never met: it proves nothing"
    );
    outside.intact();
}

#[test]
fn symlink_to_the_protected_swapped_while_running() {
    let arena = arena();
    let root = arena.kit().path();
    fs::write(root.join(".mimir/config.yml"), "as it was").unwrap();
    // The host makes it for the first record of `mimir undo`.
    fs::create_dir_all(root.join(".mimir/state/backups")).unwrap();
    fs::create_dir(root.join("place")).unwrap();
    fs::write(root.join("place/config.yml"), "harmless").unwrap();
    symlink(".mimir", root.join("link")).unwrap();
    let before = picture(&root.join(".mimir"));
    let steps = json!([
        ["write", "place/config.yml", "changed!"],
        ["append", "place/config.yml", "changed!"],
        ["create", "place/new.yml"],
        ["unlink", "place/new.yml"],
        ["mkdir", "place/tools2"],
        ["rmdir", "place/tools2"],
    ]);
    let results = while_swapping(&arena, &root.join("place"), &root.join("link"), steps);
    assert!(
        results.iter().any(|result| result == "ok"),
        "the race was never won by the honest side"
    );
    assert_eq!(picture(&root.join(".mimir")), before);
}

#[test]
fn file_swapped_for_a_link_while_running() {
    let arena = arena();
    let outside = Outside::new();
    let root = arena.kit().path();
    fs::write(root.join("file"), "harmless").unwrap();
    symlink(outside.path().join("secret"), root.join("link")).unwrap();
    let steps = json!([
        ["read", "file"],
        ["write", "file", "harmless"],
        ["append", "file", ""],
        ["truncate", "file"],
        ["write", "file", "harmless"]
    ]);
    let results = while_swapping(&arena, &root.join("file"), &root.join("link"), steps);
    let text = serde_json::to_string(&results).unwrap();
    assert!(!text.contains(Outside::SECRET), "it was read");
    assert!(
        text.contains("\"ok\""),
        "the race was never won by the honest side"
    );
    outside.intact();
}
