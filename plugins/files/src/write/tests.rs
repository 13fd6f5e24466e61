use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn tool(path: &str, content: &str) -> WriteFile {
    WriteFile {
        path: path.into(),
        content: content.into(),
        backup: true,
        ..WriteFile::default()
    }
}

#[test]
fn write_creates_a_new_file_with_its_folders() {
    let workspace = Workspace::new();
    let mut tool = tool("a/b/c.txt", "hé");
    tool.create_dirs = true;
    let written = tool.run(&workspace.cx()).unwrap();
    assert_eq!(written.text, "Created a/b/c.txt (3 bytes)");
    assert!(written.value.created && written.value.size == 3);
    assert_eq!(workspace.text("a/b/c.txt"), "hé");
    assert_eq!(written.value.backup.as_deref(), Some("test-request"));
}

#[test]
fn write_replaces_the_file() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let written = tool("a.txt", "new!").run(&workspace.cx()).unwrap();
    assert_eq!(written.text, "Replaced a.txt (4 bytes, before 3 bytes)");
    assert!(!written.value.created);
    assert_eq!(workspace.text("a.txt"), "new!");
    let unchanged = tool("a.txt", "new!").run(&workspace.cx()).unwrap();
    assert_eq!(unchanged.value.backup, None, "nothing has changed");
}

#[test]
fn write_with_backup_false_names_no_record() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let written = WriteFile {
        backup: false,
        ..tool("a.txt", "new")
    }
    .run(&workspace.cx())
    .unwrap();
    assert_eq!(written.value.backup, None);
}

#[test]
fn write_decodes_base64_to_bytes() {
    let workspace = Workspace::new();
    let bytes = WriteFile {
        encoding: Encoding::Base64,
        ..tool("b", "//4A")
    };
    bytes.run(&workspace.cx()).unwrap();
    assert_eq!(
        std::fs::read(workspace.root().join("b")).unwrap(),
        [0xff, 0xfe, 0]
    );
    let broken = WriteFile {
        encoding: Encoding::Base64,
        ..tool("c", "no base64!")
    };
    assert_eq!(
        *broken.run(&workspace.cx()).unwrap_err().code(),
        Code::InvalidInput
    );
    assert!(!workspace.has("c"));
}

#[test]
fn write_failures_have_a_code_and_change_nothing() {
    let workspace = Workspace::with(&[("dir/a.txt", "x"), ("file", "x")]);
    for (path, code) in [
        ("new/a.txt", Code::FileNotFound),
        ("dir", Code::InvalidInput),
        ("dir/", Code::InvalidPath),
        ("file/a.txt", Code::InvalidPath),
        ("../a.txt", Code::InvalidPath),
    ] {
        assert_eq!(
            *tool(path, "new").run(&workspace.cx()).unwrap_err().code(),
            code,
            "{path}"
        );
    }
    assert!(!workspace.has("new"));
}

#[cfg(unix)]
#[test]
fn write_through_a_link_changes_its_target() {
    let workspace = Workspace::with(&[("real.txt", "old")]);
    std::os::unix::fs::symlink("real.txt", workspace.root().join("link.txt")).unwrap();
    let written = tool("link.txt", "new").run(&workspace.cx()).unwrap();
    assert_eq!(written.value.path, "real.txt");
    assert_eq!(workspace.text("real.txt"), "new");
    assert!(workspace.root().join("link.txt").is_symlink());
}

#[test]
fn write_asks_only_when_overwriting() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    assert_eq!(
        tool("b.txt", "x").assess(&workspace.cx()).approval(),
        Approval::Allow
    );
    let overwrite = tool("a.txt", "x").assess(&workspace.cx());
    assert_eq!(
        (overwrite.approval(), overwrite.summary()),
        (Approval::Ask, "overwrites a.txt (3 bytes)")
    );
    assert!(overwrite.risks().is_empty());
    let bare = WriteFile {
        backup: false,
        ..tool("a.txt", "x")
    }
    .assess(&workspace.cx());
    assert_eq!(bare.risks().len(), 1);
}

#[test]
fn write_failure_removes_the_folders_it_created() {
    let workspace = Workspace::with(&[("there/a", "")]);
    let location = |path| WorkspacePath::new(&workspace.cx(), path).unwrap();
    let missing = [location("there/b"), location("there/b/c")];
    let failed = with_new_folders(&missing, || Err(Error::permission_denied("no")));
    assert!(failed.is_err() && !workspace.has("there/b") && workspace.has("there/a"));
    // It removes only the folders that it made, and no files of others.
    let failed = with_new_folders(&missing, || {
        workspace.put("there/b/theirs", b"");
        Err(Error::permission_denied("no"))
    });
    assert!(failed.is_err() && workspace.has("there/b/theirs"));
    assert!(!workspace.has("there/b/c"));
    let failed = with_new_folders(&missing, || Ok(()));
    assert!(
        failed.is_err() && workspace.has("there/b/theirs"),
        "it was there"
    );
}
