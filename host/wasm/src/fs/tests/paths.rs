use super::*;

#[test]
fn paths_of_ordinary_operations_succeed() {
    let mut workspace = TestWorkspace::new();
    assert_eq!(workspace.read("src/main.rs").unwrap(), "fn main() {}");
    workspace.write("src/new.rs", "new").unwrap();
    workspace.write("src/new.rs", "newer").unwrap();
    assert_eq!(workspace.read("src/new.rs").unwrap(), "newer");
    workspace.mkdir("src/folder").unwrap();
    workspace
        .rename("src/new.rs", "src/folder/moved.rs")
        .unwrap();
    workspace
        .link("src/folder/moved.rs", "src/linked.rs")
        .unwrap();
    workspace.rename("src/folder", "src/other").unwrap();
    assert_eq!(
        workspace.list("src").unwrap(),
        ["deep", "linked.rs", "main.rs", "other"]
    );
    assert_eq!(workspace.stat("src/linked.rs").unwrap().link_count, 2);
    workspace.touch("src/linked.rs").unwrap();
    workspace.unlink("src/linked.rs").unwrap();
    workspace.unlink("src/other/moved.rs").unwrap();
    workspace.rmdir("src/other").unwrap();
    assert_eq!(workspace.list("src").unwrap(), ["deep", "main.rs"]);
    assert!(workspace.fs.refusals().is_empty());
}

#[test]
fn paths_in_all_spellings_reach_the_same_file() {
    let mut workspace = TestWorkspace::new();
    let expected = workspace.hash("src/deep/er.rs").unwrap();
    for path in [
        "./src/deep/er.rs",
        "src//deep///er.rs",
        "src/./deep/././er.rs",
        "src/deep/../deep/er.rs",
        "src/../src/deep/er.rs",
        "a/../src/deep/er.rs",
        "src/deep/../../src/deep/er.rs",
    ] {
        assert_eq!(workspace.read(path).unwrap(), "deep", "{path}");
        let hash = workspace.hash(path).unwrap();
        assert_eq!(
            (hash.lower, hash.upper),
            (expected.lower, expected.upper),
            "{path}"
        );
    }
    for path in [".", "./", "src/..", "src/deep/../..", "./.", "src/../."] {
        assert!(
            workspace.list(path).unwrap().contains(&"src".to_owned()),
            "{path}"
        );
        assert_eq!(
            workspace.stat(path).unwrap().type_,
            types::DescriptorType::Directory
        );
    }
    for path in ["src/deep/", "src/deep/.", "src/deep//", "src/deep/./"] {
        assert_eq!(workspace.list(path).unwrap(), ["er.rs"], "{path}");
    }
}

#[test]
fn paths_never_leave_the_mount() {
    let mut workspace = TestWorkspace::new();
    let absolute = workspace
        .home
        .path()
        .join("outside/secret.txt")
        .display()
        .to_string();
    for path in [
        "..",
        "../",
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "./../outside",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "src/deep/../../../ws/.env",
        "src/../..",
        &absolute,
    ] {
        let done = all_operations(&mut workspace, path);
        assert_refused(&done, path);
    }
    assert_eq!(
        fs::read_to_string(workspace.home.path().join("outside/secret.txt")).unwrap(),
        SECRET
    );
}

#[test]
fn paths_never_leave_a_descriptor() {
    let mut workspace = TestWorkspace::new();
    let src = workspace
        .open("src", OpenFlags::DIRECTORY, DescriptorFlags::READ)
        .unwrap();
    for (path, expected) in [
        ("deep/er.rs", None),
        ("deep/../main.rs", None),
        ("../a/open.txt", Some(ErrorCode::NotPermitted)),
    ] {
        let handle = Resource::new_borrow(src.rep());
        let path = path.to_owned();
        let done = workspace.run(async |mut view, _| {
            view.open_at(
                handle,
                PathFlags::empty(),
                path,
                OpenFlags::empty(),
                DescriptorFlags::READ,
            )
            .await
        });
        assert_eq!(done.err(), expected);
    }
}

#[test]
fn paths_that_are_not_valid_have_the_usual_codes() {
    let mut workspace = TestWorkspace::new();
    for (path, code) in [
        ("", ErrorCode::NoEntry),
        ("nothing", ErrorCode::NoEntry),
        ("nothing/below", ErrorCode::NoEntry),
        ("nothing/../src", ErrorCode::NoEntry),
        ("src/main.rs/", ErrorCode::NotDirectory),
        ("src/main.rs/.", ErrorCode::NotDirectory),
        ("src/main.rs/x", ErrorCode::NotDirectory),
        ("src/main.rs/../main.rs", ErrorCode::NotDirectory),
        ("nul\0byte", ErrorCode::Invalid),
    ] {
        assert_eq!(workspace.stat(path).err(), Some(code), "stat {path:?}");
        assert_eq!(workspace.read(path).err(), Some(code), "read {path:?}");
    }
    assert_eq!(
        workspace.read(&"x/".repeat(3000)).err(),
        Some(ErrorCode::NameTooLong)
    );
    // Windows may report a long name as missing.
    let long = workspace.read(&"x".repeat(300)).err();
    assert!(long == Some(ErrorCode::NameTooLong) || cfg!(windows) && long.is_some());
    assert_eq!(
        workspace.write("src", "x").err(),
        Some(ErrorCode::IsDirectory)
    );
    assert_eq!(
        workspace.write("new/", "x").err(),
        Some(ErrorCode::IsDirectory)
    );
    assert_eq!(
        workspace.unlink("src/main.rs/").err(),
        Some(ErrorCode::NotDirectory)
    );
    assert_eq!(workspace.unlink("src").err(), Some(ErrorCode::IsDirectory));
    assert_eq!(workspace.rmdir("src").err(), Some(ErrorCode::NotEmpty));
    assert_eq!(workspace.mkdir("src/").err(), Some(ErrorCode::Exist));
    assert_eq!(
        workspace.rename("src/main.rs/", "x").err(),
        Some(ErrorCode::NotDirectory)
    );
    workspace.mkdir("made/").unwrap();
    workspace.rename("made/", "moved/").unwrap();
    workspace.rmdir("moved/").unwrap();
}

#[test]
fn paths_are_limited_in_components() {
    let mut workspace = TestWorkspace::new();
    let path = "src/../".repeat(580);
    let started = std::time::Instant::now();
    workspace.list(&path).unwrap();
    assert!(started.elapsed().as_secs() < 60);
}

#[cfg(target_os = "linux")]
#[test]
fn listing_shows_names_that_are_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let mut workspace = TestWorkspace::new();
    for name in [&b"caf\xe9"[..], b"a/secrets/\xff", b".env\xff"] {
        let path = workspace.host("").join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, SECRET).unwrap();
    }
    let listed = workspace.list(".").unwrap();
    assert!(listed.contains(&"caf\u{fffd}".to_owned()), "{listed:?}");
    assert_eq!(
        workspace.read("caf\u{fffd}").err(),
        Some(ErrorCode::NoEntry)
    );
    workspace.hash("caf\u{fffd}").unwrap();
    assert_eq!(workspace.hash("gone").err(), Some(ErrorCode::NoEntry));
    for path in ["a/secrets/\u{fffd}", "sub/.env"] {
        assert_eq!(
            workspace.hash(path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    assert_eq!(workspace.list("a").unwrap(), ["open.txt"], "rules hold");
}
