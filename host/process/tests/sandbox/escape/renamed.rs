//! Attempts to move folders that contain hidden paths.

use mimir_core::paths::PathRules;
use mimir_process::sandbox::SandboxError;

use crate::kit::{World, exists, run_in, sandbox};

#[tokio::test]
async fn denied_folders_cannot_be_renamed() {
    for (deny, file, moved) in [
        ("keys/**", "keys/id", &["keys"][..]),
        ("a/keys/**", "a/keys/id", &["a", "a/keys"]),
        ("a/keys", "a/keys/id", &["a"]),
        ("a/*/id", "a/keys/id", &["a", "a/keys"]),
        ("a/keys/id", "a/keys/id", &["a", "a/keys"]),
        (
            "target/keys/**",
            "target/keys/id",
            &["target", "target/keys"],
        ),
        (
            "node_modules/keys/**",
            "node_modules/keys/id",
            &["node_modules", "node_modules/keys"],
        ),
    ] {
        let world = World::new()
            .with(file, "SECRET")
            .with("b/x", "x")
            .with("free/y", "y");
        for words in [
            &["init", "-q"][..],
            &["add", "-A"],
            &[
                "-c",
                "user.name=n",
                "-c",
                "user.email=e@e",
                "commit",
                "-qm",
                "one",
            ],
        ] {
            let mut git = std::process::Command::new("git");
            assert!(
                git.args(words)
                    .current_dir(world.path())
                    .status()
                    .unwrap()
                    .success()
            );
        }
        for from in moved {
            for text in [
                format!("mv {from} kk"),
                format!("python3 -c 'import os; os.rename(\"{from}\", \"kk\")'"),
                format!("git mv {from} kk"),
                format!("mv -T {from} b/kk"),
                format!(
                    "python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"{from}\", -100, b\"free\", 2)'"
                ),
                format!("cp -r {from} kk"),
                format!("ln -s {from} kk"),
                format!("rm -rf {from}"),
            ] {
                let mut spec = world.script(&format!("{text}; find . -name id -exec cat {{}} +"));
                spec.path_rules = PathRules::protected().deny([deny]).unwrap();
                let finished = run_in(&*sandbox(), &spec).await.unwrap();
                let said = String::from_utf8_lossy(&finished.combined.bytes).into_owned();
                assert!(!said.contains("SECRET"), "{deny}: {text}: {said}");
                assert_eq!(
                    world.read(file).as_deref(),
                    Some("SECRET"),
                    "{deny}: {text}: {said}"
                );
                for made in [
                    "kk/id",
                    "kk/keys/id",
                    "b/kk/id",
                    "b/kk/keys/id",
                    "free/id",
                    "free/keys/id",
                ] {
                    if let Some(text) = world
                        .read(made)
                        .filter(|_| !world.path().join("kk").is_symlink())
                    {
                        assert_ne!(text, "SECRET", "{deny}: {made}");
                    }
                }
                let _ = std::fs::remove_file(world.path().join("kk"));
                let _ = std::fs::remove_dir_all(world.path().join("kk"));
            }
        }
        // Paths without a matching rule can be moved.
        let mut spec = world
            .script("mv b c && mv c/x c/z && python3 -c 'import os; os.rename(\"free\", \"f\")'");
        spec.path_rules = PathRules::protected().deny([deny]).unwrap();
        let finished = run_in(&*sandbox(), &spec).await.unwrap();
        assert_eq!(finished.exit_code, 0, "{finished:?}");
        assert!(exists(&world.path().join("c/z")) && exists(&world.path().join("f/y")));
    }
}

/// Folders of downloads or build results are not searched for secrets, but paths in them that the user denies are
/// hidden.
#[tokio::test]
async fn denied_files_below_build_folders_are_hidden() {
    for (deny, file) in [
        ("target/keys/**", "target/keys/id"),
        ("target/keys", "target/keys/id"),
        ("a/target/*/id", "a/target/keys/id"),
        ("**/vendor.key", "node_modules/p/vendor.key"),
        ("vendor.key", "node_modules/p/node_modules/q/vendor.key"),
        (".cache/x/**", ".cache/x/id"),
    ] {
        let world = World::new()
            .with(file, "SECRETX")
            .with("target/.env", "built")
            .with("node_modules/p/.env", "built");
        // Other files there stay readable, even if their names look secret.
        let mut spec = world.script("cat target/.env node_modules/p/.env");
        spec.path_rules = PathRules::protected().deny([deny]).unwrap();
        let finished = run_in(&*sandbox(), &spec).await.unwrap();
        assert_eq!(finished.exit_code, 0, "{deny}: {finished:?}");
        for text in [
            "grep -r SECRETX .".to_owned(),
            format!("cat {file}"),
            format!("cp {file} kk; cat kk"),
            format!("mv $(dirname {file}) kk; grep -r SECRETX ."),
        ] {
            let mut spec = world.script(&text);
            spec.path_rules = PathRules::protected().deny([deny]).unwrap();
            let finished = match run_in(&*sandbox(), &spec).await {
                // The guard sees the moved folder if the command takes long enough.
                Err(SandboxError::Uncovered { stopped, .. }) => stopped.finished,
                result => result.unwrap(),
            };
            let output = String::from_utf8_lossy(&finished.combined.bytes).into_owned();
            assert!(!output.contains("SECRETX"), "{deny}: {text}: {output}");
        }
    }
}
