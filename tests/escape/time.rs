//! Guests that do not end.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::nothing;
use crate::guests;

/// Sets a wall clock limit that is reached before any other.
fn short(guest: mimir_kit::Guest) -> Arena {
    Arena::new(guest).limits(json!({"timeMs": 300, "fuel": u64::MAX >> 1}))
}

#[test]
fn infinite_loop_runs_out_of_fuel() {
    let arena =
        Arena::new(guests::INFINITE_LOOP).limits(json!({"timeMs": 60_000, "fuel": 50_000_000}));
    let error = arena.stopped(nothing(), ToolErrorCode::LimitExceeded);
    assert!(error.message.contains("limits.fuel"), "{error}");
}

#[test]
fn infinite_loop_runs_out_of_time() {
    let error = short(guests::INFINITE_LOOP).stopped(nothing(), ToolErrorCode::Timeout);
    assert!(error.message.contains("300 ms"), "{error}");
}

#[test]
fn timeout_stops_a_guest_that_sleeps() {
    short(guests::SLEEP_AN_HOUR).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_a_guest_that_polls_forever() {
    short(guests::POLL_FOREVER).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_a_guest_that_polls_busily() {
    short(guests::POLL_BUSILY).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_a_guest_that_logs_megabytes() {
    short(guests::LOG_HEAVY).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_an_endless_start_function() {
    short(guests::START_LOOP).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_an_endless_post_return() {
    short(guests::POST_RETURN_LOOP).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn timeout_stops_an_endless_allocator() {
    short(guests::REALLOC_LOOP).stopped(json!({"text": "hello"}), ToolErrorCode::Timeout);
}

#[test]
fn timeout_receipt_has_fuel_and_duration() {
    let outcome = short(guests::INFINITE_LOOP).call(nothing());
    let receipt = outcome.receipt();
    assert!(receipt.fuel > Some(0), "{receipt:?}");
    assert!(receipt.duration_ms >= 300.0, "{receipt:?}");
}
