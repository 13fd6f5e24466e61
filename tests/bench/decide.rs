//! Cost of a thousand rules: the same decision with them and without.

use std::time::Duration;

use mimir_core::Decision;
use serde_json::{Value, json};

use crate::guests;
use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// A decision with a thousand rules, relative to one without.
const MOST: f64 = 2.0;

/// A thousand rules that all must be checked: they are about the called tool, and none matches.
fn rules() -> Value {
    let rule = |n: usize| match n % 5 {
        0 => json!({"when": {"text": {"glob": format!("src/{n}/**/*.rs")}}, "decision": "deny"}),
        1 => json!({"when": {"text": {"equals": format!("value {n}")}}, "decision": "ask"}),
        2 => json!({"when": {"text": {"inside": format!("private/{n}")}}, "decision": "deny"}),
        3 => json!({"when": {"text": {"regex": format!("^rm -rf /{n}")}}, "decision": "deny"}),
        _ => json!({"when": {"n": {"min": n}}, "decision": "ask"}),
    };
    json!({
        "policy": {"rules": (0..1000).map(rule).collect::<Vec<_>>()},
        "tools": {"echo": {"approval": "auto"}},
    })
}

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let subject = |settings| {
        let plugin = [("echo".to_owned(), guests::ECHO.bytes())];
        runtime.block_on(Subject::with_plugins(plugin, settings))
    };
    let (many, none) = (
        subject(rules()),
        subject(json!({"tools": {"echo": {"approval": "auto"}}})),
    );
    let arguments = json!({"text": "src/host/core/policy.rs"});
    let ask = |subject: &Subject, times: u64| {
        timed(&runtime, times, async || {
            let decided = subject.decided("echo", arguments.clone()).await;
            assert_eq!(decided, Decision::Allow);
        })
    };
    let pace = Pace {
        turn: 100,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "decide",
        pace,
        |times| ask(&many, times),
        |times| ask(&none, times),
    );
    let cost = (pair.ours - pair.reference).max(0.0);
    report.row(Row {
        name: "deciding about a call, 1,000 rules about its tool".to_owned(),
        ours: format!("{} more than without rules", time(cost)),
        reference: format!("{} without rules", time(pair.reference)),
        ratio: cost / pair.reference,
        budget: Budget::AtMost(MOST),
    });
}
