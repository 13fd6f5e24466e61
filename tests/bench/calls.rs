//! Sequential calls through the whole pipeline, with the audit log in a file, compared with wasmtime alone.

use std::time::Duration;

use serde_json::json;

use crate::bare::Bare;
use crate::guests;
use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// Settings that use every policy check: lists, groups, an approval of the tool.
pub fn settings() -> serde_json::Value {
    json!({
        "toolDiscovery": "off",
        "policy": {"allow": ["echo", "add"], "deny": ["delete_file"], "groups": {"deny": ["browser"]}},
        "tools": {"echo": {"approval": "auto"}},
    })
}

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let plugin = [("echo".to_owned(), guests::ECHO.bytes())];
    let subject = runtime.block_on(Subject::with_plugins(plugin, settings()));
    let bare = Bare::new(guests::ECHO.path);
    let arguments = json!({"text": "hello"});
    let before = subject.recorded();
    let mut calls = 0;
    let pace = Pace {
        turn: 100,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "calls",
        pace,
        |times| {
            calls += times as usize;
            timed(&runtime, times, async || {
                subject.call("echo", arguments.clone()).await;
            })
        },
        |times| {
            timed(&runtime, times, async || {
                assert_eq!(bare.call("echo", &arguments.to_string()).await, 16);
            })
        },
    );
    assert_eq!(
        subject.recorded() - before,
        calls,
        "every call is on record"
    );
    report.row(Row {
        name: "a call of a trivial plugin, all gates and the record on".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} bare wasmtime", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(2.0),
    });
}
