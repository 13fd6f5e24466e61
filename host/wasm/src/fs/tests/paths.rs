use super::*;

#[test]
fn paths_of_ordinary_operations_succeed() {
    let mut world = World::new();
    assert_eq!(world.read("src/main.rs").unwrap(), "fn main() {}");
    world.write("src/new.rs", "new").unwrap();
    world.write("src/new.rs", "newer").unwrap();
    assert_eq!(world.read("src/new.rs").unwrap(), "newer");
    world.mkdir("src/folder").unwrap();
    world.rename("src/new.rs", "src/folder/moved.rs").unwrap();
    world.link("src/folder/moved.rs", "src/linked.rs").unwrap();
    world.rename("src/folder", "src/other").unwrap();
    assert_eq!(
        world.list("src").unwrap(),
        ["deep", "linked.rs", "main.rs", "other"]
    );
    assert_eq!(world.stat("src/linked.rs").unwrap().link_count, 2);
    world.touch("src/linked.rs").unwrap();
    world.unlink("src/linked.rs").unwrap();
    world.unlink("src/other/moved.rs").unwrap();
    world.rmdir("src/other").unwrap();
    assert_eq!(world.list("src").unwrap(), ["deep", "main.rs"]);
    assert!(world.fs.refusals().is_empty());
}

#[test]
fn paths_in_all_spellings_reach_the_same_file() {
    let mut world = World::new();
    let one = world.hash("src/deep/er.rs").unwrap();
    for path in [
        "./src/deep/er.rs",
        "src//deep///er.rs",
        "src/./deep/././er.rs",
        "src/deep/../deep/er.rs",
        "src/../src/deep/er.rs",
        "a/../src/deep/er.rs",
        "src/deep/../../src/deep/er.rs",
    ] {
        assert_eq!(world.read(path).unwrap(), "deep", "{path}");
        let hash = world.hash(path).unwrap();
        assert_eq!((hash.lower, hash.upper), (one.lower, one.upper), "{path}");
    }
    for path in [".", "./", "src/..", "src/deep/../..", "./.", "src/../."] {
        assert!(
            world.list(path).unwrap().contains(&"src".to_owned()),
            "{path}"
        );
        assert_eq!(
            world.stat(path).unwrap().type_,
            types::DescriptorType::Directory
        );
    }
    for path in ["src/deep/", "src/deep/.", "src/deep//", "src/deep/./"] {
        assert_eq!(world.list(path).unwrap(), ["er.rs"], "{path}");
    }
}

#[test]
fn paths_never_leave_the_mount() {
    let mut world = World::new();
    let absolute = world
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
        let done = everything(&mut world, path);
        refused(&done, path);
    }
    assert_eq!(
        fs::read_to_string(world.home.path().join("outside/secret.txt")).unwrap(),
        SECRET
    );
}

#[test]
fn paths_never_leave_a_descriptor() {
    let mut world = World::new();
    let src = world
        .open("src", OpenFlags::DIRECTORY, DescriptorFlags::READ)
        .unwrap();
    for (path, expected) in [
        ("deep/er.rs", None),
        ("deep/../main.rs", None),
        ("../a/open.txt", Some(ErrorCode::NotPermitted)),
    ] {
        let handle = Resource::new_borrow(src.rep());
        let path = path.to_owned();
        let done = world.run(async |mut view, _| {
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
    let mut world = World::new();
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
        assert_eq!(world.stat(path).err(), Some(code), "stat {path:?}");
        assert_eq!(world.read(path).err(), Some(code), "read {path:?}");
    }
    assert_eq!(
        world.read(&"x/".repeat(3000)).err(),
        Some(ErrorCode::NameTooLong)
    );
    assert_eq!(
        world.read(&"x".repeat(300)).err(),
        Some(ErrorCode::NameTooLong)
    );
    assert_eq!(world.write("src", "x").err(), Some(ErrorCode::IsDirectory));
    assert_eq!(world.write("new/", "x").err(), Some(ErrorCode::IsDirectory));
    assert_eq!(
        world.unlink("src/main.rs/").err(),
        Some(ErrorCode::NotDirectory)
    );
    assert_eq!(world.unlink("src").err(), Some(ErrorCode::IsDirectory));
    assert_eq!(world.rmdir("src").err(), Some(ErrorCode::NotEmpty));
    assert_eq!(world.mkdir("src/").err(), Some(ErrorCode::Exist));
    assert_eq!(
        world.rename("src/main.rs/", "x").err(),
        Some(ErrorCode::NotDirectory)
    );
    world.mkdir("made/").unwrap();
    world.rename("made/", "moved/").unwrap();
    world.rmdir("moved/").unwrap();
}

#[test]
fn paths_are_limited_in_components() {
    let mut world = World::new();
    let path = "src/../".repeat(580);
    let started = std::time::Instant::now();
    world.list(&path).unwrap();
    assert!(started.elapsed().as_secs() < 60);
}

#[cfg(target_os = "linux")]
#[test]
fn listing_shows_names_that_are_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let mut world = World::new();
    for name in [&b"caf\xe9"[..], b"a/secrets/\xff", b".env\xff"] {
        let path = world.host("").join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, SECRET).unwrap();
    }
    let listed = world.list(".").unwrap();
    assert!(listed.contains(&"caf\u{fffd}".to_owned()), "{listed:?}");
    assert_eq!(world.read("caf\u{fffd}").err(), Some(ErrorCode::NoEntry));
    world.hash("caf\u{fffd}").unwrap();
    assert_eq!(world.hash("gone").err(), Some(ErrorCode::NoEntry));
    for path in ["a/secrets/\u{fffd}", "sub/.env"] {
        assert_eq!(
            world.hash(path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    assert_eq!(world.list("a").unwrap(), ["open.txt"], "rules hold");
}
