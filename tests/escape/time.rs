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
fn sleep_for_an_hour() {
    short(guests::SLEEP_AN_HOUR).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn poll_forever() {
    short(guests::POLL_FOREVER).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn poll_what_is_always_ready() {
    short(guests::POLL_BUSILY).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn keep_the_host_at_work() {
    short(guests::LOG_HEAVY).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn an_instance_that_never_starts() {
    short(guests::START_LOOP).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn a_post_return_that_never_returns() {
    short(guests::POST_RETURN_LOOP).stopped(nothing(), ToolErrorCode::Timeout);
}

#[test]
fn an_allocator_that_never_returns() {
    short(guests::REALLOC_LOOP).stopped(json!({"text": "hello"}), ToolErrorCode::Timeout);
}

#[test]
fn a_guest_out_of_time_says_what_it_cost() {
    let outcome = short(guests::INFINITE_LOOP).call(nothing());
    let receipt = outcome.receipt();
    assert!(receipt.fuel > Some(0), "{receipt:?}");
    assert!(receipt.duration_ms >= 300.0, "{receipt:?}");
}
