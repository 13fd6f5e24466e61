//! Links that lead out of the workspace.

#[cfg(unix)]
use std::fs;

#[cfg(unix)]
use mimir_core::ToolErrorCode;
use mimir_kit::Outside;
#[cfg(unix)]
use mimir_testkit::{Approve, Testkit, json};

#[cfg(unix)]
use super::all_refused;
use super::{arena, probe, refused};

#[test]
#[cfg(unix)]
fn symlinks_to_the_outside_are_refused() {
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
#[cfg(unix)]
fn symlinks_leading_out_after_a_move_are_refused() {
    use std::os::unix::fs::symlink;
    let arena = arena();
    let root = arena.kit().path();
    // Each link points inside where it is created, and would point outside where it is moved.
    let made = probe(
        &arena,
        "file_probe",
        &[
            ["mkdir", "sub/deep/a", ""],
            ["symlink", "sub/deep/a/link", "../../../plain.txt"],
            ["mkdir", "sub/deep/b", ""],
            ["mkdir", "sub/deep/b/c", ""],
            ["symlink", "sub/deep/b/c/link", "../../../../out"],
        ],
    );
    assert!(!made.iter().any(refused), "{made:?}");
    fs::create_dir(root.join("sub/deep/d")).unwrap();
    symlink("x/../../../../out", root.join("sub/deep/d/winding")).unwrap();
    all_refused(
        &arena,
        &[
            ["rename", "sub/deep/a", "a"],
            ["rename", "sub/deep/a", "sub/a"],
            ["rename", "sub/deep/a/link", "link"],
            ["rename", "sub/deep/b", "b"],
            ["rename", "sub/deep/b/c", "sub/c"],
            ["rename", "sub/deep", "deep"],
            ["rename", "sub/deep/d", "sub/d"],
        ],
    );
    // A handle identifies the old location of a folder, not the current one.
    let held = probe(
        &arena,
        "file_probe",
        &[["symlink-held", "sub/held", "held"]],
    );
    assert!(refused(&held[0]), "there is nothing to hold: {}", held[0]);
    fs::create_dir_all(root.join("sub/held")).unwrap();
    let held = probe(
        &arena,
        "file_probe",
        &[["symlink-held", "sub/held", "held"]],
    );
    assert!(refused(&held[0]), "{}", held[0]);
    assert!(root.join("held").is_dir() && fs::symlink_metadata(root.join("held/held")).is_err());
}

#[test]
#[cfg(unix)]
fn symlink_target_of_a_protected_path_is_hidden() {
    use std::os::unix::fs::symlink;
    let arena = arena();
    let root = arena.kit().path();
    symlink("/somewhere/secret", root.join(".env")).unwrap();
    symlink("/somewhere/else", root.join("sub/plain-link")).unwrap();
    all_refused(
        &arena,
        &[["readlink", ".env", ""], ["readlink", "sub/../.env", ""]],
    );
    let told = probe(&arena, "file_probe", &[["readlink", "sub/plain-link", ""]]);
    assert_eq!(told[0]["target"], "/somewhere/else");
    // Reading the target of a link gives no access, nor to another link like it.
    all_refused(
        &arena,
        &[
            ["read", "sub/plain-link", ""],
            ["write", "sub/plain-link", "x"],
            ["symlink", "again", "/somewhere/else"],
            ["rename", "sub/plain-link", "elsewhere"],
            ["link", "sub/plain-link", "elsewhere"],
        ],
    );
}

#[test]
fn symlinks_made_by_the_guest_give_no_access() {
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

#[test]
#[cfg(unix)]
fn symlinks_do_not_bypass_path_rules() {
    use std::os::unix::fs::symlink;
    let kit = Testkit::with_bundled(mimir_kit::builtins()).unwrap();
    // A checkout may contain links.
    let kit = kit.approve(Approve::Never).workspace(|root| {
        for folder in ["generated", "src", "keys"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        fs::write(root.join("src/main.rs"), "old").unwrap();
        fs::write(root.join("keys/id"), "key").unwrap();
        fs::write(root.join("generated/old.rs"), "old").unwrap();
        symlink("../src", root.join("generated/s")).unwrap();
        symlink("keys", root.join("k")).unwrap();
        symlink("k", root.join("chain")).unwrap();
        symlink("keys/id", root.join("file")).unwrap();
    });
    let kit = kit
        .settings(json!({"policy": {"rules": [
            {"tools": ["write_file"], "when": {"path": {"inside": "generated"}}, "decision": "allow"},
            {"when": {"path": {"inside": "keys"}}, "decision": "deny"},
        ]}}))
        .unwrap();
    let write = |path: &str| kit.call("write_file", json!({"path": path, "content": "new"}));
    assert!(write("generated/old.rs").is_ok());
    for path in [
        "generated/s/main.rs",
        "./generated//s/../s/main.rs",
        "src/main.rs",
    ] {
        let outcome = write(path);
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{path}: {error}");
    }
    assert_eq!(fs::read(kit.path().join("src/main.rs")).unwrap(), b"old");
    for path in [
        "keys/id",
        "k/id",
        "chain/id",
        "file",
        "src/../k/id",
        "k/new",
    ] {
        let outcome = kit.call("read_file", json!({ "path": path }));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{path}: {error}");
    }
}
