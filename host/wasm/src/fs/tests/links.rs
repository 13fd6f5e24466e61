#![cfg(unix)]

use super::*;
use std::os::unix::fs::symlink;

fn linked(links: &[(&str, &str)]) -> World {
    let world = World::new();
    for (says, path) in links {
        symlink(says, world.host(path)).expect("a link");
    }
    world
}

#[test]
fn links_inside_are_followed() {
    let mut world = linked(&[
        ("src", "to-src"),
        ("src/main.rs", "one"),
        ("one", "two"),
        ("../src/./deep/../main.rs", "a/three"),
        ("deep/", "src/slash"),
    ]);
    for path in [
        "to-src/main.rs",
        "one",
        "two",
        "a/three",
        "to-src/../one",
        "to-src/slash/../main.rs",
    ] {
        assert_eq!(world.read(path).unwrap(), "fn main() {}", "{path}");
    }
    assert_eq!(world.list("to-src").unwrap(), world.list("src").unwrap());
    assert_eq!(world.list("src/slash/").unwrap(), ["er.rs"]);
    assert_eq!(world.readlink("two").unwrap(), "one");
    // Written through a link, created through a dangling one.
    world.write("to-src/new.rs", "new").unwrap();
    assert!(world.host("src/new.rs").exists());
    symlink("src/made.rs", world.host("dangling")).unwrap();
    world.write("dangling", "made").unwrap();
    assert_eq!(
        fs::read_to_string(world.host("src/made.rs")).unwrap(),
        "made"
    );
    // Removing and renaming affect the link itself.
    world.rename("one", "uno").unwrap();
    world.unlink("uno").unwrap();
    assert!(world.host("src/main.rs").exists());
    assert_eq!(world.rmdir("to-src").err(), Some(ErrorCode::NotDirectory));
}

#[test]
fn links_to_the_outside_are_refused() {
    let mut world = linked(&[
        ("../outside", "out"),
        ("../outside/secret.txt", "file"),
        ("src/../../outside/secret.txt", "winding"),
        ("file", "chain"),
        ("..", "up"),
        ("../..", "src/upper"),
    ]);
    symlink(world.home.path().join("outside"), world.host("absolute")).unwrap();
    symlink(world.host("src"), world.host("absolute-inside")).unwrap();
    for path in [
        "out/secret.txt",
        "file",
        "winding",
        "chain",
        "up/outside/secret.txt",
        "absolute/secret.txt",
        "absolute-inside/main.rs",
        "src/upper/outside/secret.txt",
        "out/../outside/secret.txt",
    ] {
        for (operation, error) in looking(&mut world, path) {
            if operation != "readlink" {
                assert_eq!(
                    error,
                    Some(ErrorCode::NotPermitted),
                    "{operation} of {path}"
                );
            }
        }
        assert_eq!(
            world.write(path, "x").err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
        assert_eq!(
            world.touch(path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    for path in ["out/new", "up/new", "absolute/new"] {
        let done = everything(&mut world, path);
        refused(&done, path);
    }
    assert_eq!(
        fs::read_to_string(world.home.path().join("outside/secret.txt")).unwrap(),
        SECRET
    );
}

#[test]
fn links_can_be_read_unless_protected() {
    let mut world = linked(&[
        ("/usr/bin/python3", "src/python"),
        ("../../out", "src/up"),
        ("/usr/bin/python3", "a/secrets/python"),
    ]);
    assert_eq!(world.readlink("src/python").unwrap(), "/usr/bin/python3");
    assert_eq!(world.readlink("src/up").unwrap(), "../../out");
    assert_eq!(
        world.readlink("a/secrets/python").err(),
        Some(ErrorCode::NotPermitted)
    );
    // It may be read, but neither followed nor created again, alone or elsewhere.
    assert_eq!(
        world.read("src/python").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        world.symlink("/usr/bin/python3", "src/again").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        world.rename("src/python", "src/make").err(),
        Some(ErrorCode::NotPermitted)
    );
    world.rename("src", "moved").unwrap();
    assert_eq!(
        fs::read_link(world.host("moved/python")).unwrap(),
        Path::new("/usr/bin/python3")
    );
    world.unlink("moved/python").unwrap();
}

#[test]
fn links_do_not_circumvent_a_rule() {
    let mut world = linked(&[
        (".env", "plain"),
        ("plain", "chain"),
        ("a", "to-a"),
        ("a/secrets", "to-secrets"),
        (".mimir", "m"),
        (".git/hooks", "h"),
        (".git", "g"),
        ("src/../sub/.env", "winding"),
    ]);
    for path in [
        "plain",
        "chain",
        "to-a/secrets/key",
        "to-secrets/key",
        "winding",
        "m/state/audit.jsonl",
        "to-a/SECRETS/key",
    ] {
        assert_eq!(
            world.read(path).err(),
            Some(ErrorCode::NotPermitted),
            "read {path}"
        );
        assert_eq!(
            world.stat(path).err(),
            Some(ErrorCode::NotPermitted),
            "stat {path}"
        );
        assert_eq!(
            world.hash(path).err(),
            Some(ErrorCode::NotPermitted),
            "hash {path}"
        );
        assert_eq!(
            world.write(path, "x").err(),
            Some(ErrorCode::NotPermitted),
            "write {path}"
        );
        assert_eq!(
            world.touch(path).err(),
            Some(ErrorCode::NotPermitted),
            "touch {path}"
        );
    }
    for path in [
        "m/config.yml",
        "m/new",
        "h/pre-commit",
        "h/new",
        "g/config",
        "g/hooks/new",
    ] {
        let done: Vec<_> = everything(&mut world, path).into_iter().skip(5).collect();
        refused(&done, path);
    }
    assert_eq!(world.read("m/config.yml").unwrap(), "settings");
    assert_eq!(world.list("to-a").unwrap(), ["open.txt"]);
    assert_eq!(
        world.list("to-secrets").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn links_in_a_loop_are_an_error() {
    let mut world = linked(&[
        ("loop", "loop"),
        ("b", "c"),
        ("c", "b"),
        ("./self/x", "self"),
    ]);
    for path in ["loop", "b", "c/x", "loop/x", "self"] {
        assert_eq!(world.read(path).err(), Some(ErrorCode::Loop), "{path}");
        assert_eq!(world.stat(path).err(), Some(ErrorCode::Loop), "{path}");
    }
}

#[test]
fn links_are_followed_only_on_request() {
    let mut world = linked(&[("src/main.rs", "one")]);
    let open = world.run(async |mut view, root| {
        view.open_at(
            root,
            PathFlags::empty(),
            "one".into(),
            OpenFlags::empty(),
            DescriptorFlags::READ,
        )
        .await
    });
    assert_eq!(open.err(), Some(ErrorCode::Loop));
    let stat = world
        .run(async |mut view, root| view.stat_at(root, PathFlags::empty(), "one".into()).await);
    assert_eq!(stat.unwrap().type_, types::DescriptorType::SymbolicLink);
    let new = world.open(
        "one",
        OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
        DescriptorFlags::WRITE,
    );
    assert_eq!(new.err(), Some(ErrorCode::Exist));
}

#[test]
fn links_are_created_only_if_harmless() {
    let mut world = World::new();
    for says in [
        "../outside",
        "/etc",
        "src/../../outside",
        ".env",
        "./sub/.env",
        ".mimir",
        ".mimir/config.yml",
        ".git/hooks",
        "a/secrets",
        "a/secrets/key",
        ".ENV",
        "sub/../.env",
        "src/../a/open.txt",
        "..",
    ] {
        assert_eq!(
            world.symlink(says, "made").err(),
            Some(ErrorCode::NotPermitted),
            "{says}"
        );
    }
    for (says, path) in [
        ("src", ".git"),
        ("src", "a/.config"),
        ("src", ".vscode"),
        ("src", ".mimir/x"),
        ("src", ".env"),
    ] {
        assert_eq!(
            world.symlink(says, path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    world.symlink("../src/main.rs", "a/made").unwrap();
    assert_eq!(world.read("a/made").unwrap(), "fn main() {}");
    world.symlink("not-there-yet", "dangling").unwrap();
    // A link may be created before the link that would redirect it outside, and still no access is possible.
    symlink("../outside", world.host("bent")).unwrap();
    world.symlink("bent/secret.txt", "later").unwrap();
    assert_eq!(world.read("later").err(), Some(ErrorCode::NotPermitted));
}
