//! Non-empty directories, and files that are moved to the backups instead of removed.

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

/// The workspace, and a folder in the state like that of the file tools.
fn with_backups() -> World {
    World::with(64, |ws| {
        fs::create_dir(ws.join(".mimir/state/backups")).expect("a directory");
        let backups = GuestMount {
            rules: PathRules::none(),
            ..mount(ws, ".mimir/state/backups", DirectoryAccess::ReadWrite)
        };
        vec![mount(ws, "", DirectoryAccess::ReadWrite), backups]
    })
}

fn set_aside(world: &mut World, from: &str, to: &str) -> Done<()> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let backups = Resource::new_borrow(world.roots[1].rep());
    world.run(async |mut view, root| view.rename_at(root, from, backups, to).await)
}

#[test]
fn backup_move_keeps_permissions() {
    let mut world = with_backups();
    fs::create_dir(world.host("empty")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        for (path, mode) in [("src/main.rs", 0o751), ("empty", 0o750)] {
            fs::set_permissions(world.host(path), fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    let before = ["src/main.rs", "empty"].map(|path| {
        let meta = fs::metadata(world.host(path)).unwrap();
        meta.permissions()
    });
    set_aside(&mut world, "src/main.rs", "file").unwrap();
    set_aside(&mut world, "empty", "folder").unwrap();
    let after = ["file", "folder"].map(|name| {
        let path = world.host(&format!(".mimir/state/backups/{name}"));
        fs::metadata(path).unwrap().permissions()
    });
    assert_eq!(after, before);
    assert!(!world.host("src/main.rs").exists() && !world.host("empty").exists());
}

#[test]
fn backup_move_takes_no_protected_file_and_replaces_none() {
    let mut world = with_backups();
    let cases = [
        (".env", "x", ErrorCode::NotPermitted),
        (".git/config", "x", ErrorCode::NotPermitted),
        (".mimir/config.yml", "x", ErrorCode::NotPermitted),
        // Not empty, though it seems to be.
        ("sub", "x", ErrorCode::CrossDevice),
        ("src", "x", ErrorCode::CrossDevice),
        ("src/main.rs", "there", ErrorCode::Exist),
        ("src/main.rs", "../audit.jsonl", ErrorCode::NotPermitted),
    ];
    fs::write(world.host(".mimir/state/backups/there"), "kept").unwrap();
    for (from, to, expected) in cases {
        assert_eq!(
            set_aside(&mut world, from, to).err(),
            Some(expected),
            "{from} {to}"
        );
    }
    assert!(world.host("src/main.rs").exists() && world.host("sub/.env").exists());
    let kept = fs::read_to_string(world.host(".mimir/state/backups/there"));
    assert_eq!(kept.unwrap(), "kept");
}
