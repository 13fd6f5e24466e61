//! Warm `run_code` in WebAssembly: the whole pipeline, a new engine instance, a program that does next to nothing.

use std::time::Duration;

use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::program;
use crate::subject::Subject;

/// A language, a minimal program in it, and its interpreter on this machine.
struct Least {
    language: &'static str,
    code: &'static str,
    interpreter: [&'static str; 2],
    /// A call, relative to the whole interpreter with the same program.
    budget: f64,
}

const LEAST: [Least; 3] = [
    Least {
        language: "python",
        code: "print(1)",
        interpreter: ["python3", "-c"],
        budget: 0.3,
    },
    Least {
        language: "bash",
        code: "echo 1",
        interpreter: ["bash", "-c"],
        budget: 1.0,
    },
    Least {
        language: "javascript",
        code: "console.log(1)",
        interpreter: ["node", "-e"],
        budget: 0.05,
    },
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
    for Least {
        language,
        code,
        interpreter: [program, flag],
        budget,
    } in LEAST
    {
        let name = format!("run_code, the least program in {language}");
        let Some(mut interpreter) = program::other(program) else {
            report.skip(&name, &format!("there is no `{program}`"));
            continue;
        };
        interpreter.args([flag, code]);
        let call = |times| {
            timed(&runtime, times, async || {
                let arguments = json!({"language": language, "code": code, "backend": "wasm"});
                let outcome = subject.call("run_code", arguments).await;
                assert_eq!(outcome.text(), "1\n");
            })
        };
        // Preparing the engine happens once and is not measured.
        call(1);
        let pair = report.pair(language, pace, call, |times| {
            program::run(&mut interpreter, times)
        });
        report.row(Row {
            name,
            ours: time(pair.ours),
            reference: format!("{} `{program} {flag}`, whole", time(pair.reference)),
            ratio: pair.ratio(),
            budget: Budget::AtMost(budget),
        });
    }
}
