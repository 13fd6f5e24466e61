//! Detection of manipulations of a log.

use super::*;

const LINES: u64 = 12;

fn tampered_bench(change: impl FnOnce(&mut Vec<String>)) -> Bench {
    let bench = Bench::new();
    bench.write(LINES);
    let mut lines = bench.lines();
    change(&mut lines);
    bench.write_lines(&lines);
    bench
}

/// A line with its number, linked to `prev`.
fn forged(seq: u64, prev: LineHash) -> String {
    format!(r#"{{"event":"call","tool":"evil","ok":true,"seq":{seq},"prev":"{prev}"}}"#)
}

#[test]
fn tampering_changed_line_is_reported() {
    let changed = |at: usize| tampered_bench(|lines| lines[at] = lines[at].replace("echo", "evil"));
    assert_eq!(
        changed(4).faults(),
        [(ChainFault::Changed, Some(5), Some(5))]
    );
    assert_eq!(
        changed(0).faults(),
        [(ChainFault::Changed, Some(1), Some(1))]
    );
    // Only the head follows the last line.
    let last = changed(LINES as usize - 1);
    assert_eq!(
        last.faults(),
        [(ChainFault::Changed, Some(LINES), Some(LINES))]
    );
    let renumbered =
        tampered_bench(|lines| lines[4] = lines[4].replace("\"seq\":5,", "\"seq\":50,"));
    assert!(
        renumbered
            .faults()
            .contains(&(ChainFault::Changed, Some(5), Some(5)))
    );
    let formless = tampered_bench(|lines| lines[4] = lines[4].replace("\"seq\":5,", ""));
    assert_eq!(formless.faults(), [(ChainFault::Changed, Some(5), Some(5))]);
    let formless = tampered_bench(|lines| lines[LINES as usize - 1].truncate(50));
    assert_eq!(
        formless.faults(),
        [(ChainFault::Changed, Some(LINES), Some(LINES))]
    );
}

#[test]
fn tampering_removed_lines_are_reported() {
    let faults = tampered_bench(|lines| drop(lines.remove(4))).faults();
    assert_eq!(faults, [(ChainFault::Removed, Some(5), Some(5))]);
    let bench = tampered_bench(|lines| drop(lines.drain(4..8)));
    assert_eq!(bench.faults(), [(ChainFault::Removed, Some(5), Some(5))]);
    assert!(bench.report().findings[0].text.contains("lines 5 to 8"));
    let faults = tampered_bench(|lines| drop(lines.drain(..3))).faults();
    assert_eq!(faults, [(ChainFault::Removed, Some(1), Some(1))]);
}

#[test]
fn tampering_truncation_is_reported() {
    for remaining in [0, 1, LINES as usize - 1] {
        let bench = tampered_bench(|lines| lines.truncate(remaining));
        if remaining == 0 {
            fs::write(bench.path(), "").unwrap();
        }
        let faults = bench.faults();
        assert_eq!(
            faults,
            [(ChainFault::Truncated, None, Some(remaining as u64 + 1))]
        );
    }
    // In the middle of the last line.
    let bench = tampered_bench(|_| ());
    let text = fs::read_to_string(bench.path()).unwrap();
    for cut in [1, 40] {
        fs::write(bench.path(), &text[..text.len() - cut]).unwrap();
        assert_eq!(
            bench.faults(),
            [(ChainFault::Truncated, Some(LINES), Some(LINES))]
        );
    }
}

#[test]
fn tampering_reordered_lines_are_reported() {
    let faults = tampered_bench(|lines| lines.swap(4, 5)).faults();
    assert_eq!(faults, [(ChainFault::Reordered, Some(6), Some(5))]);
    let faults = tampered_bench(|lines| {
        let line = lines.remove(2);
        lines.insert(8, line);
    })
    .faults();
    assert_eq!(faults, [(ChainFault::Reordered, Some(9), Some(3))]);
    let faults = tampered_bench(|lines| lines.reverse()).faults();
    assert_eq!(faults.len(), LINES as usize - 1);
    assert!(faults.iter().all(|fault| fault.0 == ChainFault::Reordered));
}

#[test]
fn tampering_inserted_lines_are_reported() {
    let copied = tampered_bench(|lines| lines.insert(7, lines[6].clone()));
    assert_eq!(copied.faults(), [(ChainFault::Inserted, Some(8), Some(7))]);
    let copied = tampered_bench(|lines| lines.insert(7, lines[1].clone()));
    assert_eq!(copied.faults(), [(ChainFault::Inserted, Some(8), Some(2))]);
    let foreign = tampered_bench(|lines| lines.insert(7, "{\"event\":\"call\"}".to_owned()));
    assert_eq!(foreign.faults(), [(ChainFault::Inserted, Some(8), None)]);
    // With the right number and linked to the previous line.
    let joined = tampered_bench(|lines| {
        lines.insert(7, forged(8, LineHash::digest_line(lines[6].as_bytes())))
    });
    assert_eq!(joined.faults(), [(ChainFault::Inserted, Some(8), Some(8))]);
    let at_the_end = tampered_bench(|lines| {
        let prev = LineHash::digest_line(lines[LINES as usize - 2].as_bytes());
        lines.insert(LINES as usize - 1, forged(LINES, prev));
    });
    let faults = at_the_end.faults();
    assert_eq!(faults, [(ChainFault::Inserted, Some(LINES), Some(LINES))]);
}

#[test]
fn tampering_rewritten_log_does_not_match_a_noted_hash() {
    let bench = Bench::new();
    bench.write(LINES);
    let noted = bench.report().head.hash;
    let mut tip = LineHash::ZERO;
    let lines: Vec<_> = (1..=LINES)
        .map(|seq| {
            let line = forged(seq, tip);
            tip = LineHash::digest_line(line.as_bytes());
            line
        })
        .collect();
    bench.write_lines(&lines);
    assert_eq!(
        bench.faults(),
        [(ChainFault::Changed, Some(LINES), Some(LINES))]
    );
    // With another head, these files alone do not show the change.
    let head = format!(r#"{{"seq":{LINES},"hash":"{tip}"}}"#);
    fs::write(bench.file("audit.head"), format!("{head:<127}\n")).unwrap();
    assert_eq!(bench.faults(), []);
    let snapshot = AuditLog::at(bench.path()).snapshot().unwrap();
    let report = verify(&snapshot, Some(noted.as_str()), None).unwrap();
    assert_eq!(report.findings[0].fault, ChainFault::NotNoted);
}

/// The findings against a last line that was stored earlier.
fn forgotten_faults(bench: &Bench, remembered: LogHead) -> Vec<(ChainFault, Option<u64>)> {
    let snapshot = AuditLog::at(bench.path()).snapshot().unwrap();
    let report = verify(&snapshot, None, Some(remembered)).unwrap();
    let findings = report.findings.iter();
    findings
        .map(|finding| (finding.fault, finding.seq))
        .filter(|(fault, _)| *fault == ChainFault::Forgotten)
        .collect()
}

#[test]
fn tampering_truncation_with_a_lost_head_remains_a_fault() {
    for remaining in [1, 3] {
        for content in [None, Some("nonsense"), Some("")] {
            let bench = Bench::new();
            bench.write(6);
            let remembered = bench.report().head;
            assert_eq!(forgotten_faults(&bench, remembered), []);
            let lines = bench.lines();
            bench.write_lines(&lines[..remaining]);
            match content {
                None => fs::remove_file(bench.file("audit.head")).unwrap(),
                Some(content) => fs::write(bench.file("audit.head"), content).unwrap(),
            }
            assert_eq!(bench.faults(), [(ChainFault::Headless, None, None)]);
            bench.write(6);
            // The finding names the line that records the lost head, and later lines do not hide it.
            let recorded_at = remaining as u64 + 1;
            assert_eq!(
                bench.faults(),
                [(ChainFault::Headless, Some(recorded_at), Some(recorded_at))]
            );
            bench.write(6);
            assert_eq!(
                bench.faults(),
                [(ChainFault::Headless, Some(recorded_at), Some(recorded_at))]
            );
            assert_eq!(
                forgotten_faults(&bench, remembered),
                [(ChainFault::Forgotten, Some(6))]
            );
        }
    }
}

#[test]
fn tampering_removed_log_is_detected_by_remembered_head() {
    let bench = Bench::new();
    bench.write(6);
    let remembered = bench.report().head;
    for file in ["audit.jsonl", "audit.head"] {
        fs::remove_file(bench.file(file)).unwrap();
    }
    assert_eq!(bench.faults(), []);
    assert_eq!(
        forgotten_faults(&bench, remembered),
        [(ChainFault::Forgotten, Some(1))]
    );
    let log = bench.open();
    log.record(&event(0)).unwrap();
    let (opened, current) = log.opened_and_current().unwrap();
    assert_eq!((opened.seq, current.seq), (0, 1));
    let snapshot = AuditLog::at(bench.path()).snapshot().unwrap();
    assert!(!snapshot.has_line(remembered).unwrap() && snapshot.has_line(current).unwrap());
    assert!(snapshot.has_line(opened).unwrap());
}

#[test]
fn crash_before_the_first_head_is_not_a_fault() {
    let bench = Bench::new();
    let log = bench.open();
    log.ready().unwrap();
    let head = fs::read(bench.file("audit.head")).unwrap();
    log.record(&event(0)).unwrap();
    fs::write(bench.file("audit.head"), head).unwrap();
    assert_eq!(bench.faults(), []);
    bench.write(1);
    assert_eq!(bench.faults(), []);
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn tampering_random_changes_are_detected() {
    let bench = Bench::new();
    bench.write(LINES);
    let original = fs::read(bench.path()).unwrap();
    let mut dice = Dice(7);
    for round in 0..500 {
        let mut bytes = original.clone();
        let at = dice.roll(bytes.len());
        let kind = dice.roll(5);
        match kind {
            0 => bytes[at] = bytes[at].wrapping_add(1 + dice.roll(255) as u8),
            1 => drop(bytes.drain(at..(at + 1 + dice.roll(900)).min(original.len()))),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, dice.roll(256) as u8),
            _ => {
                let from = dice.roll(at + 1);
                let copy = bytes[from..at].to_vec();
                bytes.splice(at..at, copy);
            }
        }
        if bytes == original {
            continue;
        }
        fs::write(bench.path(), &bytes).unwrap();
        let report = bench.report();
        // A crash leaves bytes without a line end after the last line; nothing was lost.
        let harmless = bytes.starts_with(&original) && !bytes.ends_with(b"\n");
        assert_eq!(
            report.ok, harmless,
            "round {round}, {kind} at {at}: {report:#?}"
        );
    }
}
