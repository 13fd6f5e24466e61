#![cfg(unix)]

use super::*;
use std::os::unix::fs::PermissionsExt;

fn mode(workspace: &TestWorkspace, path: &str) -> u32 {
    let meta = fs::symlink_metadata(workspace.host(path)).expect("a file");
    meta.permissions().mode() & 0o7777
}

fn set(workspace: &TestWorkspace, path: &str, mode: u32) {
    fs::set_permissions(workspace.host(path), fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn mode_of_the_replaced_file_is_preserved() {
    let mut workspace = TestWorkspace::new();
    for old in [0o755, 0o600, 0o640, 0o444] {
        set(&workspace, "a/open.txt", old);
        workspace.write("a/new.tmp", "new").unwrap();
        set(&workspace, "a/new.tmp", 0o644);
        workspace.rename("a/new.tmp", "a/open.txt").unwrap();
        assert_eq!(mode(&workspace, "a/open.txt"), old, "{old:o}");
        assert_eq!(workspace.read("a/open.txt").unwrap(), "new");
    }
}

#[test]
fn mode_never_gains_setuid_or_wider_access() {
    let mut workspace = TestWorkspace::new();
    set(&workspace, "a/open.txt", 0o4755);
    workspace.write("new", "new").unwrap();
    set(&workspace, "new", 0o644);
    workspace.rename("new", "a/open.txt").unwrap();
    assert_eq!(mode(&workspace, "a/open.txt"), 0o755);
    // A file accessible to its owner only stays so.
    workspace.write("own", "own").unwrap();
    set(&workspace, "own", 0o600);
    workspace.rename("own", "a/open.txt").unwrap();
    assert_eq!(mode(&workspace, "a/open.txt"), 0o700);
}

#[test]
fn mode_is_unchanged_if_no_file_is_replaced() {
    let mut workspace = TestWorkspace::new();
    set(&workspace, "src/main.rs", 0o751);
    workspace.rename("src/main.rs", "main.rs").unwrap();
    assert_eq!(mode(&workspace, "main.rs"), 0o751);
    // Nor does a failed move, or one that replaces a link, whose own bits mean nothing.
    set(&workspace, "src/deep", 0o700);
    workspace.rename("main.rs", "src/deep").unwrap_err();
    assert_eq!(mode(&workspace, "main.rs"), 0o751);
    workspace.symlink("a/open.txt", "link").unwrap();
    workspace.rename("main.rs", "link").unwrap();
    assert_eq!(mode(&workspace, "link"), 0o751);
}

#[test]
fn mode_of_new_files_is_the_default() {
    let mut workspace = TestWorkspace::new();
    workspace.mkdir("dir").unwrap();
    workspace.write("file", "x").unwrap();
    fs::create_dir(workspace.host("dir-too")).unwrap();
    fs::write(workspace.host("file-too"), "x").unwrap();
    assert_eq!(mode(&workspace, "dir"), mode(&workspace, "dir-too"));
    assert_eq!(mode(&workspace, "file"), mode(&workspace, "file-too"));
}
