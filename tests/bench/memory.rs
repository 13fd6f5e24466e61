//! Resident memory of running calls, and of an idle host. Each is measured in a separate process, because memory
//! touched by one measurement stays resident.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::bare::Bare;
use crate::measure::{Budget, Report, Row, size};
use crate::subject::Subject;
use crate::{guests, list};

/// The argument with which this program starts itself for one measurement.
pub const CHILD: &str = "--child";

/// Running calls: as many as mimir allows.
const CALLS: usize = 64;

/// Plugins of the idle host, and the most bytes that it may use.
const PLUGINS: usize = 100;
const IDLE_MOST: f64 = 40.0 * 1024.0 * 1024.0;

/// Time for all started tasks to become idle.
const SETTLE: Duration = Duration::from_secs(1);

pub fn bench(report: &mut Report) {
    if resident().is_none() {
        return report.skip("memory", "this system has no /proc");
    }
    let [ours] = measured("calls");
    let [bare] = measured("bare");
    report.row(Row {
        name: format!("memory of a call under way ({CALLS} at once)"),
        ours: size(ours),
        reference: format!("{} bare wasmtime", size(bare)),
        ratio: ours / bare,
        budget: Budget::Open,
    });
    let [loaded, called] = measured("idle");
    report.note(format_args!(
        "{PLUGINS} plugins, none called: {}",
        size(loaded)
    ));
    report.row(Row {
        name: format!("memory of a host with {PLUGINS} plugins after one call"),
        ours: size(called),
        reference: size(IDLE_MOST),
        ratio: called / IDLE_MOST,
        budget: Budget::AtMost(1.0),
    });
}

/// Measures in a new process.
fn measured<const N: usize>(what: &str) -> [f64; N] {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, what])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<f64> = text
        .split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect();
    figures.try_into().unwrap()
}

/// The measuring process: prints bytes.
pub fn child(what: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let _runtime = runtime.enter();
    let figures = match what {
        "calls" => runtime.block_on(calls()),
        "bare" => runtime.block_on(bare()),
        "idle" => runtime.block_on(idle()),
        other => panic!("`{other}` is nothing that can be measured"),
    };
    for figure in figures {
        println!("{figure}");
    }
    // The sleeping calls are not waited for.
    std::process::exit(0);
}

async fn calls() -> Vec<f64> {
    let plugins =
        [guests::ECHO, guests::SLEEP_AN_HOUR].map(|guest| (guest.name.to_owned(), guest.bytes()));
    let approved = json!({"approval": "auto"});
    let config = json!({"limits": {"concurrent": CALLS}, "tools": {"echo": approved, "sleep_an_hour": approved}});
    let subject: &'static Subject =
        Box::leak(Box::new(Subject::with_plugins(plugins, config).await));
    // The first call loads the code, and then ends: one-time costs are not part of a call.
    subject.call("echo", json!({})).await;
    let first = tokio::time::timeout(
        Duration::from_millis(100),
        subject.call("sleep_an_hour", json!({})),
    );
    assert!(first.await.is_err(), "it sleeps");
    let before = resident().unwrap();
    for _ in 0..CALLS {
        tokio::spawn(subject.call("sleep_an_hour", json!({})));
    }
    tokio::time::sleep(SETTLE).await;
    vec![(resident().unwrap() - before) / CALLS as f64]
}

async fn bare() -> Vec<f64> {
    let bare: &'static Bare = Box::leak(Box::new(Bare::new(guests::SLEEP_AN_HOUR.path)));
    let first = tokio::time::timeout(Duration::from_millis(100), bare.call("sleep_an_hour", "{}"));
    assert!(first.await.is_err(), "it sleeps");
    let before = resident().unwrap();
    for _ in 0..CALLS {
        tokio::spawn(bare.call("sleep_an_hour", "{}"));
    }
    tokio::time::sleep(SETTLE).await;
    vec![(resident().unwrap() - before) / CALLS as f64]
}

async fn idle() -> Vec<f64> {
    // Every long-running command of mimir does this, too.
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).unwrap();
    let plugins = (0..PLUGINS).map(|number| (format!("plan_{number}"), list::plugin(number)));
    let subject = Subject::with_plugins(plugins, json!({})).await;
    let world = subject.pipeline().snapshot();
    let plans = world
        .registry
        .tools()
        .iter()
        .filter(|tool| tool.definition.name.as_str().starts_with("plan_"));
    assert_eq!(plans.count(), PLUGINS);
    let loaded = resident().unwrap();
    let arguments =
        json!({"title": "t", "steps": ["one", "two"], "pace": "fast", "limit": 3, "strict": true});
    subject.call("plan_7", arguments).await;
    vec![loaded, resident().unwrap()]
}

/// Resident memory of this process in bytes.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
