//! Non-empty directories.

use super::*;

#[test]
fn remove_dir_with_a_protected_entry_is_refused() {
    let mut world = World::new();
    fs::create_dir_all(world.host("x/y/repo/.git/hooks")).unwrap();
    fs::create_dir_all(world.host("x/w")).unwrap();
    fs::write(world.host("x/w/.git"), "gitdir: elsewhere").unwrap();
    for (path, why) in [
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
        assert_eq!(world.rmdir(path).err(), Some(ErrorCode::NotPermitted));
        let told = world.last_refusal();
        assert!(told.starts_with(why), "{path}: {told}");
        // The name of the hidden file is not revealed.
        assert!(
            !told.contains("key") && !told.contains("sub/.env"),
            "{told}"
        );
    }
}

#[test]
fn remove_dir_without_protected_entries_is_not_empty() {
    let mut world = World::new();
    fs::create_dir(world.host("src/.git")).unwrap();
    fs::write(world.host("src/.git/HEAD"), "ref").unwrap();
    assert_eq!(world.rmdir("src").err(), Some(ErrorCode::NotEmpty));
    assert!(world.host("src/deep/er.rs").exists() && world.fs.refusals().is_empty());
}
