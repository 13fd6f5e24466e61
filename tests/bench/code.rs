//! `run_code` in WebAssembly, warm: the whole pipeline, a fresh engine, a program that does next to nothing.

use std::time::Duration;

use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// What the least of programs may take, in seconds, and the program.
const ALLOWED: [(&str, f64, &str); 3] = [
    ("python", 3e-3, "print(1)"),
    ("bash", 1e-3, "echo 1"),
    ("javascript", 1e-3, "console.log(1)"),
];

const TRIVIAL: &str = "\
name: trivial
description: Greets.
schema: {type: object}
code: |
  export default () => 'hello';
";

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let subject = runtime.block_on(Subject::with_script("trivial", TRIVIAL));
    let pace = Pace {
        turn: 10,
        samples: 20,
        time: Duration::from_secs(2),
    };
    for (language, allowed, code) in ALLOWED {
        let call = |times| {
            timed(&runtime, times, async || {
                let arguments = json!({"language": language, "code": code, "backend": "wasm"});
                let outcome = subject.call("run_code", arguments).await;
                assert_eq!(outcome.text(), "1\n");
            })
        };
        // The engine is made ready once, and that is not what is measured.
        call(1);
        let pair = report.pair(language, pace, call, |times| {
            timed(&runtime, times, async || {
                subject.call("trivial", json!({})).await;
            })
        });
        report.row(Row {
            name: format!("run_code, the least program in {language}"),
            ours: time(pair.ours),
            reference: format!(
                "{} allowed; {} a trivial script",
                time(allowed),
                time(pair.reference)
            ),
            ratio: pair.ours / allowed,
            budget: Budget::AtMost(1.0),
        });
    }
}
