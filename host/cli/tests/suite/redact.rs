//! `mimir redact` in a shell.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use crate::kit::{mimir, run};

const TOKEN: &str = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";

/// Runs the command on this input in a temporary folder: exit code and stdout.
fn redact(args: &[&str], input: &[u8]) -> (i32, Vec<u8>) {
    piped(
        tempfile::tempdir().unwrap().path(),
        &[&["redact"], args].concat(),
        input,
    )
}

/// Runs a command on this input.
fn piped(home: &Path, args: &[&str], input: &[u8]) -> (i32, Vec<u8>) {
    let mut child = mimir(home, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (output.status.code().unwrap(), output.stdout)
}

#[test]
fn redact_masks_stdin_and_keeps_other_bytes() {
    let mut input = b"\xff\xfe raw \x00 bytes\r\n".to_vec();
    input.extend_from_slice(format!("t={TOKEN}\nno line end").as_bytes());
    let mut wanted = b"\xff\xfe raw \x00 bytes\r\n".to_vec();
    wanted.extend_from_slice(b"t=[REDACTED:github-pat]\nno line end");
    assert_eq!(redact(&[], &input), (0, wanted));
    assert_eq!(redact(&[], b""), (0, vec![]));
}

#[test]
fn redact_json_lists_positions() {
    let (code, out) = redact(&["--json"], format!("t={TOKEN}\n").as_bytes());
    let out: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        out,
        serde_json::json!({"findings": [{"rule": "github-pat", "start": 2, "end": 2 + TOKEN.len()}]})
    );
    let (_, out) = redact(&["--json"], b"nothing");
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&out).unwrap(),
        serde_json::json!({"findings": []})
    );
}

#[test]
fn redact_rules_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, _) = run(home.path(), &["redact", "--rules"]);
    assert_eq!(code, 0);
    assert!(
        out.lines().any(|line| line == "github-pat")
            && out.lines().any(|line| line == "key:password")
    );
}

#[test]
fn redact_masks_input_larger_than_its_buffer() {
    let mut input = Vec::new();
    while input.len() < 6 << 20 {
        input.extend_from_slice(b"a line like any other, of which there are many\n");
        if input.len() % 4099 < 47 {
            input.extend_from_slice(TOKEN.as_bytes());
            input.push(b'\n');
        }
    }
    let secrets = String::from_utf8_lossy(&input).matches(TOKEN).count();
    let (code, out) = redact(&[], &input);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        (
            out.matches(TOKEN).count(),
            out.matches("[REDACTED:github-pat]").count()
        ),
        (0, secrets)
    );
}

#[test]
fn redact_streams_line_by_line() {
    let home = tempfile::tempdir().unwrap();
    let mut child = mimir(home.path(), &["redact"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut read = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    stdin.write_all(b"first line\n").unwrap();
    assert_eq!(read(), "first line\n");
    // An incomplete line waits for its end.
    stdin.write_all(b"t=ghp_8aZq2WvX7kTyR4n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    stdin
        .write_all(b"J6mPcL1sD9fGhB3eU5oKi\nand nothing else of interest in this line\n")
        .unwrap();
    assert_eq!(read(), "t=[REDACTED:github-pat]\n");
    drop(stdin);
    assert_eq!(read(), "and nothing else of interest in this line\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn redact_masks_stored_secrets() {
    let home = tempfile::tempdir().unwrap();
    let (code, _) = piped(
        home.path(),
        &["secrets", "set", "DEPLOY", "--file"],
        b"correct horse battery",
    );
    assert_eq!(code, 0);
    let (code, out) = piped(
        home.path(),
        &["redact"],
        b"it is Y29ycmVjdCBob3JzZSBiYXR0ZXJ5\n",
    );
    assert_eq!(
        (code, String::from_utf8(out).unwrap()),
        (0, "it is [REDACTED:secret:DEPLOY]\n".to_owned())
    );
}
