//! Events of calls that end at about the same time.

use std::task::{Context, Poll, Waker};

use super::*;

#[tokio::test]
async fn group_write_of_concurrent_calls_is_one_chain() {
    let mut bench = Bench::new();
    bench.settings.max_bytes = 4096;
    let log = std::sync::Arc::new(bench.open());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let log = std::sync::Arc::clone(&log);
        tasks.spawn(async move {
            for number in 0..25 {
                let event = event(task * 100 + number);
                log.record_with_others(&event).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let report = bench.report();
    assert_eq!(report.findings, []);
    assert_eq!(report.lines - (report.files as u64 - 1), 200);
}

#[test]
fn group_write_dropped_waiter_writes_pending_events() {
    let bench = Bench::new();
    let log = bench.open();
    let mut cx = Context::from_waker(Waker::noop());
    let events = [event(1), event(2), event(3)];
    let mut waiting: Vec<_> = events
        .iter()
        .map(|event| log.record_with_others(event))
        .collect();
    for wait in &mut waiting {
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(bench.report().lines, 0);
    drop(waiting.remove(0));
    // The dropped waiter has written the other events, too.
    assert_eq!(bench.report().lines, 3);
    for wait in &mut waiting {
        assert!(matches!(wait.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    }
    assert_eq!((bench.report().lines, bench.report().findings), (3, vec![]));
}

#[test]
fn group_write_failure_reaches_each_waiter() {
    let bench = Bench::new();
    fs::write(bench.file("none"), "").unwrap();
    let log = FileAuditSink::new(bench.file("none/audit.jsonl"), bench.settings);
    let mut cx = Context::from_waker(Waker::noop());
    let event = event(1);
    let mut waiting = [(); 2].map(|()| log.record_with_others(&event));
    for wait in &mut waiting {
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    for wait in &mut waiting {
        assert!(matches!(wait.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
    }
}

#[test]
fn durability_fsync_alone_waits_for_the_disk() {
    for (settings, waits) in [
        (serde_json::json!({}), false),
        (serde_json::json!({"durability": "write"}), false),
        (serde_json::json!({"durability": "fsync"}), true),
    ] {
        let mut bench = Bench::new();
        bench.settings = serde_json::from_value(settings).unwrap();
        let broken = bench
            .open()
            .with_sync(|_| Err(std::io::ErrorKind::StorageFull.into()));
        assert_eq!(broken.record(&event(1)).is_err(), waits);
        bench.open().record(&event(2)).unwrap();
    }
}
