//! A disk that becomes full in the middle of a write. A file size limit simulates it: the system fails writes beyond
//! the limit with an error, as it would for a full disk.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes 12 MB with a file size limit of 8 MB: enough for the engine, whose memory images are files too.
fn write_too_much(home: &Path, path: &str) -> Output {
    let mut child = Command::new("sh")
        // The signal that would end the process is ignored, so that the write fails with an error.
        .args(["-c", "trap '' XFSZ; ulimit -f 16384; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_mimir"))
        .args(["call", "write_file", "-", "--approve", "always"])
        .current_dir(home.join("work"))
        .env("MIMIR_CONFIG_DIR", home.join("config"))
        .env("MIMIR_CACHE_DIR", home.join("cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let arguments = serde_json::json!({"path": path, "content": "x".repeat(12 << 20)});
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(arguments.to_string().as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn disk_write_over_the_limit_leaves_no_partial_file() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("old.txt"), "as it was").unwrap();
    for path in ["old.txt", "new.txt"] {
        let output = write_too_much(home.path(), path);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(
            text.contains(path)
                && text.contains("[LIMIT_EXCEEDED]")
                && text.contains("maximum size that the system allows"),
            "{text}"
        );
    }
    assert_eq!(
        fs::read_to_string(work.join("old.txt")).unwrap(),
        "as it was"
    );
    let left = fs::read_dir(&work).unwrap();
    let mut names: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".mimir", "old.txt"], "nothing half-written is left");
}

/// Runs a script that may mount, as root of its own namespace. `None` if the system does not allow that, so that
/// nothing can be tested.
fn mounting(home: &Path, script: &str) -> Option<Output> {
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount"])
            .args(args);
        command
    };
    let probe = unshare(&["mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("not tested: this system does not allow mounting");
        return None;
    }
    let output = unshare(&["sh", "-eu", "-c", script])
        .current_dir(home.join("work"))
        .env("MIMIR", env!("CARGO_BIN_EXE_mimir"))
        .env("MIMIR_CONFIG_DIR", home.join("config"))
        .env(
            "MIMIR_CACHE_DIR",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    Some(output)
}

/// The disk of the audit log is full, and that of the workspace is not: each call that was made is logged, and a call
/// that cannot be logged is not made.
#[test]
fn disk_full_for_the_audit_log_refuses_calls() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir_all(work.join(".mimir/state")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=128k none .mimir/state
        # What the tool itself keeps has room.
        mkdir ../backups .mimir/state/backups
        mount --bind ../backups .mimir/state/backups
        write() { "$MIMIR" call write_file "path=$1.txt" content=x --approve always >/dev/null 2>"$1.err"; }
        write first
        cat /dev/zero > .mimir/state/filling 2>/dev/null || true
        made=1
        while write "$made"; do made=$((made + 1)); test "$made" -lt 400; done
        "$MIMIR" audit verify >&2
        grep -c '"ok":true' .mimir/state/audit.jsonl
        echo "$made"
        mkdir -p ../config
        echo 'audit: {onFailure: run}' > ../config/config.yml
        cat /dev/zero > .mimir/state/more 2>/dev/null || true
        # What is left of the last block of the log has room for some.
        for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
            rm -f unrecorded.txt
            write unrecorded
            if grep -q 'not recorded' unrecorded.err; then break; fi
        done
        rm ../config/config.yml .mimir/state/filling .mimir/state/more
        write again
        "$MIMIR" audit verify >&2
    "#;
    let Some(output) = mounting(home.path(), script) else {
        return;
    };
    let out = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<usize> = out.lines().map(|line| line.parse().unwrap()).collect();
    let (recorded, made) = (numbers[0], numbers[1]);
    // One before the disk was full, and those that fit into the reserve.
    assert_eq!(recorded, made, "{out}");
    assert!(made > 1);
    for number in 1..made {
        assert!(work.join(format!("{number}.txt")).exists());
    }
    assert!(!work.join(format!("{made}.txt")).exists());
    let text = fs::read_to_string(work.join(format!("{made}.err"))).unwrap();
    assert!(
        text.contains("was not made")
            && text.contains("free some space")
            && text.contains("audit.onFailure: run"),
        "{text}"
    );
    let text = fs::read_to_string(work.join("unrecorded.err")).unwrap();
    assert!(text.contains("not recorded"), "{text}");
    assert!(work.join("unrecorded.txt").exists() && work.join("again.txt").exists());
}

#[test]
fn audit_folder_read_only_refuses_calls_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir_all(work.join(".mimir/state")).unwrap();
    let script = r#"
        mount --bind .mimir .mimir
        mount -o remount,bind,ro .mimir
        code=0
        "$MIMIR" call write_file path=a.txt content=x --approve always 2>refused || code=$?
        "$MIMIR" doctor > doctor || true
        "$MIMIR" audit verify
        echo "$code"
    "#;
    let Some(output) = mounting(home.path(), script) else {
        return;
    };
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out, "The log is empty.\n1\n");
    let text = fs::read_to_string(work.join("refused")).unwrap();
    assert!(
        text.contains("audit.jsonl cannot be written") && text.contains("make its folder writable"),
        "{text}"
    );
    assert!(!work.join("a.txt").exists());
    let doctor = fs::read_to_string(work.join("doctor")).unwrap();
    assert!(doctor.contains("✗ audit"), "{doctor}");
}
