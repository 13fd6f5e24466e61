//! Cancelled calls, and many concurrent calls.

use std::time::{Duration, Instant};

use futures::future::join_all;
use mimir_core::ToolErrorCode;
use mimir_kit::{Arena, BOUND, Guest};
use mimir_testkit::json;

use super::nothing;
use crate::guests;

/// Time within which a dropped call must free its slot, also on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Drops a running call, many more times than there are slots, and then needs a slot.
fn dropped_calls_make_room(guest: Guest) {
    let arena = Arena::new(guest).limits(json!({"timeMs": 60_000, "concurrent": 8}));
    let kit = arena.kit();
    kit.block_on(async {
        for _ in 0..100 {
            let call = kit.start(guest.name, nothing());
            assert!(
                tokio::time::timeout(Duration::from_millis(5), call)
                    .await
                    .is_err(),
                "it ended by itself"
            );
        }
    });
    let events = kit.events();
    let cancelled = events
        .iter()
        .filter(|event| event.code == Some(ToolErrorCode::Cancelled))
        .count();
    assert_eq!(cancelled, 100, "each one is on record");
}

#[test]
fn cancel_on_drop_stops_a_computing_guest() {
    dropped_calls_make_room(guests::INFINITE_LOOP);
    let arena =
        Arena::new(guests::INFINITE_LOOP).limits(json!({"timeMs": 60_000, "concurrent": 8}));
    let kit = arena.kit();
    let quick = || kit.start("infinite_loop", json!({"how": "quick"}));
    kit.block_on(async {
        let mut waits = vec![];
        for _ in 0..10 {
            // All slots are used by guests that never end.
            let stuck: Vec<_> = (0..8)
                .map(|_| kit.start("infinite_loop", nothing()))
                .collect();
            assert!(
                tokio::time::timeout(Duration::from_millis(30), join_all(stuck))
                    .await
                    .is_err()
            );
            let start = Instant::now();
            let outcome = tokio::time::timeout(BOUND, quick())
                .await
                .expect("a slot is free again");
            waits.push(start.elapsed());
            assert_eq!(outcome.text(), "done");
        }
        waits.sort();
        assert!(waits[5] < SOON, "{waits:?}");
    });
}

#[test]
fn cancel_on_drop_stops_a_sleeping_guest() {
    dropped_calls_make_room(guests::SLEEP_AN_HOUR);
}

#[test]
fn cancel_on_drop_stops_a_running_host_call() {
    dropped_calls_make_room(guests::POLL_BUSILY);
}

#[test]
fn concurrent_calls_get_their_own_results() {
    let arena = Arena::new(guests::INFINITE_LOOP).limits(json!({"timeMs": 60_000}));
    let calls = (0..64).map(|at| arena.kit().start("echo", json!({ "at": at })));
    let outcomes = arena.kit().block_on(join_all(calls));
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.text(), format!("{{\"at\":{at}}}"));
    }
}

#[test]
fn concurrent_hanging_calls_do_not_block_another_plugin() {
    let arena = Arena::new(guests::SLEEP_AN_HOUR).limits(json!({"timeMs": 5_000}));
    let kit = arena.kit();
    kit.block_on(async {
        let stuck = join_all((0..64).map(|_| kit.start("sleep_an_hour", nothing())));
        let start = Instant::now();
        let honest = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            join_all((0..16).map(|at| kit.start("echo", json!({ "at": at })))).await
        };
        let (stuck, honest) = tokio::join!(stuck, honest);
        assert!(honest.iter().all(|outcome| outcome.is_ok()));
        for outcome in stuck {
            assert_eq!(outcome.result().unwrap_err().code, ToolErrorCode::Timeout);
        }
        assert!(
            start.elapsed() < Duration::from_secs(5) + BOUND,
            "they do not queue for each other's time"
        );
    });
}
