use super::*;

#[test]
fn protected_files_cannot_be_linked() {
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
fn moves_of_directories_above_a_protected_path_are_refused() {
    let mut world = World::new();
    for from in ["a", "A", ".git", "a/", "./a", "src/../a", ".mimir"] {
        // The last but one is another name on this file system and may not exist.
        let done = world.rename(from, "moved");
        assert!(
            matches!(done, Err(ErrorCode::NotPermitted | ErrorCode::NoEntry)),
            "{from}: {done:?}"
        );
    }
    assert!(!world.host("moved").exists());
    // Rules for any depth move along.
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
fn moves_into_a_protected_path_are_refused() {
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
fn moves_of_links_to_misleading_paths_are_refused() {
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

#[cfg(unix)]
#[test]
fn moved_link_is_checked_at_its_destination() {
    let mut world = World::new();
    world.mkdir("p").unwrap();
    world.symlink("../etc/x", "p/l").unwrap();
    world.symlink("../../.env.example", "src/deep/up").unwrap();
    for (from, to) in [("p/l", "l"), ("src/deep/up", "p/up")] {
        assert_eq!(
            world.rename(from, to).err(),
            Some(ErrorCode::NotPermitted),
            "{from} to {to}"
        );
        assert!(fs::symlink_metadata(world.host(from)).is_ok(), "{from}");
        assert!(fs::symlink_metadata(world.host(to)).is_err(), "{to}");
    }
    // As deep or deeper it still leads inside; a protected path there stays protected.
    world.rename("p/l", "src/l").unwrap();
    world.rename("src/l", "src/deep/l").unwrap();
    world.symlink("open.txt", "a/plain").unwrap();
    world.rename("a/plain", "src/plain").unwrap();
    world.symlink("secrets/key", "sub/key").unwrap();
    assert_eq!(
        world.rename("sub/key", "a/led").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[cfg(unix)]
#[test]
fn link_that_climbs_through_another_is_refused() {
    let mut world = World::new();
    world.mkdir("p").unwrap();
    world.mkdir("p/q").unwrap();
    world.symlink("../../src", "p/q/up").unwrap();
    std::os::unix::fs::symlink("../..", world.host("src/deep/up")).unwrap();
    for (says, path) in [
        ("up/../outside_x", "p/q/out"),
        ("up/../outside_x", "src/deep/out"),
        ("../deep/up/./..//outside_x", "src/deep/out"),
    ] {
        assert_eq!(
            world.symlink(says, path).err(),
            Some(ErrorCode::NotPermitted),
            "{says}"
        );
        assert!(world.last_refusal().contains("`..` after a name"));
        assert!(fs::symlink_metadata(world.host(path)).is_err(), "{path}");
    }
    // A link created by another program is not moved either.
    std::os::unix::fs::symlink("up/../outside_x", world.host("src/deep/theirs")).unwrap();
    assert_eq!(
        world.rename("src/deep/theirs", "src/deep/ours").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn moves_of_files_next_to_deep_rules_are_allowed() {
    let mut world = World::with(64, |ws| {
        let rules = PathRules::none().deny(["src/**/hidden.txt"]).unwrap();
        vec![GuestMount {
            rules,
            ..mount(ws, "", DirectoryAccess::ReadWrite)
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

#[cfg(unix)]
#[test]
fn moved_directory_may_not_contain_links_to_the_outside() {
    use std::os::unix::fs::symlink;
    let mut world = World::new();
    fs::create_dir_all(world.host("p/q/tree/deep")).unwrap();
    for (says, link, stays) in [
        ("../../../outside", "p/q/tree/l", false),
        ("../../../../outside/secret.txt", "p/q/tree/deep/l", false),
        ("./..//.././../outside/", "p/q/tree/l", false),
        ("deep/../../../x", "p/q/tree/l", false),
        ("../x", "p/q/tree/l", true),
        ("../../x", "p/q/tree/deep/l", true),
        ("/etc/passwd", "p/q/tree/l", true),
        ("deep/x", "p/q/tree/l", true),
    ] {
        symlink(says, world.host(link)).unwrap();
        let done = world.rename("p/q/tree", "tree");
        if stays {
            done.unwrap();
            world.rename("tree", "p/q/tree").unwrap();
        } else {
            assert_eq!(done.err(), Some(ErrorCode::NotPermitted), "{says}");
            let said = world.last_refusal();
            assert!(
                said.contains(link) && said.contains("after the move"),
                "{said}"
            );
            assert!(!world.host("tree").exists());
            // As deep, or deeper, it climbs no further than before.
            world.rename("p/q/tree", "p/q/other").unwrap();
            world.rename("p/q/other", "src/deep/tree").unwrap();
            world.rename("src/deep/tree", "p/q/tree").unwrap();
        }
        fs::remove_file(world.host(link)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn links_are_checked_against_the_root_of_their_mount() {
    use std::os::unix::fs::symlink;
    let mut world = World::with(64, |ws| vec![mount(ws, "src", DirectoryAccess::ReadWrite)]);
    fs::create_dir(world.host("src/deep/tree")).unwrap();
    symlink("../../x", world.host("src/deep/tree/l")).unwrap();
    // Still in the workspace, but outside of the grant.
    assert_eq!(
        world.rename("deep/tree", "tree").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_file(world.host("src/deep/tree/l")).unwrap();
    symlink("../x", world.host("src/deep/tree/l")).unwrap();
    world.rename("deep/tree", "tree").unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn moved_directory_is_searched_in_names_that_are_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let odd = |path: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(path));
    let mut world = World::new();
    let inside = world.host("p/q/tree").join(odd(b"\xff"));
    fs::create_dir_all(&inside).unwrap();
    symlink("../../../../x", inside.join(odd(b"l\xff"))).unwrap();
    assert_eq!(
        world.rename("p/q/tree", "tree").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_file(inside.join(odd(b"l\xff"))).unwrap();
    symlink(odd(b"../\xff"), inside.join(odd(b"l\xff"))).unwrap();
    world.rename("p/q/tree", "tree").unwrap();
    assert!(world.host("tree").join(odd(b"\xff/l\xff")).is_symlink());
}

#[cfg(unix)]
#[test]
fn moved_directory_handle_creates_no_climbing_links() {
    let mut world = World::new();
    world.mkdir("p").unwrap();
    world.mkdir("p/q").unwrap();
    let held = world
        .open("p/q", OpenFlags::DIRECTORY, DescriptorFlags::READ)
        .unwrap();
    let link = |world: &mut World, says: &str, name: &str| {
        let held = Resource::new_borrow(held.rep());
        let (says, name) = (says.to_owned(), name.to_owned());
        world.run(async |mut view, _| view.symlink_at(held, says, name).await)
    };
    link(&mut world, "../../x", "before").unwrap();
    world.unlink("p/q/before").unwrap();
    world.rename("p/q", "q").unwrap();
    assert_eq!(
        link(&mut world, "../../x", "after").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(world.last_refusal().contains("moved since"));
    link(&mut world, "x", "plain").unwrap();
    // Another directory at that path does not count either.
    world.mkdir("p/q").unwrap();
    assert_eq!(
        link(&mut world, "../../x", "after").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(fs::symlink_metadata(world.host("q/after")).is_err());
}
