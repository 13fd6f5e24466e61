use super::*;

#[test]
fn shielded_files_have_no_second_name() {
    let mut world = World::new();
    for from in [
        ".env",
        "sub/.env",
        "a/secrets/key",
        ".mimir/config.yml",
        ".git/config",
    ] {
        assert_eq!(
            world.link(from, "stolen").err(),
            Some(ErrorCode::NotPermitted),
            "{from}"
        );
        assert_eq!(
            world.rename(from, "stolen").err(),
            Some(ErrorCode::NotPermitted),
            "{from}"
        );
    }
    assert_eq!(
        world.link("src", "dir").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(!world.host("stolen").exists());
}

#[test]
fn directories_above_a_shielded_place_stay_where_they_are() {
    let mut world = World::new();
    for from in ["a", "A", ".git", "a/", "./a", "src/../a", ".mimir"] {
        // The last but one is another name on this filesystem and may not exist.
        let done = world.rename(from, "moved");
        assert!(
            matches!(done, Err(ErrorCode::NotPermitted | ErrorCode::NoEntry)),
            "{from}: {done:?}"
        );
    }
    assert!(!world.host("moved").exists());
    // Rules that hold at any depth move along.
    world.rename("sub", "other").unwrap();
    assert_eq!(
        world.read("other/.env").err(),
        Some(ErrorCode::NotPermitted)
    );
    world.mkdir("repo").unwrap();
    world.mkdir("repo/.git").unwrap();
    world.rename("repo", "src/repo").unwrap();
    assert_eq!(
        world.mkdir("src/repo/.git/hooks").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn nothing_is_moved_into_a_shielded_place() {
    let mut world = World::new();
    world.mkdir("x").unwrap();
    world.mkdir("x/hooks").unwrap();
    world.write("x/hooks/pre-commit", "evil").unwrap();
    world.mkdir("v").unwrap();
    world.write("v/tasks.json", "evil").unwrap();
    for (from, to) in [
        ("x", "sub/.git"),
        ("x", "src/.GIT"),
        ("x/hooks", ".git/hooks"),
        ("x/hooks", "sub/.git/hooks"),
        ("v", ".vscode"),
        ("v/tasks.json", ".vscode/tasks.json"),
        ("x", ".mimir"),
        ("x", "b/a"),
        ("x/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("x/hooks/pre-commit", ".bashrc"),
    ] {
        let done = world.rename(from, to);
        let expected = if to == "b/a" {
            ErrorCode::NoEntry
        } else {
            ErrorCode::NotPermitted
        };
        assert_eq!(done.err(), Some(expected), "{from} to {to}");
    }
    // Away and back again.
    assert_eq!(
        world.rename(".git", "y").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_dir_all(world.host("a")).unwrap();
    assert_eq!(world.rename("x", "a").err(), Some(ErrorCode::NotPermitted));
    assert!(
        world.last_refusal().contains("a/secrets"),
        "{}",
        world.last_refusal()
    );
}

#[cfg(unix)]
#[test]
fn links_are_not_moved_to_where_they_mislead() {
    let mut world = World::new();
    world.symlink("src", "l").unwrap();
    for to in [".config", "sub/.git", ".vscode", ".mimir"] {
        assert_eq!(
            world.rename("l", to).err(),
            Some(ErrorCode::NotPermitted),
            "{to}"
        );
    }
    world.rename("l", "a/l").unwrap();
}

#[test]
fn files_move_freely_beside_deep_rules() {
    let mut world = World::with(64, |ws| {
        let rules = PathRules::none().deny(["src/**/hidden.txt"]).unwrap();
        vec![Mount {
            rules,
            ..mount(ws, "", Access::ReadWrite)
        }]
    });
    world.rename("src/main.rs", "sub/main.rs").unwrap();
    world.rename("sub/main.rs", "src/deep/main.rs").unwrap();
    world.mkdir("src/one").unwrap();
    world.rename("src/one", "src/deep/two").unwrap();
    assert_eq!(
        world.rename("src/deep", "out").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        world.rename("sub", "src/in").err(),
        Some(ErrorCode::NotPermitted)
    );
}
