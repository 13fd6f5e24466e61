#![cfg(unix)]

use super::*;
use std::os::unix::fs::PermissionsExt;

fn mode(world: &World, path: &str) -> u32 {
    let meta = fs::symlink_metadata(world.host(path)).expect("a file");
    meta.permissions().mode() & 0o7777
}

fn set(world: &World, path: &str, mode: u32) {
    fs::set_permissions(world.host(path), fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_file_takes_the_mode_of_the_one_it_replaces() {
    let mut world = World::new();
    for old in [0o755, 0o600, 0o640, 0o444] {
        set(&world, "a/open.txt", old);
        world.write("a/new.tmp", "new").unwrap();
        set(&world, "a/new.tmp", 0o644);
        world.rename("a/new.tmp", "a/open.txt").unwrap();
        assert_eq!(mode(&world, "a/open.txt"), old, "{old:o}");
        assert_eq!(world.read("a/open.txt").unwrap(), "new");
    }
}

#[test]
fn neither_setuid_nor_a_wider_circle_is_taken_over() {
    let mut world = World::new();
    set(&world, "a/open.txt", 0o4755);
    world.write("new", "new").unwrap();
    set(&world, "new", 0o644);
    world.rename("new", "a/open.txt").unwrap();
    assert_eq!(mode(&world, "a/open.txt"), 0o755);
    // A file that is its owner's alone stays so.
    world.write("own", "own").unwrap();
    set(&world, "own", 0o600);
    world.rename("own", "a/open.txt").unwrap();
    assert_eq!(mode(&world, "a/open.txt"), 0o700);
}

#[test]
fn a_move_that_replaces_no_file_changes_no_mode() {
    let mut world = World::new();
    set(&world, "src/main.rs", 0o751);
    world.rename("src/main.rs", "main.rs").unwrap();
    assert_eq!(mode(&world, "main.rs"), 0o751);
    // Nor one that fails, or replaces a link, whose own bits mean nothing.
    set(&world, "src/deep", 0o700);
    world.rename("main.rs", "src/deep").unwrap_err();
    assert_eq!(mode(&world, "main.rs"), 0o751);
    world.symlink("a/open.txt", "link").unwrap();
    world.rename("main.rs", "link").unwrap();
    assert_eq!(mode(&world, "link"), 0o751);
}

#[test]
fn what_is_made_in_the_state_is_for_its_owner_alone() {
    let mut world = World::with(64, |ws| {
        fs::create_dir(ws.join(".mimir/state/backups")).expect("a directory");
        vec![Mount {
            rules: PathRules::none(),
            ..mount(ws, ".mimir/state/backups", Access::ReadWrite)
        }]
    });
    let place = |name: &str| format!(".mimir/state/backups/{name}");
    world.mkdir("r").unwrap();
    world.write("r/0", SECRET).unwrap();
    world.write("r/../one", SECRET).unwrap();
    assert_eq!(mode(&world, &place("r")) & 0o77, 0);
    assert_eq!(mode(&world, &place("r/0")) & 0o177, 0);
    assert_eq!(mode(&world, &place("one")) & 0o177, 0);
    // What is there from before is closed before it is written again, and stays closed when replaced.
    for again in ["old", "old.json"] {
        fs::write(world.host(&place(again)), "old").unwrap();
        set(&world, &place(again), 0o644);
    }
    world.write("old", SECRET).unwrap();
    assert_eq!(mode(&world, &place("old")), 0o600);
    world.rename("old", "old.json").unwrap();
    assert_eq!(mode(&world, &place("old.json")), 0o600);
}

#[test]
fn elsewhere_files_are_made_as_everybody_makes_them() {
    let mut world = World::new();
    world.mkdir("dir").unwrap();
    world.write("file", "x").unwrap();
    fs::create_dir(world.host("dir-too")).unwrap();
    fs::write(world.host("file-too"), "x").unwrap();
    assert_eq!(mode(&world, "dir"), mode(&world, "dir-too"));
    assert_eq!(mode(&world, "file"), mode(&world, "file-too"));
}
