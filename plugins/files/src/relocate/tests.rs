use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn tool(from: &str, to: &str, overwrite: bool) -> MoveFile {
    MoveFile {
        from: from.into(),
        to: to.into(),
        overwrite,
        create_dirs: false,
    }
}

#[test]
fn move_renames_the_file() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let moved = tool("a.txt", "b.txt", false).run(&workspace.cx()).unwrap();
    assert_eq!(moved.text, "Moved a.txt to b.txt");
    assert!(!workspace.has("a.txt"));
    assert_eq!(workspace.text("b.txt"), "old");
    assert_eq!(moved.value.backup.as_deref(), Some("test-request"));
}

#[test]
fn move_replaces_a_file_only_with_overwrite() {
    let workspace = Workspace::with(&[("a.txt", "new"), ("b.txt", "old")]);
    let error = tool("a.txt", "b.txt", false)
        .run(&workspace.cx())
        .unwrap_err();
    assert_eq!(*error.code(), Code::AlreadyExists);
    assert!(
        tool("a.txt", "b.txt", true)
            .run(&workspace.cx())
            .unwrap()
            .value
            .overwrote
    );
    assert_eq!(workspace.text("b.txt"), "new");
}

#[test]
fn move_of_a_directory_moves_its_content() {
    let workspace = Workspace::with(&[("d/e/a", "1"), ("d/b", "2")]);
    let mut tool = tool("d", "x/y", false);
    assert_eq!(
        *tool.check_run(&workspace).unwrap_err().code(),
        Code::FileNotFound
    );
    tool.create_dirs = true;
    tool.check_run(&workspace).unwrap();
    assert_eq!(
        (workspace.text("x/y/e/a"), workspace.has("d")),
        ("1".to_owned(), false)
    );
}

impl MoveFile {
    fn check_run(&self, workspace: &Workspace) -> Result<Worded<Moved>> {
        let (from, to) = (self.from.clone(), self.to.clone());
        MoveFile { from, to, ..*self }.run(&workspace.cx())
    }
}

#[test]
fn move_failures_have_a_code_and_change_nothing() {
    let workspace = Workspace::with(&[("d/a", "1"), ("f", "2")]);
    for (from, to, code) in [
        ("nowhere", "x", Code::FileNotFound),
        ("d", "d/e", Code::InvalidInput),
        ("f", "./f", Code::InvalidInput),
        ("f", "d", Code::AlreadyExists),
        ("d", "f", Code::AlreadyExists),
        ("f", "../x", Code::InvalidPath),
        (".", "x", Code::InvalidPath),
    ] {
        assert_eq!(
            *tool(from, to, true)
                .run(&workspace.cx())
                .unwrap_err()
                .code(),
            code,
            "{from} to {to}"
        );
    }
    assert!(workspace.has("d/a") && workspace.has("f"));
}

#[test]
fn move_asks_only_when_overwriting() {
    let workspace = Workspace::with(&[("a", "1"), ("b", "22")]);
    let assess = |to, overwrite| tool("a", to, overwrite).assess(&workspace.cx());
    assert_eq!(assess("c", true).approval(), Approval::Allow);
    assert_eq!(
        assess("b", false).approval(),
        Approval::Allow,
        "it fails before it does anything"
    );
    let over = assess("b", true);
    assert_eq!(
        (over.approval(), over.summary()),
        (Approval::Ask, "moves a over b (2 bytes)")
    );
}

#[test]
fn move_too_large_for_backup_warns_and_never_overwrites() {
    let workspace = Workspace::with(&[("b.txt", "old")]);
    let big = std::fs::File::create(workspace.root().join("big")).unwrap();
    big.set_len(MAX_UNDO_BYTES + 1).unwrap();
    assert_eq!(
        *tool("big", "b.txt", true)
            .run(&workspace.cx())
            .unwrap_err()
            .code(),
        Code::LimitExceeded
    );
    assert_eq!(workspace.text("b.txt"), "old");
    let moved = tool("big", "c", false).run(&workspace.cx()).unwrap();
    assert_eq!(moved.value.backup, None);
    assert!(moved.text.contains("`mimir undo` cannot"), "{}", moved.text);
    assert!(workspace.has("c") && !workspace.has("big"));
}

#[cfg(target_os = "linux")]
#[test]
fn move_with_non_utf8_names_works_without_backup() {
    use std::os::unix::ffi::OsStrExt;
    let odd = |bytes: &'static [u8]| std::ffi::OsStr::from_bytes(bytes);
    for name in ["link", "file"] {
        let workspace = Workspace::with(&[("d/a", "1")]);
        let folder = workspace.root().join("d");
        match name {
            "link" => std::os::unix::fs::symlink(odd(b"\xff"), folder.join("l")).unwrap(),
            _ => std::fs::write(folder.join(odd(b"\xff")), "").unwrap(),
        }
        let moved = tool("d", "e", false).run(&workspace.cx()).unwrap();
        assert_eq!(moved.value.backup, None, "{name}");
        assert_eq!(
            std::fs::read_dir(workspace.root().join("e"))
                .unwrap()
                .count(),
            2
        );
    }
}
