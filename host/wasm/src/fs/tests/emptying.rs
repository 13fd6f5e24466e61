//! Non-empty directories.

use super::*;

#[test]
fn remove_dir_with_a_protected_entry_is_refused() {
    let mut workspace = TestWorkspace::new();
    fs::create_dir_all(workspace.host("x/y/repo/.git/hooks")).unwrap();
    fs::create_dir_all(workspace.host("x/w")).unwrap();
    fs::write(workspace.host("x/w/.git"), "gitdir: elsewhere").unwrap();
    for (path, refusal_prefix) in [
        (
            "sub",
            "`sub` contains or would contain a path protected by the rule `*.env`",
        ),
        (
            "a",
            "`a` contains or would contain a path protected by the rule `a/secrets`",
        ),
        (".git", "`.git/"),
        ("x/y", "`x/y/repo/.git/hooks` is read-only"),
        ("x/w", "`x/w/.git` is read-only"),
    ] {
        assert_eq!(workspace.rmdir(path).err(), Some(ErrorCode::NotPermitted));
        let refusal = workspace.last_refusal();
        assert!(refusal.starts_with(refusal_prefix), "{path}: {refusal}");
        // The name of the hidden file is not revealed.
        assert!(
            !refusal.contains("key") && !refusal.contains("sub/.env"),
            "{refusal}"
        );
    }
}

#[test]
fn remove_dir_without_protected_entries_is_not_empty() {
    let mut workspace = TestWorkspace::new();
    fs::create_dir(workspace.host("src/.git")).unwrap();
    fs::write(workspace.host("src/.git/HEAD"), "ref").unwrap();
    assert_eq!(workspace.rmdir("src").err(), Some(ErrorCode::NotEmpty));
    assert!(workspace.host("src/deep/er.rs").exists() && workspace.fs.refusals().is_empty());
}
