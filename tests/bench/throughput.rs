//! Concurrent calls on two workers: calls per second, compared with wasmtime alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::calls::settings;
use crate::guests;
use crate::measure::{Budget, Pace, Report, Row};
use crate::subject::Subject;

/// Concurrent tasks: as many as may run of one plugin at a time, so that none waits for a slot.
const TASKS: u64 = 8;

/// Calls per turn. Enough to keep both workers busy nearly all the time.
const TURN: u64 = 2_000;

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let plugin = [("echo".to_owned(), guests::ECHO.bytes())];
    let subject = Arc::new(runtime.block_on(Subject::with_plugins(plugin, settings())));
    let bare = Arc::new(Bare::new(guests::ECHO.path));
    let pace = Pace {
        turn: TURN,
        samples: 10,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "throughput",
        pace,
        |times| {
            let subject = Arc::clone(&subject);
            runtime.block_on(spread(times, move || {
                let subject = Arc::clone(&subject);
                async move {
                    subject.call("echo", json!({"text": "hello"})).await;
                }
            }))
        },
        |times| {
            let bare = Arc::clone(&bare);
            runtime.block_on(spread(times, move || {
                let bare = Arc::clone(&bare);
                async move {
                    bare.call("echo", &json!({"text": "hello"}).to_string())
                        .await;
                }
            }))
        },
    );
    report.row(Row {
        name: "throughput on 2 workers".to_owned(),
        ours: format!("{:.0} calls/s", 1.0 / pair.ours),
        reference: format!("{:.0} calls/s bare wasmtime", 1.0 / pair.reference),
        ratio: pair.reference / pair.ours,
        budget: Budget::AtLeast(0.6),
    });
}

/// Runs `call` a number of times, in several tasks.
async fn spread<F: Future<Output = ()> + Send + 'static>(
    times: u64,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Duration {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let call = call.clone();
        let share = times / TASKS + u64::from(task < times % TASKS);
        tasks.spawn(async move {
            for _ in 0..share {
                call().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    start.elapsed()
}
