//! Paths of Windows: drives, shares, streams, short names, devices, case, junctions.
#![cfg(windows)]

use super::*;

#[test]
fn windows_paths_that_name_something_else_are_refused() {
    let mut workspace = TestWorkspace::new();
    let absolute = workspace
        .home
        .path()
        .join("outside\\secret.txt")
        .display()
        .to_string();
    for path in [
        &absolute,
        "C:\\Windows\\win.ini",
        "C:/Windows/win.ini",
        "C:win.ini",
        "C:",
        "\\Windows",
        "\\\\server\\share\\x",
        "\\\\?\\C:\\Windows",
        "\\\\.\\pipe\\x",
        "..\\outside\\secret.txt",
        "src\\..\\..\\outside\\secret.txt",
        "src\\main.rs",
        ".GIT\\hooks\\pre-commit",
        "src/main.rs::$DATA",
        "src/main.rs:stream",
        ".env::$DATA",
        ".mimir:x",
        ".git::$INDEX_ALLOCATION/hooks",
        "GIT~1",
        "GIT~1/hooks/pre-commit",
        "MIMIR~1/config.yml",
        "ENV~1",
        "CON",
        "nul",
        "src/nul.txt",
        "src/COM1",
        "aux.rs",
        "lpt1 .txt",
        "src/com\u{b9}",
        ".env.",
        ".env ",
        ".git. ./hooks",
        "src/main.rs.",
        "src/new*",
        "src/new?",
        "src/\u{1}",
    ] {
        let done = all_operations(&mut workspace, path);
        assert_refused(&done, path);
        let refusal = workspace.last_refusal();
        let has_remedy = ["write ", "choose "]
            .iter()
            .any(|verb| refusal.contains(&format!("not usable as a path: {verb}")));
        assert!(has_remedy, "{path}: {refusal}");
    }
    assert_eq!(workspace.read("src/main.rs").unwrap(), "fn main() {}");
    assert_eq!(
        workspace.list("src").unwrap(),
        ["deep", "main.rs"],
        "nothing was made"
    );
}

#[test]
fn windows_names_in_another_case_have_the_same_rules() {
    let mut workspace = TestWorkspace::new();
    assert_eq!(workspace.read("SRC/Main.RS").unwrap(), "fn main() {}");
    for path in [
        ".ENV",
        "Sub/.Env",
        "A/Secrets/KEY",
        ".MIMIR/State/audit.jsonl",
    ] {
        assert_eq!(
            workspace.read(path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    for path in [
        ".GIT/Hooks/pre-commit",
        ".Git/CONFIG",
        ".Mimir/config.yml",
        ".MIMIR/tools/x.wasm",
    ] {
        assert_eq!(
            workspace.write(path, "x").err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    let moved = workspace.rename("src", ".GIT/Hooks");
    assert_eq!(moved.err(), Some(ErrorCode::NotPermitted));
}

/// Makes a junction, which needs no rights. Returns false on systems without them, such as wine 8.
fn make_junction(link: &Path, target: &Path) -> bool {
    let made = std::process::Command::new("cmd")
        .args(["/c", "mklink", "/J"])
        .args([link, target])
        .output();
    let exists = made.is_ok() && fs::symlink_metadata(link).is_ok_and(|meta| meta.is_symlink());
    if !exists {
        eprintln!("skipped: this system cannot create junctions");
    }
    exists
}

#[test]
fn windows_junctions_out_of_the_workspace_are_not_followed() {
    let mut workspace = TestWorkspace::new();
    let outside = workspace.home.path().join("outside");
    if !make_junction(&workspace.host("out"), &outside) {
        return;
    }
    for path in ["out/secret.txt", "out/new.txt", "src/../out/secret.txt"] {
        let done = all_operations(&mut workspace, path);
        assert_refused(&done, path);
    }
    assert_eq!(
        fs::read_to_string(outside.join("secret.txt")).unwrap(),
        SECRET
    );
    // A mount is not reached through one.
    let ws = workspace.host("");
    let error = GuardedFs::open(vec![mount(&ws, "out", DirectoryAccess::Read)], 1).unwrap_err();
    assert!(matches!(error, MountError::Link { .. }), "{error}");
    assert_eq!(
        real_path(&ws, "out/secret.txt"),
        mimir_core::backend::RealPath::Outside
    );
    // The link itself can be removed, without what it leads to.
    workspace.unlink("out").unwrap();
    assert!(outside.join("secret.txt").exists());
}
