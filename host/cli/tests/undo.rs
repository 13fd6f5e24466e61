//! `mimir undo` after real calls: what it says, what it refuses, and what is on record.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A workspace with a file that a tool has overwritten.
fn changed() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "old").unwrap();
    let write = ["call", "write_file", "path=a.txt", "content=new"];
    let (code, _, err) = run(
        home.path(),
        &[&write[..], &["--approve", "always"]].concat(),
    );
    assert_eq!(code, 0, "{err}");
    let backups = fs::read_dir(home.path().join(".mimir/state/backups")).unwrap();
    let mut records = backups
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    let record = records.next().unwrap();
    (home, record)
}

fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_mimir"))
        .args(args)
        .current_dir(home)
        .env("MIMIR_CONFIG_DIR", "/nonexistent/config")
        .env(
            "MIMIR_CACHE_DIR",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"),
        )
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn content(home: &Path) -> String {
    fs::read_to_string(home.join("a.txt")).unwrap()
}

/// The last line of the record of calls.
fn last_event(home: &Path) -> Value {
    let log = fs::read_to_string(home.join(".mimir/state/audit.jsonl")).unwrap();
    serde_json::from_str(log.lines().last().unwrap()).unwrap()
}

#[test]
fn the_newest_change_is_taken_back_named_and_recorded() {
    let (home, record) = changed();
    let id = record.file_stem().unwrap().to_str().unwrap().to_owned();
    let (code, out, err) = run(home.path(), &["undo"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(content(home.path()), "old");
    for part in ["write_file", &id, "second", "restored a.txt"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let event = last_event(home.path());
    assert_eq!(
        (&event["event"], &event["id"], &event["tool"], &event["ok"]),
        (
            &"undo".into(),
            &id.as_str().into(),
            &"write_file".into(),
            &true.into()
        )
    );
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 1 && err.contains("nothing to take back"), "{err}");
}

#[test]
fn an_old_change_is_named_and_waits_for_a_word() {
    for word in ["--yes", "ID"] {
        let (home, path) = changed();
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["time"] = "2020-01-01T00:00:00.000Z".into();
        fs::write(&path, record.to_string()).unwrap();
        let id = record["id"].as_str().unwrap();
        let (code, out, err) = run(home.path(), &["undo"]);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        for part in ["a.txt", "write_file", "days old", id, "--yes"] {
            assert!(err.contains(part), "{part}: {err}");
        }
        assert_eq!(content(home.path()), "new");
        let word = if word == "ID" { id } else { word };
        let (code, _, err) = run(home.path(), &["undo", word]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(content(home.path()), "old");
    }
}

#[test]
fn what_stands_in_the_way_is_refused_and_recorded() {
    let (home, _) = changed();
    fs::write(home.path().join("a.txt"), "mine").unwrap();
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 3 && err.contains("[ALREADY_EXISTS]"), "{err}");
    assert_eq!(content(home.path()), "mine");
    let event = last_event(home.path());
    assert_eq!(
        (&event["event"], &event["ok"], &event["code"]),
        (&"undo".into(), &false.into(), &"ALREADY_EXISTS".into())
    );
}

#[test]
#[cfg(unix)]
fn what_cannot_be_recorded_is_not_done() {
    let (home, _) = changed();
    let log = home.path().join(".mimir/state/audit.jsonl");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 1 && err.contains("[UNAVAILABLE]"), "{err}");
    assert_eq!(content(home.path()), "new");
}

#[test]
#[cfg(unix)]
fn a_folder_with_links_comes_back_as_it_was() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir_all(root.join("app/.venv/bin")).unwrap();
    fs::write(root.join("app/.venv/pyvenv.cfg"), "home = /usr/bin").unwrap();
    symlink("/usr/bin/python3", root.join("app/.venv/bin/python")).unwrap();
    symlink("python", root.join("app/.venv/bin/python3")).unwrap();
    for call in [
        &["delete_file", "path=app", "recursive=true"][..],
        &["move_file", "from=app/.venv", "to=venv"],
    ] {
        let (code, _, err) = run(root, &[&["call", "--approve", "always"], call].concat());
        assert_eq!(code, 0, "{err}");
        assert!(!root.join("app/.venv").exists(), "{call:?}");
        let (code, _, err) = run(root, &["undo"]);
        assert_eq!(code, 0, "{err}");
        assert!(!root.join("venv").exists());
        let link = |name: &str| fs::read_link(root.join("app/.venv/bin").join(name)).unwrap();
        assert_eq!(link("python"), Path::new("/usr/bin/python3"));
        assert_eq!(link("python3"), Path::new("python"));
        assert_eq!(
            fs::read_to_string(root.join("app/.venv/pyvenv.cfg")).unwrap(),
            "home = /usr/bin"
        );
    }
}
