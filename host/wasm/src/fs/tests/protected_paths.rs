use super::*;

#[test]
fn hidden_paths_support_no_operation() {
    let mut workspace = TestWorkspace::new();
    for path in [
        ".env",
        "./.env",
        "sub//.env",
        "sub/../.env",
        "src/../sub/.env",
        ".ENV",
        "sub/.Env",
        ".env.",
        ".e\u{200c}nv",
        "．env",
        "a/secrets",
        "a/secrets/key",
        "A/Secrets/key",
        "a/secrets/",
        "a/secrets/new",
        "a/secrets/../secrets/key",
        ".mimir/state",
        ".mimir/state/audit.jsonl",
    ] {
        let done = all_operations(&mut workspace, path);
        assert_refused(&done, path);
    }
    assert_eq!(fs::read_to_string(workspace.host(".env")).unwrap(), SECRET);
    assert_eq!(
        fs::read_to_string(workspace.host("a/secrets/key")).unwrap(),
        SECRET
    );
    assert!(
        workspace.last_refusal().contains(".mimir/state"),
        "{}",
        workspace.last_refusal()
    );
}

#[test]
fn read_only_paths_can_only_be_read() {
    let mut workspace = TestWorkspace::new();
    for path in [
        ".mimir/config.yml",
        ".mimir",
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".git/config",
        ".MIMIR/new",
        ".claude",
        ".mimir/tools/evil.wasm",
        "src/.bashrc",
        ".git/hooks/new",
        ".m\u{200b}imir/new",
        "src/../.mimir/new",
    ] {
        let done: Vec<_> = all_operations(&mut workspace, path)
            .into_iter()
            .skip(5)
            .collect();
        assert_refused(&done, path);
    }
    assert_eq!(workspace.read(".mimir/config.yml").unwrap(), "settings");
    assert_eq!(
        workspace.read(".git/hooks/pre-commit").unwrap(),
        "#!/bin/sh"
    );
    assert_eq!(workspace.list(".mimir").unwrap(), ["config.yml"]);
    assert_eq!(workspace.list(".git/hooks").unwrap(), ["pre-commit"]);
}

#[test]
fn hidden_paths_are_not_listed() {
    let mut workspace = TestWorkspace::new();
    assert_eq!(
        workspace.list(".").unwrap(),
        [".env.example", ".git", ".mimir", "a", "src", "sub"]
    );
    assert_eq!(workspace.list("sub").unwrap(), Vec::<String>::new());
    assert_eq!(workspace.list("a").unwrap(), ["open.txt"]);
}

#[test]
fn git_folder_may_be_written_but_not_redirected() {
    let mut workspace = TestWorkspace::new();
    workspace.write(".git/HEAD", "ref: x").unwrap();
    workspace.mkdir("sub/.git").unwrap();
    workspace.write("sub/.git/HEAD", "ref: x").unwrap();
    assert_eq!(
        workspace.write("sub/.git/config", "x").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.mkdir("sub/.git/hooks").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.write("a/.git", "gitdir: ../evil").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.symlink("src", "a/.git").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.link("src/main.rs", "a/.git").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.rename("src/main.rs", "a/.git").err(),
        Some(ErrorCode::NotPermitted)
    );
    // A kernel tree has a file of this name; only a link there would mislead a shell.
    workspace.write(".config", "CONFIG_X=y").unwrap();
    workspace.unlink(".config").unwrap();
    assert_eq!(
        workspace.symlink("src", ".config").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn revealed_file_is_visible_and_no_other() {
    let mut workspace = TestWorkspace::with(64, |ws| {
        let mut mount = mount(ws, "", DirectoryAccess::ReadWrite);
        mount.rules = mount
            .rules
            .reveal(["sub/.env", ".mimir", "a/secrets"])
            .unwrap();
        vec![mount]
    });
    assert_eq!(workspace.read("sub/.env").unwrap(), SECRET);
    assert_eq!(workspace.list("sub").unwrap(), [".env"]);
    assert_eq!(workspace.read(".env").err(), Some(ErrorCode::NotPermitted));
    assert_eq!(
        workspace.write(".mimir/x", "x").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.read("a/secrets/key").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn read_only_mount_cannot_be_changed() {
    let mut workspace = TestWorkspace::with(64, |ws| vec![mount(ws, "", DirectoryAccess::Read)]);
    for path in ["src/main.rs", "src/new.rs", "src/deep"] {
        let done: Vec<_> = all_operations(&mut workspace, path)
            .into_iter()
            .skip(5)
            .collect();
        assert_refused(&done, path);
    }
    assert_eq!(workspace.read("src/main.rs").unwrap(), "fn main() {}");
    assert!(workspace.last_refusal().contains("reading only"));
    let fd = workspace
        .open("src/main.rs", OpenFlags::empty(), DescriptorFlags::READ)
        .unwrap();
    let handle = || Resource::new_borrow(fd.rep());
    let (size, write, now) = (handle(), handle(), handle());
    assert_eq!(
        workspace
            .run(async |mut view, _| view.set_size(size, 0).await)
            .err(),
        Some(ErrorCode::BadDescriptor)
    );
    assert_eq!(
        workspace
            .run(async |mut view, _| view.write(write, vec![0], 0).await)
            .err(),
        Some(ErrorCode::BadDescriptor)
    );
    let times = workspace.run(async |mut view, _| {
        view.set_times(now, NewTimestamp::Now, NewTimestamp::Now)
            .await
    });
    assert_eq!(times.err(), Some(ErrorCode::NotPermitted));
    assert!(workspace.view().write_via_stream(handle(), 0).is_err());
    assert!(workspace.view().append_via_stream(handle()).is_err());
}

#[test]
fn mount_below_the_root_is_checked_by_its_prefix() {
    let mut workspace =
        TestWorkspace::with(64, |ws| vec![mount(ws, "a", DirectoryAccess::ReadWrite)]);
    assert_eq!(workspace.list(".").unwrap(), ["open.txt"]);
    assert_eq!(
        workspace.read("secrets/key").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(workspace.fs.refusals()[0].path, "a/secrets/key");
    assert_eq!(
        workspace.read("../src/main.rs").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.symlink("../src", "up").err(),
        Some(ErrorCode::NotPermitted)
    );
    workspace.write("new.txt", "new").unwrap();
    assert!(workspace.host("a/new.txt").exists());
}

#[test]
fn mount_of_its_own_opens_a_path_closed_in_the_root() {
    let mut workspace = TestWorkspace::with(64, |ws| {
        let backups = GuestMount {
            rules: PathRules::none(),
            ..mount(ws, ".mimir/state", DirectoryAccess::ReadWrite)
        };
        vec![mount(ws, "", DirectoryAccess::ReadWrite), backups]
    });
    assert_eq!(
        workspace.read(".mimir/state/audit.jsonl").err(),
        Some(ErrorCode::NotPermitted)
    );
    let (from, to) = (
        Resource::new_borrow(workspace.roots[0].rep()),
        Resource::new_borrow(workspace.roots[1].rep()),
    );
    let back = workspace.run(async |mut view, _| {
        view.rename_at(to, "audit.jsonl".into(), from, "stolen".into())
            .await
    });
    assert_eq!(back.err(), Some(ErrorCode::CrossDevice));
    workspace.roots.remove(0);
    assert_eq!(workspace.read("audit.jsonl").unwrap(), SECRET);
    workspace.write("copy", "x").unwrap();
}

#[cfg(unix)]
#[test]
fn mount_is_not_reached_through_a_link() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("ws/real")).unwrap();
    fs::create_dir_all(home.path().join("outside/inner")).unwrap();
    std::os::unix::fs::symlink("../outside", home.path().join("ws/data")).unwrap();
    let ws = home.path().join("ws");
    for prefix in ["data", "data/inner"] {
        let error =
            GuardedFs::open(vec![mount(&ws, prefix, DirectoryAccess::Read)], 1).unwrap_err();
        assert!(matches!(error, MountError::Link { .. }), "{error}");
    }
    fs::write(ws.join("file"), "").unwrap();
    let error = GuardedFs::open(vec![mount(&ws, "file", DirectoryAccess::Read)], 1).unwrap_err();
    assert!(matches!(error, MountError::NotAFolder { .. }), "{error}");
    let error =
        GuardedFs::open(vec![mount(&ws, "real/../data", DirectoryAccess::Read)], 1).unwrap_err();
    assert!(matches!(error, MountError::Prefix { .. }), "{error}");
    assert!(GuardedFs::open(vec![mount(&ws, "real", DirectoryAccess::Read)], 1).is_ok());
}

#[test]
fn mount_of_a_missing_folder_is_created_only_for_writing() {
    let home = tempfile::tempdir().unwrap();
    let ws = home.path().join("ws");
    fs::create_dir_all(&ws).unwrap();
    let open = |prefix: &str, access| GuardedFs::open(vec![mount(&ws, prefix, access)], 1);
    let files = open("data/deep", DirectoryAccess::Read).unwrap();
    assert_eq!(files.missing_folders(), ["data/deep"]);
    assert!(!ws.join("data").exists());
    let files = open("data/deep", DirectoryAccess::ReadWrite).unwrap();
    assert!(files.missing_folders().is_empty());
    assert!(ws.join("data/deep").is_dir());
    // Protected folders are not created, and neither is a folder above the quota.
    for prefix in [
        ".git/hooks",
        ".GIT/hooks/x",
        "x/.git/config",
        "a/secrets",
        ".mimir/state",
    ] {
        let error = open(prefix, DirectoryAccess::ReadWrite).unwrap_err();
        assert!(matches!(error, MountError::Protected { .. }), "{error}");
    }
    // Not even the folders above them.
    let left = fs::read_dir(&ws)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["data"]);
    let full = MountTracking {
        quota: Some(MountQuota::new(1, 0)),
        undo: None,
    };
    let full_mount = mount(&ws, "more", DirectoryAccess::ReadWrite);
    let error = GuardedFs::open_tracked(vec![(full_mount, full)], 1).unwrap_err();
    assert!(error.to_string().contains("limits.newFiles"), "{error}");
    assert!(!ws.join("more").exists());
}

#[cfg(unix)]
#[test]
fn mount_creates_no_folder_through_a_link() {
    let home = tempfile::tempdir().unwrap();
    let ws = home.path().join("ws");
    fs::create_dir_all(&ws).unwrap();
    fs::create_dir(home.path().join("outside")).unwrap();
    let link = std::os::unix::fs::symlink::<&str, _>;
    link("../outside", ws.join("data")).unwrap();
    link("../outside/new", ws.join("dangling")).unwrap();
    for prefix in ["data/new", "dangling", "dangling/new"] {
        let mounts = vec![mount(&ws, prefix, DirectoryAccess::ReadWrite)];
        let error = GuardedFs::open(mounts, 1).unwrap_err();
        assert!(matches!(error, MountError::Link { .. }), "{error}");
    }
    let outside = fs::read_dir(home.path().join("outside")).unwrap();
    assert_eq!(outside.count(), 0);
}
