mod processes;
mod recovery;
mod rotation;
mod tampering;
mod together;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use mimir_core::config::{AuditDurability, AuditSettings};

/// A log in a temporary folder.
struct Bench {
    folder: TempDir,
    settings: AuditSettings,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings: AuditSettings::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.file("audit.jsonl")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> FileAuditSink {
        FileAuditSink::new(self.path(), self.settings)
    }

    /// Writes this number of events with a new writer.
    fn write(&self, count: u64) {
        let log = self.open();
        for number in 0..count {
            log.record(&event(number)).unwrap();
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn write_lines(&self, lines: &[String]) {
        fs::write(self.path(), lines.join("\n") + "\n").unwrap();
    }

    fn report(&self) -> VerifyReport {
        verify(&AuditLog::at(self.path()).snapshot().unwrap(), None, None).unwrap()
    }

    /// Returns the findings: kind, line in the file, and number in the log.
    fn faults(&self) -> Vec<(ChainFault, Option<u64>, Option<u64>)> {
        let report = self.report();
        let findings = report.findings.iter();
        findings
            .map(|finding| (finding.fault, finding.line, finding.seq))
            .collect()
    }

    /// Returns the events in all files.
    fn events(&self) -> Vec<AuditEntry> {
        let mut events = vec![];
        let snapshot = AuditLog::at(self.path()).snapshot().unwrap();
        let read = snapshot.lines(|line| {
            events.extend(AuditEntry::read(line.bytes));
            std::ops::ControlFlow::Continue(())
        });
        read.unwrap();
        events
    }
}

fn event(number: u64) -> AuditEvent {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(number);
    AuditEvent::new(EventKind::Call, time)
        .with_tool("echo")
        .with_subject(&number.to_string())
}

#[test]
fn verify_accepts_a_log_and_a_noted_head() {
    let bench = Bench::new();
    assert!(bench.report().ok);
    bench.write(3);
    let noted = bench.report().head;
    bench.write(2);
    let report = bench.report();
    assert_eq!((report.ok, report.lines, report.head.seq), (true, 5, 5));
    assert_eq!(report.findings, []);
    let snapshot = AuditLog::at(bench.path()).snapshot().unwrap();
    for hash in [noted.hash.as_str(), &noted.hash.as_str()[..16]] {
        let report = verify(&snapshot, Some(hash), None).unwrap();
        assert_eq!((report.ok, report.noted), (true, Some(3)));
    }
    let other = verify(&snapshot, Some(&"0123".repeat(16)), None).unwrap();
    assert_eq!(other.findings[0].fault, ChainFault::NotNoted);
    assert!(!other.ok);
}

/// Runs the script from the crate documentation.
#[test]
#[cfg(unix)]
fn verify_works_with_the_documented_shell_script() {
    let source = include_str!("lib.rs");
    let script: String = source
        .split("```")
        .nth(1)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.trim_start_matches("//!").to_owned() + "\n")
        .collect();
    let bench = Bench::new();
    bench.write(20);
    let run = || {
        let run = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(bench.folder.path())
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    };
    assert_eq!(run(), "");
    let mut lines = bench.lines();
    lines[9] = lines[9].replace("echo", "evil");
    bench.write_lines(&lines);
    assert!(run().contains("\"seq\":11,"), "{}", run());
}

#[test]
fn verify_accepts_a_clock_that_goes_back() {
    let bench = Bench::new();
    let log = bench.open();
    for number in [50, 10, 90, 0] {
        log.record(&event(number)).unwrap();
    }
    assert_eq!(bench.report().findings, []);
}

#[test]
fn events_of_each_kind_are_recorded() {
    let bench = Bench::new();
    let log = bench.open();
    for kind in EventKind::ALL {
        let event = AuditEvent::new(kind, SystemTime::UNIX_EPOCH)
            .with_subject("x")
            .with_detail(&"long ".repeat(1000));
        assert_eq!(log.record(&event).is_err(), kind.is_own(), "{kind}");
    }
    for (entry, kind) in bench.events().iter().zip(EventKind::ALL) {
        assert_eq!(entry.text("event"), kind.as_str());
        assert_eq!(entry.text("detail").len(), 1000);
        assert_eq!(entry.value()["time"], "1970-01-01T00:00:00.000Z");
        assert!(entry.value().get("tool").is_none() && entry.value().get("id").is_none());
    }
    assert!(bench.report().ok);
}

#[test]
fn durability_fsync_records_calls_across_rotation() {
    let mut bench = Bench::new();
    bench.settings.durability = AuditDurability::Fsync;
    bench.settings.max_bytes = 4096;
    let log = bench.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|number| log.record(&event(number)).unwrap()));
        }
    });
    let report = bench.report();
    assert!(report.ok && report.files > 2, "{report:?}");
    let calls = bench.events();
    let calls = calls.iter().filter(|entry| entry.text("event") == "call");
    assert_eq!(calls.count(), 100);
}

#[test]
#[cfg(unix)]
fn log_files_are_private_and_symlinks_are_rejected() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let bench = Bench::new();
    bench.open().ready().unwrap();
    bench.write(1);
    for name in ["audit.jsonl", "audit.head", "audit.reserve"] {
        let mode = fs::metadata(bench.file(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let bench = Bench::new();
        symlink("/dev/null", bench.file(name)).unwrap();
        let refused = bench.open().ready().unwrap_err();
        assert!(refused.to_string().contains("is a link"), "{refused}");
    }
}
