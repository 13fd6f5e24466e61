//! The records that the host makes of changes by the file tools.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_testkit::{Testkit, Value, json};

use super::{done, fails, kit};

/// The record of a result.
fn record(kit: &Testkit, result: &Value) -> Value {
    let id = result["backup"].as_str().expect("a record");
    let path = kit.path().join(format!(".mimir/state/backups/{id}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Each change as path, old state and new state; a backed-up file by its content.
fn changes(kit: &Testkit, record: &Value) -> Vec<(String, String, String)> {
    let state = |state: &Value| match state["backup"].as_str() {
        Some(copy) => {
            fs::read_to_string(kit.path().join(".mimir/state/backups").join(copy)).unwrap()
        }
        None => match state["target"].as_str() {
            Some(target) => format!("-> {target}"),
            None => state["kind"].as_str().unwrap().to_owned(),
        },
    };
    let all = record["changes"].as_array().unwrap().iter();
    all.map(|one| {
        let path = one["path"].as_str().unwrap().to_owned();
        (path, state(&one["before"]), state(&one["after"]))
    })
    .collect()
}

fn expected(all: &[[&str; 3]]) -> Vec<(String, String, String)> {
    let own = |[path, before, after]: &[&str; 3]| {
        (
            (*path).to_owned(),
            (*before).to_owned(),
            (*after).to_owned(),
        )
    };
    all.iter().map(own).collect()
}

/// The names in the folder of the backups.
fn backups(kit: &Testkit) -> Vec<String> {
    let entries = fs::read_dir(kit.path().join(".mimir/state/backups"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// The only record, of a call whose result names none.
fn only_record(kit: &Testkit) -> Value {
    let names = backups(kit);
    assert_eq!(names.len(), 1, "a record without copies: {names:?}");
    let path = kit.path().join(".mimir/state/backups").join(&names[0]);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn undo_record_has_new_files_with_their_folders() {
    let kit = kit();
    let arguments = json!({"path": "a/b/c.txt", "content": "new", "createDirs": true});
    let written = done(&kit, "write_file", arguments);
    let record = record(&kit, &written);
    assert_eq!(record["tool"], "write_file");
    assert_eq!(
        changes(&kit, &record),
        expected(&[
            ["a", "absent", "directory"],
            ["a/b", "absent", "directory"],
            ["a/b/c.txt", "absent", "file"],
        ])
    );
}

#[test]
fn undo_record_has_the_replaced_content() {
    let kit = kit().workspace(|root| fs::write(root.join("a.txt"), "old").unwrap());
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "new"})),
        (
            "edit_file",
            json!({"path": "a.txt", "pattern": "new", "replacement": "newer"}),
        ),
        (
            "file_operations",
            json!({"operation": "write", "path": "a.txt", "content": "last"}),
        ),
    ] {
        let old = fs::read_to_string(kit.path().join("a.txt")).unwrap();
        let result = done(&kit, tool, arguments);
        let result = result.get("result").unwrap_or(&result);
        let record = record(&kit, result);
        assert_eq!(
            changes(&kit, &record),
            expected(&[["a.txt", &old, "file"]]),
            "{tool}"
        );
    }
    let count = backups(&kit).len();
    let same = json!({"path": "a.txt", "content": "last"});
    let written = done(&kit, "write_file", same);
    assert_eq!(written["backup"], json!(null), "nothing has changed");
    assert_eq!(backups(&kit).len(), count);
}

#[test]
fn undo_record_of_a_declined_backup_has_only_the_paths() {
    let kit = kit().workspace(|root| {
        fs::create_dir_all(root.join("d")).unwrap();
        fs::write(root.join("d/a.txt"), "old").unwrap();
    });
    let write = json!({"path": "d/a.txt", "content": "new", "backup": false});
    let written = done(&kit, "write_file", write);
    assert_eq!(written["backup"], json!(null));
    let record = only_record(&kit);
    assert_eq!(record["changes"], json!([]));
    assert_eq!(record["unkept"]["paths"], json!(["d/a.txt"]));
    let why = record["unkept"]["why"].as_str().unwrap();
    assert!(why.contains("backup: false"), "{why}");
}

#[test]
#[cfg(unix)]
fn undo_record_has_what_is_deleted() {
    let kit = kit().workspace(|root| {
        fs::create_dir_all(root.join("d/e")).unwrap();
        fs::write(root.join("d/a"), "1").unwrap();
        fs::write(root.join("d/e/b"), "2").unwrap();
        std::os::unix::fs::symlink("/usr/bin/python3", root.join("d/link")).unwrap();
    });
    let arguments = json!({"path": "d", "recursive": true});
    let deleted = done(&kit, "delete_file", arguments);
    let mut changes = changes(&kit, &record(&kit, &deleted));
    changes.sort();
    assert_eq!(
        changes,
        expected(&[
            ["d", "directory", "absent"],
            ["d/a", "1", "absent"],
            ["d/e", "directory", "absent"],
            ["d/e/b", "2", "absent"],
            ["d/link", "-> /usr/bin/python3", "absent"],
        ])
    );
}

#[test]
fn undo_record_has_both_sides_of_a_move() {
    let kit = kit().workspace(|root| {
        fs::create_dir_all(root.join("d/e")).unwrap();
        for (path, text) in [("d/e/a", "1"), ("d/b", "2"), ("f", "3"), ("g", "4")] {
            fs::write(root.join(path), text).unwrap();
        }
    });
    let arguments = json!({"from": "d", "to": "x/y", "createDirs": true});
    let moved = done(&kit, "move_file", arguments);
    assert_eq!(
        changes(&kit, &record(&kit, &moved)),
        expected(&[
            ["x", "absent", "directory"],
            ["d/e/a", "1", "absent"],
            ["d/e", "directory", "absent"],
            ["d/b", "2", "absent"],
            ["d", "directory", "absent"],
            ["x/y", "absent", "directory"],
            ["x/y/b", "absent", "file"],
            ["x/y/e", "absent", "directory"],
            ["x/y/e/a", "absent", "file"],
        ])
    );
    let arguments = json!({"from": "f", "to": "g", "overwrite": true});
    let moved = done(&kit, "move_file", arguments);
    assert_eq!(
        changes(&kit, &record(&kit, &moved)),
        expected(&[["f", "3", "absent"], ["g", "4", "file"]])
    );
}

#[test]
fn undo_record_of_a_failure_is_removed() {
    let kit = kit().workspace(|root| {
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/a"), "1").unwrap();
        let big = fs::File::create(root.join("d/big")).unwrap();
        big.set_len((100 << 20) + 1).unwrap();
    });
    let write = json!({"path": "d/big", "content": "small"});
    let delete = json!({"path": "d", "recursive": true});
    for (tool, arguments) in [("write_file", write), ("delete_file", delete.clone())] {
        let error = fails(&kit, tool, arguments, ToolErrorCode::LimitExceeded);
        assert!(error.message.contains("backup: false"), "{error}");
        assert_eq!(backups(&kit), [""; 0], "{tool}");
        assert_eq!(fs::read_to_string(kit.path().join("d/a")).unwrap(), "1");
        assert_eq!(fs::read_dir(kit.path().join("d")).unwrap().count(), 2);
    }
    let mut delete = delete;
    delete["backup"] = json!(false);
    let deleted = done(&kit, "delete_file", delete);
    assert_eq!(deleted["backup"], json!(null));
    assert!(!kit.path().join("d").exists());
}

#[test]
fn undo_record_of_a_large_move_has_only_the_paths() {
    let kit = kit().workspace(|root| {
        fs::create_dir(root.join("d")).unwrap();
        let big = fs::File::create(root.join("d/big")).unwrap();
        big.set_len((64 << 20) + 1).unwrap();
    });
    let arguments = json!({"from": "d", "to": "e"});
    let outcome = kit.call("move_file", arguments);
    assert!(
        outcome.text().contains("`mimir undo` cannot"),
        "{}",
        outcome.text()
    );
    let record = only_record(&kit);
    assert_eq!(record["changes"], json!([]));
    assert_eq!(record["unkept"]["paths"], json!(["d", "e"]));
}

#[test]
fn undo_records_are_out_of_reach() {
    let kit = kit();
    done(&kit, "write_file", json!({"path": "a", "content": "x"}));
    for path in [
        ".mimir/state/backups/x.json",
        ".MIMIR/State/backups/x",
        ".mimir/./state/x/../backups/1.json",
    ] {
        let read = json!({"path": path});
        let write = json!({"path": path, "content": "x"});
        let moved = json!({"from": "a", "to": path});
        for (tool, arguments) in [
            ("read_file", read.clone()),
            ("write_file", write),
            ("move_file", moved),
            ("delete_file", read),
        ] {
            fails(&kit, tool, arguments, ToolErrorCode::PermissionDenied);
        }
    }
    assert_eq!(backups(&kit).len(), 1);
}
