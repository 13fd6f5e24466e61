//! The cost of consoles: a call while none is open, and while one shows it.

use std::sync::Arc;
use std::time::Duration;

use mimir::live_calls::{LiveCallHub, LiveCallPublisher, LiveConsole};
use mimir::user_dirs::UserDirs;
use serde_json::json;

use crate::calls::settings;
use crate::guests;
use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// A pipeline whose calls are reported to the consoles of this folder.
async fn reporting_subject(user_dirs: &UserDirs) -> Subject {
    let subject = subject().await;
    let calls = subject.pipeline().running_calls();
    let publisher = LiveCallPublisher::start(user_dirs, calls, None).unwrap();
    subject.pipeline().set_monitor(Arc::new(publisher));
    subject
}

async fn subject() -> Subject {
    let plugin = [("echo".to_owned(), guests::ECHO.bytes())];
    Subject::with_plugins(plugin, settings()).await
}

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dirs = |name: &str| UserDirs {
        config: Some(folder.path().join(name)),
        ..UserDirs::default()
    };
    let plain = runtime.block_on(subject());
    let unwatched = runtime.block_on(reporting_subject(&dirs("closed")));
    // A console is another process, so this one has threads of its own.
    let console_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let hub = LiveCallHub::default();
    let open = dirs("open");
    let console = console_runtime.block_on(async { LiveConsole::open(&open, &hub).unwrap() });
    let watched = runtime.block_on(reporting_subject(&open));
    let arguments = json!({"text": "hello"});
    let calls = |subject: &Subject, times: u64| {
        timed(&runtime, times, async || {
            subject.call("echo", arguments.clone()).await;
        })
    };
    let pace = Pace {
        turn: 100,
        samples: 40,
        time: Duration::from_secs(4),
    };
    let pair = report.pair(
        "console closed",
        pace,
        |times| calls(&unwatched, times),
        |times| calls(&plain, times),
    );
    report.row(Row {
        name: "a call of a trivial plugin while no console is open".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} without consoles", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(1.02),
    });
    let pair = report.pair(
        "console open",
        pace,
        |times| calls(&watched, times),
        |times| calls(&unwatched, times),
    );
    let snapshot = hub.snapshot();
    assert!(!snapshot.calls.is_empty(), "the console shows calls");
    report.note(format!(
        "the console has {} calls; {} calls and steps were dropped, because there were more than 5,000 steps a second",
        snapshot.calls.len(),
        snapshot.dropped
    ));
    report.row(Row {
        name: "a call of a trivial plugin while a console is open".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} while none is", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(1.03),
    });
    drop(console);
}
