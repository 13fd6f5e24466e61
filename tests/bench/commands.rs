//! Commands: judging a script of them, and starting one in the sandbox of this machine.

use std::process::Stdio;
use std::time::{Duration, Instant};

use mimir_core::Decision;
use mimir_core::command::Program;
use mimir_process::sandbox::{ProcessSandbox, Sandbox as _, Spec};
use mimir_process::shell;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// What judging a script of fifty lines may take, in seconds.
const JUDGED: f64 = 1e-3;

/// What a start in the sandbox may take of one without.
const STARTED: f64 = 5.0;

/// Ten lines as people write them.
const LINES: &str = r#"set -euo pipefail
cd src
if [ -f Cargo.toml ]; then cat Cargo.toml; fi
for f in *.rs; do grep -n TODO "$f" || true; done
git status --short | head -20
echo "building $(git rev-parse HEAD)"
cargo build --release 2>&1 | tail -5
find . -name '*.rs' -exec wc -l {} +
test -d target && du -sh target
RUST_BACKTRACE=1 cargo test --workspace > test.log
"#;

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    judge(report, &runtime);
    start(report, &runtime);
}

fn judge(report: &mut Report, runtime: &Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let subject = runtime.block_on(Subject::with_builtins(folder.path()));
    let text = LINES.repeat(5);
    let program = Program::Script(text.clone());
    let pace = Pace {
        turn: 20,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "judge",
        pace,
        |times| {
            timed(runtime, times, async || {
                let decided = subject.decided("exec", json!({"command": text})).await;
                assert_eq!(decided, Decision::Ask);
            })
        },
        |times| {
            let start = Instant::now();
            (0..times).for_each(|_| drop(shell::read(&program).unwrap()));
            start.elapsed()
        },
    );
    report.row(Row {
        name: format!("judging a script of {} lines", text.lines().count()),
        ours: time(pair.ours),
        reference: format!(
            "{} allowed; {} to read it",
            time(JUDGED),
            time(pair.reference)
        ),
        ratio: pair.ours / JUDGED,
        budget: Budget::AtMost(1.0),
    });
}

fn start(report: &mut Report, runtime: &Runtime) {
    let name = "`true` in the sandbox `process`";
    let sandbox = ProcessSandbox::new();
    if let Err(fault) = sandbox.available() {
        return report.skip(name, &fault.to_string());
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program::Vector(vec!["true".to_owned()]);
    let spec = Spec::new(program, folder.path().canonicalize().unwrap());
    let pace = Pace {
        turn: 1,
        samples: 40,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "sandbox",
        pace,
        |times| {
            timed(runtime, times, async || {
                let mut child = sandbox.start(&spec).await.unwrap();
                child.handle.wait().await.unwrap();
            })
        },
        |times| {
            timed(runtime, times, async || {
                let mut plain = tokio::process::Command::new("true");
                let plain = plain.stdin(Stdio::null()).output().await.unwrap();
                assert!(plain.status.success());
            })
        },
    );
    report.row(Row {
        name: name.to_owned(),
        ours: time(pair.ours),
        reference: format!("{}, started plainly", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(STARTED),
    });
}
