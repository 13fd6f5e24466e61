//! Several concurrent writers, in threads and in processes.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

/// Environment variable with the task of a child process: path, event count and file size.
const PATH: &str = "MIMIR_AUDIT_TEST_PATH";
const COUNT: &str = "MIMIR_AUDIT_TEST_COUNT";
const SIZE: &str = "MIMIR_AUDIT_TEST_SIZE";

/// The child process of [`start`].
#[test]
#[ignore = "started as a child process by other tests"]
fn writer() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let settings = AuditSettings {
        max_bytes: number(SIZE),
        keep: 10_000,
        ..AuditSettings::default()
    };
    let log = FileAuditSink::new(path, settings);
    for count in 0..number(COUNT) {
        log.ready().unwrap();
        log.record(&event(count)).unwrap();
    }
}

fn start(bench: &Bench, count: u64, size: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::processes::writer", "--ignored"])
        .env(PATH, bench.path())
        .env(COUNT, count.to_string())
        .env(SIZE, size.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn run(bench: &Bench, processes: u64, count: u64, size: u64) {
    let children: Vec<_> = (0..processes).map(|_| start(bench, count, size)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn processes_writing_ten_thousand_calls_verify() {
    let bench = Bench::new();
    run(&bench, 8, 1250, 16 << 20);
    let report = bench.report();
    assert_eq!((report.lines, report.head.seq), (10_000, 10_000));
    assert_eq!(report.findings, []);
}

#[test]
fn processes_rotating_at_once_lose_no_lines() {
    let bench = Bench::new();
    run(&bench, 4, 250, 4096);
    let report = bench.report();
    assert_eq!(report.findings, []);
    assert!(report.files > 30, "{} files", report.files);
    let events = bench.events();
    let count_of = |kind: EventKind| {
        events
            .iter()
            .filter(|e| e.text("event") == kind.as_str())
            .count()
    };
    assert_eq!(
        (count_of(EventKind::Call), count_of(EventKind::Rotated)),
        (1000, report.files - 1)
    );
}

#[test]
fn threads_and_two_logs_share_a_file() {
    let bench = Bench::new();
    let logs = [bench.open(), bench.open()];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &logs[thread % 2];
            scope.spawn(move || (0..250).for_each(|n| log.record(&event(n)).unwrap()));
        }
    });
    let report = bench.report();
    assert_eq!((report.lines, report.findings), (1000, vec![]));
}

#[test]
fn processes_killed_while_writing_leave_a_valid_log() {
    let bench = Bench::new();
    for round in 0..5 {
        let mut children = [(); 2].map(|()| start(&bench, u64::MAX, 64 << 10));
        let start_time = Instant::now();
        // Cheaper than counting.
        let lines = || {
            let head = fs::read_to_string(bench.file("audit.head")).unwrap_or_default();
            let seq = head.split([':', ',']).nth(1);
            seq.and_then(|seq| seq.parse().ok()).unwrap_or(0_u64)
        };
        let before = lines();
        // The processes are killed while they write, not while they start.
        while lines() < before + 50 && start_time.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1 + round));
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    bench.write(1);
    let report = bench.report();
    assert!(report.ok, "{:#?}", report.findings);
    assert!(report.lines > 5 * 50);
}
