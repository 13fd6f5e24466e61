//! Rotation to the next file.

use super::*;

fn bench_with_small_files() -> Bench {
    let mut bench = Bench::new();
    bench.settings.max_bytes = 4096;
    bench.settings.keep = 1000;
    bench
}

fn segments(bench: &Bench) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(bench.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn rotation_continues_the_chain_and_limits_file_size() {
    let bench = bench_with_small_files();
    bench.write(100);
    let report = bench.report();
    assert!(report.ok && report.files > 4, "{report:?}");
    assert_eq!(report.findings, []);
    for path in segments(&bench) {
        // The last line of a file is the `rotated` event, which may exceed the size.
        assert!(fs::metadata(&path).unwrap().len() <= 4096 + 512);
    }
    let first = segments(&bench)[0].clone();
    fs::remove_file(first).unwrap();
    let faults = bench.faults();
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].0, faults[0].1), (ChainFault::Removed, Some(1)));
}

#[test]
fn rotation_deletes_old_files_and_records_it() {
    let mut bench = bench_with_small_files();
    bench.settings.keep = 2;
    bench.write(150);
    let report = bench.report();
    assert!(report.ok, "{report:?}");
    assert_eq!(report.files, 3);
    assert_eq!(bench.faults(), [(ChainFault::Dropped, None, None)]);
    assert!(report.first > Some(50) && report.head.seq > 150);
    // One file more than the log records is missing.
    fs::remove_file(&segments(&bench)[0]).unwrap();
    assert!(
        bench
            .faults()
            .iter()
            .any(|fault| fault.0 == ChainFault::Removed)
    );
}

#[test]
fn rotation_crash_at_any_step_loses_no_lines() {
    let bench = bench_with_small_files();
    bench.write(40);
    let full = segments(&bench)[0].clone();
    // A crash after the last line, before the file was renamed.
    let before = bench_with_small_files();
    fs::copy(&full, before.path()).unwrap();
    let last = AuditLog::at(before.path())
        .snapshot()
        .unwrap()
        .last(1)
        .unwrap();
    let entry = AuditEntry::read(&last[0]).unwrap();
    assert_eq!(entry.text("event"), "rotated");
    let head = format!(
        r#"{{"seq":{},"hash":"{}"}}"#,
        entry.seq(),
        LineHash::digest_line(&last[0])
    );
    fs::write(before.file("audit.head"), format!("{head:<127}\n")).unwrap();
    assert_eq!(before.faults(), []);
    before.write(1);
    assert_eq!(segments(&before).len(), 2);
    assert_eq!(before.faults(), []);
    // A crash after the file was renamed, before the next one existed.
    let after = bench_with_small_files();
    fs::copy(&full, after.file(&entry.text("subject"))).unwrap();
    fs::write(after.file("audit.head"), format!("{head:<127}\n")).unwrap();
    assert_eq!(after.faults(), []);
    after.write(1);
    assert_eq!(after.faults(), []);
    assert_eq!(after.report().head.seq, entry.seq() + 1);
}

#[test]
fn rotation_does_not_overwrite_an_existing_file() {
    let bench = bench_with_small_files();
    let log = bench.open();
    let mut count = 0;
    while bench.report().files < 2 {
        log.record(&event(count)).unwrap();
        count += 1;
    }
    // An equal number of lines, written again.
    let twin = bench_with_small_files();
    let log = twin.open();
    let full = segments(&bench)[0].file_name().unwrap().to_owned();
    fs::write(twin.folder.path().join(&full), "mine").unwrap();
    let failed = (0..count).find_map(|number| log.record(&event(number)).err());
    assert!(failed.unwrap().to_string().contains("already exists"));
    assert_eq!(
        fs::read_to_string(twin.folder.path().join(&full)).unwrap(),
        "mine"
    );
}

#[test]
fn rotation_is_followed_by_readers() {
    let bench = bench_with_small_files();
    let log = AuditLog::at(bench.path());
    let mut follower = LogFollower::after(&log, log.snapshot().unwrap()).unwrap();
    assert_eq!(follower.poll().unwrap(), Vec::<Vec<u8>>::new());
    let mut followed = vec![];
    for burst in [1, 2, 60, 1, 90, 7] {
        bench.write(burst);
        loop {
            let lines = follower.poll().unwrap();
            if lines.is_empty() {
                break;
            }
            followed.extend(
                lines
                    .iter()
                    .map(|line| AuditEntry::read(line).unwrap().seq()),
            );
        }
    }
    let last = bench.report().head.seq;
    assert_eq!(followed, (1..=last).collect::<Vec<_>>());
    let snapshot = log.snapshot().unwrap();
    let lines = snapshot.last(50).unwrap();
    let lines: Vec<_> = lines
        .iter()
        .map(|line| AuditEntry::read(line).unwrap().seq())
        .collect();
    assert_eq!(lines, (last - 49..=last).collect::<Vec<_>>());
    // Only later lines are followed.
    let mut follower = LogFollower::after(&log, snapshot).unwrap();
    bench.write(1);
    let lines = follower.poll().unwrap();
    assert_eq!(AuditEntry::read(&lines[0]).unwrap().seq(), last + 1);
}
