//! Paths that lead out of the workspace, or are malformed.

use mimir_kit::Outside;

use super::{all_refused, arena};

#[test]
fn paths_out_of_the_workspace_are_refused() {
    let arena = arena();
    let outside = Outside::new();
    let up = outside.relative().display().to_string();
    let absolute = outside.path().display().to_string();
    let folders = [
        up.clone(),
        absolute.clone(),
        format!("/{absolute}"),
        format!("./{up}"),
        format!("sub/../{up}"),
        format!("sub/deep/../../{up}"),
        format!("sub//..///{up}"),
        format!("sub/./../{up}"),
        format!("nowhere/../{up}"),
        format!("plain.txt/../{up}"),
        up.replace('/', "\\"),
        up.replace('/', "//"),
        format!("{up}/."),
        format!("{up}/../{}", up.trim_start_matches("../")),
        format!("\u{ff0e}\u{ff0e}/{}", up.trim_start_matches("../")),
        format!("%2e%2e/{}", up.trim_start_matches("../")),
        format!("..\0/{}", up.trim_start_matches("../")),
        format!("/proc/self/root{absolute}"),
        format!("/proc/self/cwd/{up}"),
        format!("{}{absolute}", "../".repeat(40)),
        format!("sub/{}{absolute}", "../".repeat(40)),
    ];
    for folder in &folders {
        let secret = format!("{folder}/secret");
        let new = format!("{folder}/new");
        let inner = format!("{folder}/inner");
        all_refused(
            &arena,
            &[
                ["read", &secret, ""],
                ["read-nofollow", &secret, ""],
                ["write", &secret, "changed"],
                ["truncate", &secret, ""],
                ["append", &secret, "changed"],
                ["create", &new, ""],
                ["mkdir", &new, ""],
                ["stat", &secret, ""],
                ["stat-nofollow", &secret, ""],
                ["times", &secret, ""],
                ["hash", &secret, ""],
                ["list", folder, ""],
                ["open-dir-rw", folder, ""],
                ["walk", folder, ""],
                ["unlink", &secret, ""],
                ["rmdir", &inner, ""],
                ["rename", &secret, "stolen"],
                ["rename", "plain.txt", &new],
                ["link", &secret, "stolen"],
                ["link", "plain.txt", &new],
                ["symlink", &new, "plain.txt"],
                ["readlink", &secret, ""],
            ],
        );
    }
    outside.intact();
}

#[test]
fn paths_that_are_malformed_are_refused() {
    let arena = arena();
    let long = "x".repeat(5_000);
    let deep = "d/".repeat(5_000);
    let huge = "y".repeat(1 << 20);
    for path in [
        "", "/", "//", "..", "../..", "\0", "sub/\0", &long, &deep, &huge,
    ] {
        all_refused(
            &arena,
            &[
                ["read", path, ""],
                ["write", path, "x"],
                ["unlink", path, ""],
                ["mkdir", path, ""],
            ],
        );
    }
}
