//! Links that lead out.

use mimir_kit::Outside;

#[cfg(unix)]
use super::all_refused;
use super::{arena, probe, refused};

#[test]
#[cfg(unix)]
fn symlinks_that_lead_out() {
    use std::os::unix::fs::symlink;
    let arena = arena();
    let outside = Outside::new();
    let root = arena.kit().path();
    symlink(outside.path(), root.join("folder")).unwrap();
    symlink(outside.relative(), root.join("up")).unwrap();
    symlink(outside.path().join("secret"), root.join("file")).unwrap();
    symlink("folder/inner", root.join("chain")).unwrap();
    symlink(outside.path().join("not-yet"), root.join("dangling")).unwrap();
    symlink("/", root.join("sub/root")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    for folder in ["folder", "up", "chain", "sub/root"] {
        let secret = format!("{folder}/secret");
        let new = format!("{folder}/new");
        all_refused(
            &arena,
            &[
                ["read", &secret, ""],
                ["write", &secret, "changed"],
                ["create", &new, ""],
                ["mkdir", &new, ""],
                ["stat", &secret, ""],
                ["list", folder, ""],
                ["unlink", &secret, ""],
                ["rename", &secret, "stolen"],
                ["rename", "plain.txt", &new],
                ["link", &secret, "stolen"],
                ["walk", folder, ""],
            ],
        );
    }
    for file in ["file", "dangling", "loop"] {
        all_refused(
            &arena,
            &[
                ["read", file, ""],
                ["read-nofollow", file, ""],
                ["write", file, "changed"],
                ["truncate", file, ""],
                ["append", file, "changed"],
                ["set-size", file, "0"],
                ["stat", file, ""],
                ["times", file, ""],
                ["link-follow", file, "stolen"],
            ],
        );
    }
    outside.intact();
}

#[test]
fn symlinks_that_the_guest_makes_lead_nowhere() {
    let arena = arena();
    let outside = Outside::new();
    let targets = [
        outside.path().display().to_string(),
        outside.relative().display().to_string(),
        "sub/../..".to_owned(),
        "/".to_owned(),
    ];
    for (at, target) in targets.iter().enumerate() {
        let link = format!("link{at}");
        let tail = outside.path().file_name().unwrap().to_str().unwrap();
        let paths = [
            format!("{link}/secret"),
            format!("{link}/{tail}/secret"),
            format!("{link}{}/secret", outside.path().display()),
        ];
        let mut steps = vec![["symlink", link.as_str(), target.as_str()]];
        for path in &paths {
            steps.extend([
                ["read", path, ""],
                ["write", path, "changed"],
                ["unlink", path, ""],
            ]);
        }
        for result in &probe(&arena, "file_probe", &steps)[1..] {
            assert!(refused(result), "{target}: {result}");
        }
    }
    outside.intact();
}
