//! A warm tool in a YAML file: the whole pipeline, a new engine instance, its code evaluated again.

use std::time::Duration;

use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// A minimal script, relative to a minimal plugin.
const CALLED: f64 = 25.0;

const TRIVIAL: &str = "\
name: trivial
description: Greets.
schema: {type: object, properties: {name: {type: string}}}
code: |
  export async function execute(args: { name: string }): Promise<string> {
    return `Hello, ${args.name}!`;
  }
";

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let subject = runtime.block_on(Subject::with_script("trivial", TRIVIAL));
    let call = |times| {
        timed(&runtime, times, async || {
            let outcome = subject.call("trivial", json!({"name": "bench"})).await;
            assert_eq!(outcome.text(), "Hello, bench!");
        })
    };
    // Preparing the engine happens once and is not measured.
    call(1);
    let pace = Pace {
        turn: 20,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let plain = runtime.block_on(Subject::with_plugins(
        [("echo".to_owned(), crate::guests::ECHO.bytes())],
        crate::calls::settings(),
    ));
    let pair = report.pair("script", pace, call, |times| {
        timed(&runtime, times, async || {
            plain.call("echo", json!({"text": "hello"})).await;
        })
    });
    report.row(Row {
        name: "a call of a trivial script".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} a trivial plugin", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(CALLED),
    });
}
