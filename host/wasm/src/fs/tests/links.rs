#![cfg(unix)]

use super::*;
use std::os::unix::fs::symlink;

fn linked(links: &[(&str, &str)]) -> TestWorkspace {
    let workspace = TestWorkspace::new();
    for (target, path) in links {
        symlink(target, workspace.host(path)).expect("a link");
    }
    workspace
}

#[test]
fn links_inside_are_followed() {
    let mut workspace = linked(&[
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
        assert_eq!(workspace.read(path).unwrap(), "fn main() {}", "{path}");
    }
    assert_eq!(
        workspace.list("to-src").unwrap(),
        workspace.list("src").unwrap()
    );
    assert_eq!(workspace.list("src/slash/").unwrap(), ["er.rs"]);
    assert_eq!(workspace.readlink("two").unwrap(), "one");
    // Written through a link, created through a dangling one.
    workspace.write("to-src/new.rs", "new").unwrap();
    assert!(workspace.host("src/new.rs").exists());
    symlink("src/made.rs", workspace.host("dangling")).unwrap();
    workspace.write("dangling", "made").unwrap();
    assert_eq!(
        fs::read_to_string(workspace.host("src/made.rs")).unwrap(),
        "made"
    );
    // Removing and renaming affect the link itself.
    workspace.rename("one", "uno").unwrap();
    workspace.unlink("uno").unwrap();
    assert!(workspace.host("src/main.rs").exists());
    assert_eq!(
        workspace.rmdir("to-src").err(),
        Some(ErrorCode::NotDirectory)
    );
}

#[test]
fn links_to_the_outside_are_refused() {
    let mut workspace = linked(&[
        ("../outside", "out"),
        ("../outside/secret.txt", "file"),
        ("src/../../outside/secret.txt", "winding"),
        ("file", "chain"),
        ("..", "up"),
        ("../..", "src/upper"),
    ]);
    symlink(
        workspace.home.path().join("outside"),
        workspace.host("absolute"),
    )
    .unwrap();
    symlink(workspace.host("src"), workspace.host("absolute-inside")).unwrap();
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
        for (operation, error) in read_operations(&mut workspace, path) {
            if operation != "readlink" {
                assert_eq!(
                    error,
                    Some(ErrorCode::NotPermitted),
                    "{operation} of {path}"
                );
            }
        }
        assert_eq!(
            workspace.write(path, "x").err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
        assert_eq!(
            workspace.touch(path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    for path in ["out/new", "up/new", "absolute/new"] {
        let done = all_operations(&mut workspace, path);
        assert_refused(&done, path);
    }
    assert_eq!(
        fs::read_to_string(workspace.home.path().join("outside/secret.txt")).unwrap(),
        SECRET
    );
}

#[test]
fn links_can_be_read_unless_protected() {
    let mut workspace = linked(&[
        ("/usr/bin/python3", "src/python"),
        ("../../out", "src/up"),
        ("/usr/bin/python3", "a/secrets/python"),
    ]);
    assert_eq!(
        workspace.readlink("src/python").unwrap(),
        "/usr/bin/python3"
    );
    assert_eq!(workspace.readlink("src/up").unwrap(), "../../out");
    assert_eq!(
        workspace.readlink("a/secrets/python").err(),
        Some(ErrorCode::NotPermitted)
    );
    // It may be read, but neither followed nor created again, alone or elsewhere.
    assert_eq!(
        workspace.read("src/python").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.symlink("/usr/bin/python3", "src/again").err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        workspace.rename("src/python", "src/make").err(),
        Some(ErrorCode::NotPermitted)
    );
    workspace.rename("src", "moved").unwrap();
    assert_eq!(
        fs::read_link(workspace.host("moved/python")).unwrap(),
        Path::new("/usr/bin/python3")
    );
    workspace.unlink("moved/python").unwrap();
}

#[test]
fn links_do_not_circumvent_a_rule() {
    let mut workspace = linked(&[
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
            workspace.read(path).err(),
            Some(ErrorCode::NotPermitted),
            "read {path}"
        );
        assert_eq!(
            workspace.stat(path).err(),
            Some(ErrorCode::NotPermitted),
            "stat {path}"
        );
        assert_eq!(
            workspace.hash(path).err(),
            Some(ErrorCode::NotPermitted),
            "hash {path}"
        );
        assert_eq!(
            workspace.write(path, "x").err(),
            Some(ErrorCode::NotPermitted),
            "write {path}"
        );
        assert_eq!(
            workspace.touch(path).err(),
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
        let done: Vec<_> = all_operations(&mut workspace, path)
            .into_iter()
            .skip(5)
            .collect();
        assert_refused(&done, path);
    }
    assert_eq!(workspace.read("m/config.yml").unwrap(), "settings");
    assert_eq!(workspace.list("to-a").unwrap(), ["open.txt"]);
    assert_eq!(
        workspace.list("to-secrets").err(),
        Some(ErrorCode::NotPermitted)
    );
}

#[test]
fn links_in_a_loop_are_an_error() {
    let mut workspace = linked(&[
        ("loop", "loop"),
        ("b", "c"),
        ("c", "b"),
        ("./self/x", "self"),
    ]);
    for path in ["loop", "b", "c/x", "loop/x", "self"] {
        assert_eq!(workspace.read(path).err(), Some(ErrorCode::Loop), "{path}");
        assert_eq!(workspace.stat(path).err(), Some(ErrorCode::Loop), "{path}");
    }
}

#[test]
fn links_are_followed_only_on_request() {
    let mut workspace = linked(&[("src/main.rs", "one")]);
    let open = workspace.run(async |mut view, root| {
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
    let stat = workspace
        .run(async |mut view, root| view.stat_at(root, PathFlags::empty(), "one".into()).await);
    assert_eq!(stat.unwrap().type_, types::DescriptorType::SymbolicLink);
    let new = workspace.open(
        "one",
        OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
        DescriptorFlags::WRITE,
    );
    assert_eq!(new.err(), Some(ErrorCode::Exist));
}

#[test]
fn links_are_created_only_if_harmless() {
    let mut workspace = TestWorkspace::new();
    for target in [
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
            workspace.symlink(target, "made").err(),
            Some(ErrorCode::NotPermitted),
            "{target}"
        );
    }
    for (target, path) in [
        ("src", ".git"),
        ("src", "a/.config"),
        ("src", ".vscode"),
        ("src", ".mimir/x"),
        ("src", ".env"),
    ] {
        assert_eq!(
            workspace.symlink(target, path).err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
    }
    workspace.symlink("../src/main.rs", "a/made").unwrap();
    assert_eq!(workspace.read("a/made").unwrap(), "fn main() {}");
    workspace.symlink("not-there-yet", "dangling").unwrap();
    // A link may be created before the link that would redirect it outside, and still no access is possible.
    symlink("../outside", workspace.host("bent")).unwrap();
    workspace.symlink("bent/secret.txt", "later").unwrap();
    assert_eq!(workspace.read("later").err(), Some(ErrorCode::NotPermitted));
}
