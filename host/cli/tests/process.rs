//! The binary as a shell sees it: exit codes, streams, pipes.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A run in a folder of its own, with no settings and without the cache of the person who runs the tests.
fn mimir(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mimir"));
    command
        .args(args)
        .current_dir(home)
        // Not below the workspace: a folder that holds mimir's own files is none.
        .env("MIMIR_CONFIG_DIR", "/nonexistent/config")
        // Shared, so that the built-in tools are compiled once.
        .env(
            "MIMIR_CACHE_DIR",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"),
        )
        .env_remove("MIMIR_LOG")
        .stdin(Stdio::null());
    command
}

fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = mimir(home, args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn a_folder_with_mimirs_own_files_is_no_workspace() {
    let home = tempfile::tempdir().unwrap();
    for (variable, place) in [
        ("MIMIR_CONFIG_DIR", "config"),
        ("MIMIR_CACHE_DIR", ".cache/x"),
    ] {
        let mut command = mimir(home.path(), &["tools", "list"]);
        command.env(variable, home.path().join(place));
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}");
        assert!(err.contains("cannot be a workspace"), "{err}");
    }
}

#[test]
fn no_arguments_is_help_and_slips_are_usage() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &[]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage: mimir") && err.is_empty());
    for bad in [
        &["nonsense"][..],
        &["call"],
        &["call", "t", "x"],
        &["-C", "missing", "tools"],
    ] {
        let (code, out, err) = run(home.path(), bad);
        assert_eq!(code, 2, "{bad:?}");
        assert!(
            out.is_empty() && err.starts_with("error:"),
            "{bad:?}: {out} {err}"
        );
    }
}

#[test]
fn results_go_to_stdout_and_the_rest_to_stderr() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &["call", "no_such_tool"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("[NOT_FOUND]"), "{err}");
    let (code, out, err) = run(home.path(), &["call", "no_such_tool", "--json"]);
    assert_eq!((code, err.as_str()), (2, ""));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&value["ok"], &value["error"]["code"]),
        (&false.into(), &"NOT_FOUND".into())
    );
}

#[test]
fn a_broken_config_stops_everything_but_doctor() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(
        home.path().join(".mimir/config.yml"),
        "profile: fine\npolcy: {}\n",
    )
    .unwrap();
    let (code, _, err) = run(home.path(), &["tools", "list"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("config.yml:2:1:") && err.contains("Did you mean `policy`?"),
        "{err}"
    );
    let (code, out, _) = run(home.path(), &["doctor"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("✗ config") && out.contains("✓ engine") | out.contains("! engine"),
        "{out}"
    );
}

#[test]
fn a_cache_that_cannot_be_used_is_told_once_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(home.path().join("file"), "in the way").unwrap();
    let run = |args: &[&str]| {
        let mut command = mimir(&work, args);
        command.env("MIMIR_CACHE_DIR", home.path().join("file/cache"));
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, err) = run(&["call", "file_info", "path=."]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("MIMIR_CACHE_DIR"), "{err}");
    let (code, out, _) = run(&["doctor"]);
    assert_eq!(code, Some(1));
    assert!(
        out.contains("✗ cache") && out.contains("MIMIR_CACHE_DIR"),
        "{out}"
    );
}

#[test]
fn a_relative_place_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut command = mimir(home.path(), &["tools", "list"]);
    let output = command.env("MIMIR_CACHE_DIR", "cache").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("MIMIR_CACHE_DIR is not used"), "{err}");
    assert!(!home.path().join("cache").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let mut child = mimir(home.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_new_plugin_is_written_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("a folder/wörd");
    let dir = dir.to_str().unwrap();
    let (code, out, _) = run(home.path(), &["tools", "new", "word-count", "--dir", dir]);
    assert_eq!(code, 0);
    assert!(out.contains("`word_count`"), "{out}");
    let source = fs::read_to_string(Path::new(dir).join("src/lib.rs")).unwrap();
    assert!(
        source.contains("struct WordCount") && source.lines().count() <= 15,
        "{source}"
    );
    let (code, _, err) = run(home.path(), &["tools", "new", "word-count", "--dir", dir]);
    assert_eq!(code, 2);
    assert!(err.contains("[ALREADY_EXISTS]"), "{err}");
}

#[test]
fn a_state_folder_is_kept_out_of_commits() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &["call", "no_such_tool"]);
    let state = home.path().join(".mimir/state");
    assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
    assert_eq!(
        fs::read_to_string(state.join("audit.jsonl"))
            .unwrap()
            .lines()
            .count(),
        1
    );
}
