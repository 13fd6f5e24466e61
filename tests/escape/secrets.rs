//! A guest that returns a secret and tries to hide it.

use mimir_kit::Arena;
use mimir_testkit::json;

use crate::guests;

/// Parts of the secrets that must not be shown.
const PIECES: [&str; 3] = ["8aZq2WvX7k", "L1sD9fGhB3", "MIIEpQIBAA"];

/// All output of a call.
fn seen(how: &str) -> (String, u32) {
    let arena = Arena::new(guests::SECRET_HIDDEN);
    let outcome = arena.call(json!({ "how": how }));
    let log: Vec<_> = arena
        .kit()
        .log()
        .into_iter()
        .map(|line| line.text)
        .collect();
    let progress: Vec<_> = arena
        .kit()
        .progress()
        .into_iter()
        .filter_map(|report| report.message)
        .collect();
    let shown = serde_json::to_string(&outcome).unwrap();
    let events = format!("{:?}", arena.kit().events());
    let all = [shown, log.join("\n"), progress.join("\n"), events].join("\n");
    (all, outcome.redactions())
}

fn masked(how: &str) {
    let (seen, redactions) = seen(how);
    for piece in PIECES {
        assert!(!seen.contains(piece), "{how}: {seen}");
    }
    assert!(seen.contains("[REDACTED:"), "{how}: {seen}");
    assert!(redactions > 0, "{how}: nothing was counted");
}

#[test]
fn split_over_two_parts() {
    masked("two parts");
}

#[test]
fn a_private_key_with_a_part_for_each_line() {
    masked("key in parts");
}

#[test]
fn with_something_invisible_inside() {
    masked("invisible");
}

#[test]
fn inside_of_json_inside_of_json() {
    masked("escaped");
}

#[test]
fn where_the_result_is_cut() {
    let (seen, _) = seen("far back");
    assert!(!seen.contains("8aZq2"), "{}", &seen[seen.len() - 400..]);
}

#[test]
fn in_keys_lists_and_below_telling_keys() {
    masked("structured");
}

#[test]
fn in_log_lines_and_progress() {
    masked("log");
}

#[test]
fn in_an_error_and_its_details() {
    masked("error");
}
