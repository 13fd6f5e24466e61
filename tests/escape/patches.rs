//! Patches that try to leave the workspace, or to change protected files. Nothing is written, also when only the last
//! path of a patch is refused.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::{Outside, picture};
use mimir_testkit::{Testkit, json};

fn arena() -> Testkit {
    Testkit::with_bundled(mimir_kit::builtins())
        .unwrap()
        .workspace(|root| {
            fs::write(root.join("plain.txt"), "plain\n").unwrap();
            for path in [
                ".git/hooks/pre-commit",
                ".bashrc",
                ".env",
                ".mimir/config.yml",
            ] {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "{}\n").unwrap();
            }
        })
}

/// Patches that touch a path, each after a change that would succeed.
fn patches(path: &str) -> Vec<String> {
    let sections = [
        format!("*** Add File: {path}\n+x\n"),
        format!("*** Update File: {path}\n-{{}}\n+x\n"),
        format!("*** Delete File: {path}\n"),
        format!("*** Update File: {path}\n*** Move to: stolen.txt\n {{}}\n"),
        format!("*** Update File: plain.txt\n*** Move to: {path}\n-plain\n+x\n"),
    ];
    let codex = sections.iter().map(|section| {
        format!("*** Begin Patch\n*** Add File: first.txt\n+x\n{section}*** End Patch\n")
    });
    let first = "--- /dev/null\n+++ b/first.txt\n@@ -0,0 +1 @@\n+x\n";
    let unified = [
        format!("{first}--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{{}}\n+x\n"),
        format!("{first}--- {path}\n+++ {path}\n@@ -1 +1 @@\n-{{}}\n+x\n"),
        format!("{first}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"),
        format!("{first}--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{{}}\n"),
        format!("{first}diff --git a/{path} b/{path}\nrename from plain.txt\nrename to {path}\n"),
        format!("{first}diff --git a/plain.txt b/{path}\nrename from {path}\nrename to x.txt\n"),
    ];
    codex.chain(unified).collect()
}

fn all_refused(kit: &Testkit, path: &str) {
    let before = picture(kit.path());
    for patch in patches(path) {
        let outcome = kit.call("apply_patch", json!({ "patch": patch }));
        let error = outcome.result().expect_err(&patch);
        assert!(
            matches!(
                error.code,
                ToolErrorCode::InvalidPath
                    | ToolErrorCode::PermissionDenied
                    | ToolErrorCode::InvalidInput
                    | ToolErrorCode::FileNotFound
                    | ToolErrorCode::AlreadyExists
            ),
            "{patch}: {error}"
        );
        assert!(!error.to_string().contains(Outside::SECRET), "{error}");
    }
    let after = picture(kit.path());
    let changed: Vec<_> = after
        .iter()
        .filter(|(name, content)| {
            !name.starts_with(".mimir/state") && before.get(*name) != Some(content)
        })
        .collect();
    assert!(changed.is_empty(), "{path}: {changed:?}");
    assert!(before.keys().all(|name| after.contains_key(name)), "{path}");
}

#[test]
fn patch_paths_out_of_the_workspace_are_refused() {
    let (kit, outside) = (arena(), Outside::new());
    let up = outside.relative().join("secret").display().to_string();
    let absolute = outside.path().join("secret").display().to_string();
    for path in [
        up.clone(),
        absolute.clone(),
        format!("./{up}"),
        format!("nowhere/../{up}"),
        format!("/proc/self/root{absolute}"),
        format!("plain.txt/../{up}"),
    ] {
        all_refused(&kit, &path);
    }
    outside.intact();
}

#[test]
fn patch_of_protected_files_is_refused() {
    let kit = arena();
    for path in [
        ".git/hooks/pre-commit",
        ".git/hooks/post-merge",
        ".bashrc",
        ".BASHRC",
        ".env",
        "./sub/../.env",
        ".mimir/config.yml",
        ".mimir/state/audit.jsonl",
    ] {
        all_refused(&kit, path);
    }
}

#[test]
#[cfg(unix)]
fn patch_through_links_is_refused() {
    use std::os::unix::fs::symlink;
    let (kit, outside) = (arena(), Outside::new());
    let root = kit.path();
    symlink(outside.path(), root.join("out")).unwrap();
    symlink(outside.path().join("secret"), root.join("secret")).unwrap();
    symlink(".git/hooks", root.join("hooks")).unwrap();
    symlink(".env", root.join("settings")).unwrap();
    for path in [
        "out/secret",
        "out/new",
        "secret",
        "hooks/pre-commit",
        "hooks/new",
    ] {
        all_refused(&kit, path);
    }
    let patch = "*** Begin Patch\n*** Update File: settings\n-{}\n+x\n*** End Patch\n";
    let outcome = kit.call("apply_patch", json!({ "patch": patch }));
    assert!(outcome.result().is_err());
    assert_eq!(fs::read_to_string(root.join(".env")).unwrap(), "{}\n");
    outside.intact();
}
