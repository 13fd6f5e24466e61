use super::*;

#[test]
fn protected_files_cannot_be_linked() {
    let mut workspace = TestWorkspace::new();
    for from in [
        ".env",
        "sub/.env",
        "a/secrets/key",
        ".mimir/config.yml",
        ".git/config",
    ] {
        assert_eq!(
            workspace.link(from, "stolen").err(),
            Some(ErrorCode::NotPermitted),
            "{from}"
        );
        assert_eq!(
            workspace.rename(from, "stolen").err(),
            Some(ErrorCode::NotPermitted),
            "{from}"
        );
    }
    assert_eq!(
        workspace.link("src", "dir").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(!workspace.host("stolen").exists());
}

#[test]
fn moves_of_directories_above_a_protected_path_are_refused() {
    let mut workspace = TestWorkspace::new();
    for from in ["a", "A", ".git", "a/", "./a", "src/../a", ".mimir"] {
        // The last but one is another name on this file system and may not exist.
        let done = workspace.rename(from, "moved");
        assert!(
            matches!(done, Err(ErrorCode::NotPermitted | ErrorCode::NoEntry)),
            "{from}: {done:?}"
        );
    }
    assert!(!workspace.host("moved").exists());
    // Rules for any depth move along.
    workspace.rename("sub", "other").unwrap();
    assert_eq!(
        workspace.read("other/.env").err(),
        Some(ErrorCode::NotPermitted)
    );
    workspace.mkdir("repo").unwrap();
    workspace.mkdir("repo/.git").unwrap();
    workspace.rename("repo", "src/repo").unwrap();
    assert_eq!(
        workspace.mkdir("src/repo/.git/hooks").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn moves_into_a_protected_path_are_refused() {
    let mut workspace = TestWorkspace::new();
    workspace.mkdir("x").unwrap();
    workspace.mkdir("x/hooks").unwrap();
    workspace.write("x/hooks/pre-commit", "evil").unwrap();
    workspace.mkdir("v").unwrap();
    workspace.write("v/tasks.json", "evil").unwrap();
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
        let done = workspace.rename(from, to);
        let expected = if to == "b/a" {
            ErrorCode::NoEntry
        } else {
            ErrorCode::NotPermitted
        };
        assert_eq!(done.err(), Some(expected), "{from} to {to}");
    }
    // Away and back again.
    assert_eq!(
        workspace.rename(".git", "y").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_dir_all(workspace.host("a")).unwrap();
    assert_eq!(
        workspace.rename("x", "a").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(
        workspace.last_refusal().contains("a/secrets"),
        "{}",
        workspace.last_refusal()
    );
}

#[cfg(unix)]
#[test]
fn moves_of_links_to_misleading_paths_are_refused() {
    let mut workspace = TestWorkspace::new();
    workspace.symlink("src", "l").unwrap();
    for to in [".config", "sub/.git", ".vscode", ".mimir"] {
        assert_eq!(
            workspace.rename("l", to).err(),
            Some(ErrorCode::NotPermitted),
            "{to}"
        );
    }
    workspace.rename("l", "a/l").unwrap();
}

#[cfg(unix)]
#[test]
fn moved_link_is_checked_at_its_destination() {
    let mut workspace = TestWorkspace::new();
    workspace.mkdir("p").unwrap();
    workspace.symlink("../etc/x", "p/l").unwrap();
    workspace
        .symlink("../../.env.example", "src/deep/up")
        .unwrap();
    for (from, to) in [("p/l", "l"), ("src/deep/up", "p/up")] {
        assert_eq!(
            workspace.rename(from, to).err(),
            Some(ErrorCode::NotPermitted),
            "{from} to {to}"
        );
        assert!(fs::symlink_metadata(workspace.host(from)).is_ok(), "{from}");
        assert!(fs::symlink_metadata(workspace.host(to)).is_err(), "{to}");
    }
    // As deep or deeper it still leads inside; a protected path there stays protected.
    workspace.rename("p/l", "src/l").unwrap();
    workspace.rename("src/l", "src/deep/l").unwrap();
    workspace.symlink("open.txt", "a/plain").unwrap();
    workspace.rename("a/plain", "src/plain").unwrap();
    workspace.symlink("secrets/key", "sub/key").unwrap();
    assert_eq!(
        workspace.rename("sub/key", "a/led").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[cfg(unix)]
#[test]
fn link_that_climbs_through_another_is_refused() {
    let mut workspace = TestWorkspace::new();
    workspace.mkdir("p").unwrap();
    workspace.mkdir("p/q").unwrap();
    workspace.symlink("../../src", "p/q/up").unwrap();
    std::os::unix::fs::symlink("../..", workspace.host("src/deep/up")).unwrap();
    for (target, path) in [
        ("up/../outside_x", "p/q/out"),
        ("up/../outside_x", "src/deep/out"),
        ("../deep/up/./..//outside_x", "src/deep/out"),
    ] {
        assert_eq!(
            workspace.symlink(target, path).err(),
            Some(ErrorCode::NotPermitted),
            "{target}"
        );
        assert!(workspace.last_refusal().contains("`..` after a name"));
        assert!(
            fs::symlink_metadata(workspace.host(path)).is_err(),
            "{path}"
        );
    }
    // A link created by another program is not moved either.
    std::os::unix::fs::symlink("up/../outside_x", workspace.host("src/deep/theirs")).unwrap();
    assert_eq!(
        workspace.rename("src/deep/theirs", "src/deep/ours").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn moves_of_files_next_to_deep_rules_are_allowed() {
    let mut workspace = TestWorkspace::with(64, |ws| {
        let rules = PathRules::none().deny(["src/**/hidden.txt"]).unwrap();
        vec![GuestMount {
            rules,
            ..mount(ws, "", DirectoryAccess::ReadWrite)
        }]
    });
    workspace.rename("src/main.rs", "sub/main.rs").unwrap();
    workspace.rename("sub/main.rs", "src/deep/main.rs").unwrap();
    workspace.mkdir("src/one").unwrap();
    workspace.rename("src/one", "src/deep/two").unwrap();
    assert_eq!(
        workspace.rename("src/deep", "out").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.rename("sub", "src/in").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[cfg(unix)]
#[test]
fn moved_directory_may_not_contain_links_to_the_outside() {
    use std::os::unix::fs::symlink;
    let mut workspace = TestWorkspace::new();
    fs::create_dir_all(workspace.host("p/q/tree/deep")).unwrap();
    for (target, link, stays) in [
        ("../../../outside", "p/q/tree/l", false),
        ("../../../../outside/secret.txt", "p/q/tree/deep/l", false),
        ("./..//.././../outside/", "p/q/tree/l", false),
        ("deep/../../../x", "p/q/tree/l", false),
        ("../x", "p/q/tree/l", true),
        ("../../x", "p/q/tree/deep/l", true),
        ("/etc/passwd", "p/q/tree/l", true),
        ("deep/x", "p/q/tree/l", true),
    ] {
        symlink(target, workspace.host(link)).unwrap();
        let done = workspace.rename("p/q/tree", "tree");
        if stays {
            done.unwrap();
            workspace.rename("tree", "p/q/tree").unwrap();
        } else {
            assert_eq!(done.err(), Some(ErrorCode::NotPermitted), "{target}");
            let refusal = workspace.last_refusal();
            assert!(
                refusal.contains(link) && refusal.contains("after the move"),
                "{refusal}"
            );
            assert!(!workspace.host("tree").exists());
            // As deep, or deeper, it climbs no further than before.
            workspace.rename("p/q/tree", "p/q/other").unwrap();
            workspace.rename("p/q/other", "src/deep/tree").unwrap();
            workspace.rename("src/deep/tree", "p/q/tree").unwrap();
        }
        fs::remove_file(workspace.host(link)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn links_are_checked_against_the_root_of_their_mount() {
    use std::os::unix::fs::symlink;
    let mut workspace =
        TestWorkspace::with(64, |ws| vec![mount(ws, "src", DirectoryAccess::ReadWrite)]);
    fs::create_dir(workspace.host("src/deep/tree")).unwrap();
    symlink("../../x", workspace.host("src/deep/tree/l")).unwrap();
    // Still in the workspace, but outside of the grant.
    assert_eq!(
        workspace.rename("deep/tree", "tree").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_file(workspace.host("src/deep/tree/l")).unwrap();
    symlink("../x", workspace.host("src/deep/tree/l")).unwrap();
    workspace.rename("deep/tree", "tree").unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn moved_directory_is_searched_in_names_that_are_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let raw_path = |path: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(path));
    let mut workspace = TestWorkspace::new();
    let inside = workspace.host("p/q/tree").join(raw_path(b"\xff"));
    fs::create_dir_all(&inside).unwrap();
    symlink("../../../../x", inside.join(raw_path(b"l\xff"))).unwrap();
    assert_eq!(
        workspace.rename("p/q/tree", "tree").err(),
        Some(ErrorCode::NotPermitted)
    );
    fs::remove_file(inside.join(raw_path(b"l\xff"))).unwrap();
    symlink(raw_path(b"../\xff"), inside.join(raw_path(b"l\xff"))).unwrap();
    workspace.rename("p/q/tree", "tree").unwrap();
    assert!(
        workspace
            .host("tree")
            .join(raw_path(b"\xff/l\xff"))
            .is_symlink()
    );
}

#[cfg(unix)]
#[test]
fn moved_directory_handle_creates_no_climbing_links() {
    let mut workspace = TestWorkspace::new();
    workspace.mkdir("p").unwrap();
    workspace.mkdir("p/q").unwrap();
    let folder_handle = workspace
        .open("p/q", OpenFlags::DIRECTORY, DescriptorFlags::READ)
        .unwrap();
    let link = |workspace: &mut TestWorkspace, target: &str, name: &str| {
        let folder_handle = Resource::new_borrow(folder_handle.rep());
        let (target, name) = (target.to_owned(), name.to_owned());
        workspace.run(async |mut view, _| view.symlink_at(folder_handle, target, name).await)
    };
    link(&mut workspace, "../../x", "before").unwrap();
    workspace.unlink("p/q/before").unwrap();
    workspace.rename("p/q", "q").unwrap();
    assert_eq!(
        link(&mut workspace, "../../x", "after").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(workspace.last_refusal().contains("moved since"));
    link(&mut workspace, "x", "plain").unwrap();
    // Another directory at that path does not count either.
    workspace.mkdir("p/q").unwrap();
    assert_eq!(
        link(&mut workspace, "../../x", "after").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert!(fs::symlink_metadata(workspace.host("q/after")).is_err());
}
