//! Guests that crash.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::nothing;
use crate::guests;

#[test]
fn trap() {
    let error = Arena::new(guests::TRAP).stopped(nothing(), ToolErrorCode::ExecutionError);
    assert!(error.message.contains("crashed"), "{error}");
}

#[test]
fn panic_reaches_its_author() {
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
fn deep_recursion() {
    Arena::new(guests::DEEP_RECURSION).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn exit_ends_the_guest_and_not_the_host() {
    Arena::new(guests::EXIT_PROCESS).stopped(nothing(), ToolErrorCode::ExecutionError);
}

#[test]
fn an_allocator_that_lies() {
    Arena::new(guests::REALLOC_LIE)
        .stopped(json!({"text": "hello"}), ToolErrorCode::ExecutionError);
}

#[test]
fn a_result_that_is_not_in_its_memory() {
    Arena::new(guests::LIFTED_OUT_OF_BOUNDS).stopped(nothing(), ToolErrorCode::ExecutionError);
}

#[test]
fn a_contract_that_is_only_claimed() {
    // The error occurs at load time or at call time, but the code never runs.
    let arena = Arena::new(guests::FALSE_CONTRACT);
    arena.left_out(ToolErrorCode::InvalidInput);
}
