use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn tool(path: &str, recursive: bool) -> DeleteFile {
    DeleteFile {
        path: path.into(),
        recursive,
        backup: true,
    }
}

#[test]
fn a_deleted_file_is_kept() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let deleted = tool("a.txt", false).run(&workspace.cx()).unwrap();
    assert_eq!(
        (deleted.text.as_str(), &deleted.value.deleted[..]),
        ("Deleted a.txt", &["a.txt".to_owned()][..])
    );
    assert!(!workspace.has("a.txt"));
    let change = &workspace.record().changes[0];
    assert_eq!(
        (workspace.kept(&change.before), &change.after),
        (b"old".to_vec(), &State::Absent)
    );
}

#[test]
fn a_directory_goes_only_if_asked_for_and_is_recorded_in_order() {
    let workspace = Workspace::with(&[("d/a", "1"), ("d/e/b", "2")]);
    let error = tool("d", false).run(&workspace.cx()).unwrap_err();
    assert!(
        error.message().contains("2 entries") && error.message().contains("recursive"),
        "{error}"
    );
    let deleted = tool("d", true).run(&workspace.cx()).unwrap();
    assert_eq!(deleted.value.deleted, ["d/a", "d/e/b", "d/e", "d"]);
    assert!(!workspace.has("d"));
    let changes = workspace.record().changes;
    assert_eq!(changes.last().unwrap().before, State::Directory);
    assert_eq!(workspace.kept(&changes[1].before), b"2");
}

#[test]
fn an_empty_directory_needs_no_word() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.root().join("empty")).unwrap();
    tool("empty", false).run(&workspace.cx()).unwrap();
    assert!(!workspace.has("empty"));
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_named_keeps_its_folder_whole() {
    use std::os::unix::ffi::OsStrExt;
    let workspace = Workspace::with(&[("d/a", "1"), ("d/e/b", "2"), ("d/z", "3")]);
    let odd = std::ffi::OsStr::from_bytes(b"d/e/\xff");
    std::fs::write(workspace.root().join(odd), "").unwrap();
    for backup in [true, false] {
        let tool = DeleteFile {
            backup,
            ..tool("d", true)
        };
        let error = tool.run(&workspace.cx()).unwrap_err();
        assert_eq!(*error.code(), Code::Unavailable);
        assert!(error.message().contains("d/e/\u{fffd}"), "{error}");
    }
    assert!(
        ["d/a", "d/e/b", "d/z"]
            .iter()
            .all(|path| workspace.has(path))
    );
}

#[cfg(unix)]
#[test]
fn a_link_is_kept_wherever_it_points() {
    let workspace = Workspace::with(&[("venv/a", "1")]);
    let link = workspace.root().join("venv/python");
    std::os::unix::fs::symlink("/usr/bin/python3", link).unwrap();
    tool("venv", true).run(&workspace.cx()).unwrap();
    let target = "/usr/bin/python3".to_owned();
    assert_eq!(workspace.record().changes[1].before, State::Link { target });
}

#[cfg(unix)]
#[test]
fn a_link_goes_and_not_what_it_points_to() {
    let workspace = Workspace::with(&[("d/a", "1")]);
    std::os::unix::fs::symlink("d", workspace.root().join("link")).unwrap();
    tool("link", true).run(&workspace.cx()).unwrap();
    assert!(workspace.has("d/a") && !workspace.has("link"));
    assert_eq!(
        workspace.record().changes[0].before,
        State::Link { target: "d".into() }
    );
}

#[test]
fn what_cannot_be_deleted_has_a_code() {
    let workspace = Workspace::with(&[("a", "")]);
    for (path, code) in [
        (".", Code::InvalidPath),
        ("b", Code::FileNotFound),
        ("../x", Code::InvalidPath),
    ] {
        assert_eq!(
            *tool(path, true).run(&workspace.cx()).unwrap_err().code(),
            code,
            "{path}"
        );
    }
}

#[test]
fn a_failure_in_the_middle_keeps_what_went_undoable() {
    let workspace = Workspace::with(&[("d/a", "1"), ("d/b", "2")]);
    let place = |path| Place::new(&workspace.cx(), path).unwrap();
    let mut backup = Backup::begin(&workspace.cx(), "delete_file", None).unwrap();
    let victims = [(place("d/a"), Kind::File), (place("d"), Kind::Directory)];
    for (place, kind) in &victims {
        backup
            .as_mut()
            .unwrap()
            .change(place, Some(*kind), State::Absent)
            .unwrap();
    }
    let error = remove(&victims, &mut backup).unwrap_err();
    assert_eq!(error.details().unwrap()["deleted"][0], "d/a");
    assert_eq!(workspace.record().changes.len(), 1);
}

#[test]
fn deleting_always_asks_and_says_how_much() {
    let workspace = Workspace::with(&[("d/a", "1"), ("d/b", "22"), ("c.txt", "333")]);
    let assess = |path| tool(path, true).assess(&workspace.cx());
    assert_eq!(assess("d").summary(), "deletes d with 2 entries in it");
    assert_eq!(assess("c.txt").summary(), "deletes c.txt (3 bytes)");
    assert!(
        [assess("d"), assess("nowhere")]
            .iter()
            .all(|a| a.approval() == Approval::Ask)
    );
}

#[test]
fn what_is_too_much_to_keep_stays() {
    let workspace = Workspace::new();
    let big = std::fs::File::create(workspace.root().join("big")).unwrap();
    big.set_len(crate::backup::BYTES_MAX + 1).unwrap();
    let error = tool("big", false).run(&workspace.cx()).unwrap_err();
    assert_eq!(*error.code(), Code::LimitExceeded);
    assert!(
        workspace.has("big") && error.message().contains("backup: false"),
        "{error}"
    );
    let kept = workspace.root().join(crate::backup::FOLDER);
    assert_eq!(
        std::fs::read_dir(kept).unwrap().count(),
        0,
        "nothing half-made stays"
    );
    let bare = DeleteFile {
        path: "big".into(),
        recursive: false,
        backup: false,
    };
    assert_eq!(bare.run(&workspace.cx()).unwrap().value.backup, None);
    assert!(!workspace.has("big"));
}
