//! Guests that attack through their result.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::nothing;
use crate::guests;

#[test]
fn output_as_large_as_the_memory_exceeds_the_limit() {
    let error = Arena::new(guests::RESULT_HUGE).stopped(nothing(), ToolErrorCode::LimitExceeded);
    assert!(error.message.contains("limits.outputBytes"), "{error}");
}

#[test]
fn output_amplified_to_a_terabyte_exceeds_the_limit() {
    Arena::new(guests::RESULT_AMPLIFIED).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn output_of_millions_of_empty_parts_exceeds_the_limit() {
    Arena::new(guests::RESULT_MANY_PARTS).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn output_list_repeating_one_text_exceeds_the_limit() {
    Arena::new(guests::LIFTED_AMPLIFIED).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn error_as_large_as_the_memory_exceeds_the_limit() {
    Arena::new(guests::ERROR_HUGE).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn structured_result_that_is_not_json_is_an_error() {
    let arena = Arena::new(guests::STRUCTURED_NOT_JSON);
    let error = arena.stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(error.message.contains("not JSON"), "{error}");
    arena.stopped(json!({"how": "deep"}), ToolErrorCode::ExecutionError);
}

#[test]
fn structured_result_that_breaks_its_schema_is_an_error() {
    let arena = Arena::new(guests::STRUCTURED_BREAKS_SCHEMA);
    let error = arena.stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(error.message.contains("/n"), "{error}");
    arena.stopped(json!({"how": "nothing"}), ToolErrorCode::ExecutionError);
}

#[test]
fn schema_loops_are_checked_in_bounded_time() {
    let arena = Arena::new(guests::SCHEMA_LOOPS);
    let before = arena.kit().events().len();
    // Arguments that a model may pass to an honest tool.
    let deep = (0..60).fold(json!(5), |value, _| json!({ "a": value }));
    let error = arena.stopped(deep, ToolErrorCode::InvalidInput);
    assert!(error.message.contains("listing the failures"), "{error}");
    let shallow = arena.stopped(json!({"a": {"a": 5}}), ToolErrorCode::InvalidInput);
    assert!(shallow.message.contains("/a"), "{shallow}");
    // Results that the tool may return.
    let error = arena.stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(error.message.contains("structured result"), "{error}");
    // Each call is logged, including the ones after it.
    assert_eq!(arena.kit().events().len(), before + 6);
}

#[test]
fn error_codes_forged_by_a_tool_become_execution_errors() {
    let arena = Arena::new(guests::FORGED_CODE);
    for code in [
        "POLICY_DENIED",
        "INTERNAL",
        "UNAVAILABLE",
        "APPROVAL_DENIED",
        "TIMEOUT",
        "CANCELLED",
        "nonsense",
    ] {
        let outcome = arena.call(json!({ "code": code }));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ExecutionError, "{error}");
        if code != "nonsense" {
            assert_eq!(error.details, Some(json!({ "code": code })), "{error}");
        }
        let shown = serde_json::to_string(&outcome).unwrap();
        assert!(
            !shown.contains("\\u001b") && !shown.contains("\\u0007"),
            "{shown}"
        );
        assert_ne!(
            outcome.label().origin,
            "mimir",
            "the tool said it, not mimir"
        );
    }
}

#[test]
fn output_text_cannot_drive_a_terminal() {
    let arena = Arena::new(guests::DISGUISED_TEXT);
    let outcome = arena.call(nothing());
    let text = outcome.text();
    assert!(
        text.contains("clear") && text.contains("backwards"),
        "{text:?}"
    );
    let log = arena.kit().log();
    assert!(log.iter().any(|line| line.text.contains("log")), "{log:?}");
    let shown = log
        .iter()
        .map(|line| line.text.as_str())
        .chain([text.as_str()]);
    for text in shown {
        let odd =
            |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || c >= '\u{e0000}';
        assert!(!text.contains(odd), "{text:?}");
    }
}
