//! Commands: checking a script of them, and starting one in the sandbox of this machine.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mimir_commands::shell;
use mimir_core::Decision;
use mimir_core::command::CommandProgram;
use mimir_process::sandbox::{CommandSpec, ProcessSandbox, Sandbox as _};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// Checking a script of fifty lines, relative to parsing it.
const JUDGED: f64 = 8.0;

/// A start in the sandbox, relative to one without it.
const STARTED: f64 = 5.0;

/// The argument with which this program starts itself to start commands, and the two modes.
pub const CHILD: &str = "--commands";
const BOXED: &str = "boxed";
const PLAIN: &str = "plain";

/// Ten lines of typical shell code.
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
    judge(report);
    start(report);
}

fn judge(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let subject = runtime.block_on(Subject::with_builtins(folder.path()));
    let text = LINES.repeat(5);
    let program = CommandProgram::Script(text.clone());
    let pace = Pace {
        turn: 20,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "judge",
        pace,
        |times| {
            timed(&runtime, times, async || {
                let decided = subject.decided("exec", json!({"command": text})).await;
                assert_eq!(decided, Decision::Ask);
            })
        },
        |times| {
            let start = Instant::now();
            (0..times).for_each(|_| drop(shell::read_script(&program).unwrap()));
            start.elapsed()
        },
    );
    report.row(Row {
        name: format!("judging a script of {} lines", text.lines().count()),
        ours: time(pair.ours),
        reference: format!("{} to parse it", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(JUDGED),
    });
}

/// Measures in a separate process: forking costs more the more memory a process has, and this one still has the memory
/// of earlier measurements.
fn start(report: &mut Report) {
    let name = "`true` in the sandbox `process`";
    if let Err(fault) = ProcessSandbox::new().available() {
        return report.skip(name, &fault.to_string());
    }
    let took = |way: &str, times: u64| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args([CHILD, way, &times.to_string()]).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        Duration::from_nanos(output.trim().parse().unwrap())
    };
    let pace = Pace {
        turn: 5,
        samples: 20,
        time: Duration::from_secs(4),
    };
    let pair = report.pair(
        "sandbox",
        pace,
        |times| took(BOXED, times),
        |times| took(PLAIN, times),
    );
    report.row(Row {
        name: name.to_owned(),
        ours: time(pair.ours),
        reference: format!("{}, started plainly", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(STARTED),
    });
}

/// The measuring process: starts `true` this many times, in the sandbox or directly, and prints the nanoseconds.
pub fn child(way: &str, times: &str) {
    let times = times.parse().unwrap();
    // A runtime like that of the program.
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = CommandProgram::Vector(vec!["true".to_owned()]);
    let spec = CommandSpec::new(program, folder.path().canonicalize().unwrap());
    let took = match way {
        BOXED => {
            let sandbox = ProcessSandbox::new();
            let once = async || {
                let mut child = sandbox.start(&spec).await.unwrap();
                child.handle.wait().await.unwrap();
            };
            // One-time detection is not part of a start.
            timed(&runtime, 2, once);
            timed(&runtime, times, once)
        }
        _ => timed(&runtime, times, async || {
            let mut plain = tokio::process::Command::new("true");
            let plain = plain.stdin(Stdio::null()).output().await.unwrap();
            assert!(plain.status.success());
        }),
    };
    println!("{}", took.as_nanos());
}
