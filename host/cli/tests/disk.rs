//! A disk that is full in the middle of a write. A limit on the size of files stands in for the disk: the
//! system answers what goes beyond it with an error, as it would a full disk.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes 12 MB where files may have at most 8: enough for the engine, whose memory images are files too.
fn write_too_much(home: &Path, path: &str) -> Output {
    let mut child = Command::new("sh")
        // The signal that would end the process is ignored, so that the error is what is left.
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
fn a_full_disk_leaves_nothing_half_written() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("old.txt"), "as it was").unwrap();
    for path in ["old.txt", "new.txt"] {
        let output = write_too_much(home.path(), path);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(
            said.contains(path)
                && said.contains("[LIMIT_EXCEEDED]")
                && said.contains("larger file"),
            "{said}"
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
