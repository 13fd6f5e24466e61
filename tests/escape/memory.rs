//! Guests that exhaust resources of the host: memory, tables, instances, handles.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::{bounded, nothing};
use crate::guests;

#[test]
fn memory_bomb_in_steps() {
    let arena = Arena::new(guests::MEMORY_IN_STEPS).limits(json!({"timeMs": 30_000}));
    let outcome = arena.call(nothing());
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    assert!(error.message.contains("limits.memoryMb"), "{error}");
    let peak = outcome.receipt().peak_memory.unwrap();
    assert!((200 << 20..=256 << 20).contains(&peak), "{peak}");
}

#[test]
fn memory_bomb_at_once() {
    Arena::new(guests::MEMORY_AT_ONCE).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn memory_limit_covers_the_sum_of_large_memories() {
    Arena::new(guests::BIG_MEMORIES).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn memory_limit_covers_many_memories() {
    Arena::new(guests::MANY_MEMORIES).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn memory_limit_covers_memories_that_grow_in_turn() {
    let outcome = Arena::new(guests::GROWN_MEMORIES).call(nothing());
    // It handles refused allocations, so the amount that it got is checked.
    let megabytes = outcome.result().unwrap().structured.clone().unwrap();
    let megabytes = megabytes["result"].as_u64().unwrap();
    assert!((250..=256).contains(&megabytes), "{megabytes}");
}

#[test]
fn table_limit_covers_the_sum_of_large_tables() {
    Arena::new(guests::BIG_TABLES).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn table_growth_is_limited() {
    let outcome = Arena::new(guests::GROWN_TABLE).call(nothing());
    let elements = outcome.result().unwrap().structured.clone().unwrap();
    let elements = elements["result"].as_u64().unwrap();
    assert!((99_000..=100_000).contains(&elements), "{elements}");
}

#[test]
fn memory_limit_covers_many_instances() {
    Arena::new(guests::MANY_INSTANCES).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn resource_handles_are_limited() {
    Arena::new(guests::HANDLE_FLOOD).stopped(nothing(), ToolErrorCode::LimitExceeded);
}

#[test]
fn http_headers_without_end_are_bounded() {
    let outcome = Arena::new(guests::HEADER_FLOOD).call(nothing());
    // Refused or stopped; the arena checks that the host's memory did not grow.
    assert_ne!(outcome.text(), "160 GB");
}

#[test]
fn random_bytes_without_end_are_bounded() {
    let outcome = Arena::new(guests::RANDOM_FLOOD).call(nothing());
    assert!(bounded(outcome.result().unwrap_err().code));
}
