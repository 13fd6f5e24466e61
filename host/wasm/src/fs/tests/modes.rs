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
fn mode_of_the_replaced_file_is_preserved() {
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
fn mode_never_gains_setuid_or_wider_access() {
    let mut world = World::new();
    set(&world, "a/open.txt", 0o4755);
    world.write("new", "new").unwrap();
    set(&world, "new", 0o644);
    world.rename("new", "a/open.txt").unwrap();
    assert_eq!(mode(&world, "a/open.txt"), 0o755);
    // A file accessible to its owner only stays so.
    world.write("own", "own").unwrap();
    set(&world, "own", 0o600);
    world.rename("own", "a/open.txt").unwrap();
    assert_eq!(mode(&world, "a/open.txt"), 0o700);
}

#[test]
fn mode_is_unchanged_if_no_file_is_replaced() {
    let mut world = World::new();
    set(&world, "src/main.rs", 0o751);
    world.rename("src/main.rs", "main.rs").unwrap();
    assert_eq!(mode(&world, "main.rs"), 0o751);
    // Nor does a failed move, or one that replaces a link, whose own bits mean nothing.
    set(&world, "src/deep", 0o700);
    world.rename("main.rs", "src/deep").unwrap_err();
    assert_eq!(mode(&world, "main.rs"), 0o751);
    world.symlink("a/open.txt", "link").unwrap();
    world.rename("main.rs", "link").unwrap();
    assert_eq!(mode(&world, "link"), 0o751);
}

#[test]
fn mode_of_new_files_is_the_default() {
    let mut world = World::new();
    world.mkdir("dir").unwrap();
    world.write("file", "x").unwrap();
    fs::create_dir(world.host("dir-too")).unwrap();
    fs::write(world.host("file-too"), "x").unwrap();
    assert_eq!(mode(&world, "dir"), mode(&world, "dir-too"));
    assert_eq!(mode(&world, "file"), mode(&world, "file-too"));
}
