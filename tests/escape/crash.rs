//! Guests that crash.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::nothing;
use crate::guests;

#[test]
fn crash_by_trap_is_an_execution_error() {
    let error = Arena::new(guests::TRAP).stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(error.message.contains("crashed"), "{error}");
}

#[test]
fn crash_by_panic_shows_and_logs_its_message() {
    let arena = Arena::new(guests::PANIC_MESSAGE);
    let error = arena.stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(
        error.message.contains("the flux capacitor is empty"),
        "{error}"
    );
    let log = arena.kit().log();
    assert!(
        log.iter()
            .any(|line| line.text.contains("the flux capacitor is empty")),
        "{log:?}"
    );
}

#[test]
fn crash_by_deep_recursion_is_limit_exceeded() {
    Arena::new(guests::DEEP_RECURSION).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn crash_by_exit_does_not_end_the_host() {
    Arena::new(guests::EXIT_PROCESS).stopped(nothing(), ToolErrorCode::ExecutionError);
}

#[test]
fn realloc_out_of_bounds_is_an_execution_error() {
    Arena::new(guests::REALLOC_LIE)
        .stopped(json!({"text": "hello"}), ToolErrorCode::ExecutionError);
}

#[test]
fn result_outside_guest_memory_is_an_execution_error() {
    Arena::new(guests::LIFTED_OUT_OF_BOUNDS).stopped(nothing(), ToolErrorCode::ExecutionError);
}

#[test]
fn contract_with_the_wrong_functions_is_rejected() {
    // The error occurs at load time or at call time, but the code never runs.
    let arena = Arena::new(guests::FALSE_CONTRACT);
    arena.assert_quarantined(ToolErrorCode::InvalidInput);
}
