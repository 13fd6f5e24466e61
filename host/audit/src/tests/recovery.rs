//! Recovery after crashes, and after files were removed.

use std::io::Write;

use super::*;

fn append_bytes(bench: &Bench, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(bench.path())
        .unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn recovery_records_a_torn_line_and_continues() {
    for rest in [&b"{\"time\":\"20"[..], b"\n", b"{}\n{\"time\"", &[0; 5000]] {
        let bench = Bench::new();
        bench.write(3);
        append_bytes(&bench, rest);
        if !rest.ends_with(b"\n") {
            let report = bench.report();
            assert!(report.ok, "{report:?}");
            assert_eq!(bench.faults(), [(ChainFault::Torn, Some(4), None)]);
            assert_eq!((report.lines, report.head.seq), (3, 3));
        }
        bench.write(2);
        let report = bench.report();
        assert!(report.ok, "{report:?}");
        assert_eq!(bench.faults(), [(ChainFault::Torn, Some(4), None)]);
        assert_eq!((report.lines, report.head.seq), (6, 6));
        let events = bench.events();
        assert_eq!(events[3].text("event"), "recovered");
        assert_eq!(events[3].value()["tornBytes"], rest.len());
    }
}

#[test]
fn recovery_accepts_a_line_without_its_newline() {
    for count in [1, 3] {
        let bench = Bench::new();
        bench.write(count);
        // The state after a crash before the head was written.
        let head = fs::read(bench.file("audit.head")).unwrap();
        bench.write(1);
        let text = fs::read_to_string(bench.path()).unwrap();
        fs::write(bench.path(), text.trim_end()).unwrap();
        fs::write(bench.file("audit.head"), head).unwrap();
        assert_eq!(bench.faults(), [(ChainFault::Torn, Some(count + 1), None)]);
        bench.write(1);
        assert_eq!(bench.faults(), []);
        assert_eq!(bench.report().lines, count + 3);
    }
}

#[test]
fn recovery_torn_bytes_changed_later_are_a_fault() {
    let bench = Bench::new();
    bench.write(3);
    append_bytes(&bench, b"{\"time\":\"20");
    bench.write(1);
    let mut lines = bench.lines();
    lines[3] = "{\"time\":\"21".to_owned();
    bench.write_lines(&lines);
    assert_eq!(bench.faults(), [(ChainFault::Inserted, Some(4), None)]);
}

#[test]
fn recovery_of_a_head_behind_is_not_a_fault() {
    let bench = Bench::new();
    bench.write(3);
    let head = fs::read(bench.file("audit.head")).unwrap();
    bench.write(16);
    fs::write(bench.file("audit.head"), head).unwrap();
    assert_eq!(bench.faults(), [(ChainFault::Behind, None, Some(3))]);
    assert!(bench.report().ok);
    bench.write(1);
    assert_eq!(bench.faults(), []);
    assert_eq!(bench.events()[19].text("event"), "recovered");
}

#[test]
fn recovery_without_a_valid_head_remains_a_fault() {
    for content in [None, Some("nonsense"), Some("")] {
        let bench = Bench::new();
        bench.write(3);
        match content {
            None => fs::remove_file(bench.file("audit.head")).unwrap(),
            Some(content) => fs::write(bench.file("audit.head"), content).unwrap(),
        }
        assert_eq!(bench.faults(), [(ChainFault::Headless, None, None)]);
        bench.write(1);
        assert_eq!(bench.faults(), [(ChainFault::Headless, Some(4), Some(4))]);
        let events = bench.events();
        assert!(events[3].text("detail").contains("audit.head was"));
    }
}

#[test]
fn recovery_of_a_removed_log_leaves_a_gap() {
    let bench = Bench::new();
    bench.write(3);
    fs::remove_file(bench.path()).unwrap();
    assert_eq!(bench.faults(), [(ChainFault::Truncated, None, Some(1))]);
    bench.write(1);
    assert_eq!(bench.faults(), [(ChainFault::Removed, Some(1), Some(1))]);
    let report = bench.report();
    assert_eq!((report.lines, report.head.seq), (2, 5));
}

#[test]
fn recovery_recreates_a_log_removed_while_open() {
    let bench = Bench::new();
    let log = bench.open();
    log.record(&event(0)).unwrap();
    fs::remove_dir_all(bench.folder.path()).unwrap();
    for number in 0..100 {
        log.record(&event(number)).unwrap();
    }
    let report = bench.report();
    assert!(report.lines > 60, "{report:?}");
}

#[test]
fn recovery_appends_after_foreign_content() {
    let bench = Bench::new();
    fs::write(bench.path(), "old line\nanother\n").unwrap();
    bench.write(2);
    let lines = bench.lines();
    assert_eq!((lines[0].as_str(), lines.len()), ("old line", 5));
    let report = bench.report();
    assert!(report.ok && report.lines == 3, "{report:?}");
    assert_eq!(bench.faults(), [(ChainFault::Torn, Some(1), None)]);
}

#[test]
fn unwritable_log_refuses_calls_unless_configured() {
    let mut bench = Bench::new();
    let other = bench.file("not a folder");
    fs::write(&other, "").unwrap();
    let log = |settings| FileAuditSink::new(other.join("audit.jsonl"), settings);
    let refused = log(bench.settings).ready().unwrap_err().to_string();
    assert!(refused.contains("audit.onFailure: run"), "{refused}");
    assert!(log(bench.settings).record(&event(0)).is_err());
    bench.settings.on_failure = mimir_core::config::AuditFailureMode::Run;
    log(bench.settings).ready().unwrap();
    log(bench.settings).record(&event(0)).unwrap();
}

#[test]
fn head_lags_by_a_limited_number_of_lines() {
    let bench = Bench::new();
    let log = bench.open();
    let head_lag = |lines: u64| {
        let head = fs::read(bench.file("audit.head")).unwrap();
        lines - LogHead::decode(&head).unwrap().seq
    };
    // All events have the same time.
    for lines in 1..=40 {
        log.record(&event(0)).unwrap();
        assert!(head_lag(lines) < 16, "{lines}");
        assert!(bench.report().ok && bench.faults().is_empty());
    }
    assert!(head_lag(40) > 0, "the head is not written for each event");
    // An event after a pause updates the head at once, and so does the end.
    log.record(&event(1_000)).unwrap();
    assert_eq!(head_lag(41), 0);
    log.record(&event(1_000)).unwrap();
    assert_eq!(head_lag(42), 1);
    drop(log);
    assert_eq!(head_lag(42), 0);
}

#[test]
fn log_is_reopened_under_the_lock_after_another_writer() {
    let bench = Bench::new();
    let log = bench.open();
    for _ in 0..3 {
        log.record(&event(0)).unwrap();
    }
    // The first writer has to open the log again, because another one has continued it.
    bench.write(2);
    log.record(&event(0)).unwrap();
    assert_eq!(bench.faults(), []);
    assert_eq!(bench.report().lines, 6);
}

#[test]
fn truncation_is_detected_while_the_head_lags() {
    for continues in [true, false] {
        let bench = Bench::new();
        let log = bench.open();
        for _ in 0..5 {
            log.record(&event(0)).unwrap();
        }
        let mut lines = bench.lines();
        lines.truncate(3);
        bench.write_lines(&lines);
        if continues {
            log.record(&event(0)).unwrap();
        }
        drop(log);
        let faults = bench.faults();
        let truncated =
            |fault: &ChainFault| matches!(fault, ChainFault::Truncated | ChainFault::Removed);
        assert!(
            faults.iter().any(|(fault, ..)| truncated(fault)),
            "{faults:?}"
        );
    }
}
