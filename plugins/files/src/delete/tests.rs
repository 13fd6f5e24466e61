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
fn delete_removes_the_file() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let deleted = tool("a.txt", false).run(&workspace.cx()).unwrap();
    assert_eq!(
        (deleted.text.as_str(), &deleted.value.deleted[..]),
        ("Deleted a.txt", &["a.txt".to_owned()][..])
    );
    assert!(!workspace.has("a.txt"));
    assert_eq!(deleted.value.backup.as_deref(), Some("test-request"));
}

#[test]
fn delete_of_a_directory_needs_recursive() {
    let workspace = Workspace::with(&[("d/a", "1"), ("d/e/b", "2")]);
    let error = tool("d", false).run(&workspace.cx()).unwrap_err();
    assert!(
        error.message().contains("2 entries") && error.message().contains("recursive"),
        "{error}"
    );
    let deleted = tool("d", true).run(&workspace.cx()).unwrap();
    assert_eq!(deleted.value.deleted, ["d/a", "d/e/b", "d/e", "d"]);
    assert!(!workspace.has("d"));
}

#[test]
fn delete_of_an_empty_directory_needs_no_recursive() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.root().join("empty")).unwrap();
    tool("empty", false).run(&workspace.cx()).unwrap();
    assert!(!workspace.has("empty"));
}

#[cfg(target_os = "linux")]
#[test]
fn delete_refuses_folders_with_non_utf8_names() {
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
fn delete_removes_a_link_and_not_its_target() {
    let workspace = Workspace::with(&[("d/a", "1")]);
    std::os::unix::fs::symlink("d", workspace.root().join("link")).unwrap();
    tool("link", true).run(&workspace.cx()).unwrap();
    assert!(workspace.has("d/a") && !workspace.has("link"));
}

#[test]
fn delete_failures_have_their_error_code() {
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
fn delete_failure_midway_names_what_was_deleted() {
    let workspace = Workspace::with(&[("d/a", "1"), ("d/b", "2")]);
    let location = |path| WorkspacePath::new(&workspace.cx(), path).unwrap();
    let targets = [
        (location("d/a"), Kind::File),
        (location("d"), Kind::Directory),
    ];
    let error = remove_all(&targets).unwrap_err();
    assert_eq!(error.details().unwrap()["deleted"][0], "d/a");
}

#[test]
fn delete_always_asks_with_the_amount() {
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
