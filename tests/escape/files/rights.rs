//! Granted access works, and ends at the limits of the grant.

use std::fs;

use mimir_kit::picture;
use mimir_testkit::json;

use super::{arena, probe, refused};

#[test]
fn file_probe_can_use_its_granted_rights() {
    // Without this check the refusals below would prove nothing.
    let arena = arena();
    let results = probe(
        &arena,
        "file_probe",
        &[
            ["read", "plain.txt", ""],
            ["write", "new.txt", "new"],
            ["list", "sub", ""],
            ["mkdir", "made", ""],
            ["rename", "new.txt", "made/moved.txt"],
            ["link", "made/moved.txt", "linked.txt"],
            ["symlink", "pointer", "plain.txt"],
            ["read", "pointer", ""],
            ["truncate", "plain.txt", ""],
            ["append", "linked.txt", " more"],
            ["unlink", "pointer", ""],
            ["walk", "sub/deep", ""],
        ],
    );
    assert_eq!(results[0], json!({"read": "plain"}));
    assert_eq!(results[2], json!({"names": ["deep", "plain.txt"]}));
    assert_eq!(results[7], json!({"read": "plain"}));
    for (at, result) in results.iter().enumerate() {
        assert!(!refused(result), "step {at}: {result}");
    }
    assert_eq!(
        fs::read_to_string(arena.kit().path().join("made/moved.txt")).unwrap(),
        "new more"
    );
    assert_eq!(
        fs::read_to_string(arena.kit().path().join("plain.txt")).unwrap(),
        ""
    );
}

#[test]
fn file_read_right_cannot_change_anything() {
    let arena = arena();
    let before = picture(arena.kit().path());
    let results = probe(
        &arena,
        "file_probe_read",
        &[
            ["read", "plain.txt", ""],
            ["write", "plain.txt", "changed"],
            ["write", "new.txt", "new"],
            ["truncate", "plain.txt", ""],
            ["append", "plain.txt", "changed"],
            ["set-size", "plain.txt", "0"],
            ["times", "plain.txt", ""],
            ["mkdir", "new", ""],
            ["unlink", "plain.txt", ""],
            ["rmdir", "sub/deep", ""],
            ["rename", "plain.txt", "moved.txt"],
            ["link", "plain.txt", "linked.txt"],
            ["symlink", "pointer", "plain.txt"],
        ],
    );
    assert_eq!(results[0], json!({"read": "plain"}));
    for result in &results[1..] {
        assert!(refused(result), "{result}");
    }
    assert_eq!(picture(arena.kit().path()), before);
}

#[test]
fn file_right_to_one_folder_ends_there() {
    let arena = arena();
    let results = probe(
        &arena,
        "file_probe_sub",
        &[
            ["read", "plain.txt", ""],
            ["read", "../plain.txt", ""],
            ["write", "../new.txt", "x"],
            ["list", "..", ""],
        ],
    );
    assert_eq!(
        results[0],
        json!({"read": "plain"}),
        "the first preopen is `sub`"
    );
    for result in &results[1..] {
        assert!(refused(result), "{result}");
    }
    assert!(!arena.kit().path().join("new.txt").exists());
}
