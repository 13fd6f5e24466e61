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
fn secret_split_over_two_parts_is_masked() {
    masked("two parts");
}

#[test]
fn secret_key_with_a_part_per_line_is_masked() {
    masked("key in parts");
}

#[test]
fn secret_with_invisible_characters_inside_is_masked() {
    masked("invisible");
}

#[test]
fn secret_in_nested_json_is_masked() {
    masked("escaped");
}

#[test]
fn secret_at_the_cut_of_a_result_is_masked() {
    let (seen, _) = seen("far back");
    assert!(!seen.contains("8aZq2"), "{}", &seen[seen.len() - 400..]);
}

#[test]
fn secret_in_structured_keys_and_lists_is_masked() {
    masked("structured");
}

#[test]
fn secret_in_log_and_progress_is_masked() {
    masked("log");
}

#[test]
fn secret_in_an_error_and_its_details_is_masked() {
    masked("error");
}
