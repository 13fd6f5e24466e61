//! Files that other programs execute or obey, and files with secrets.

use std::fs;

use mimir_kit::{Arena, Outside, picture};

use super::{all_refused, arena, probe};

/// Files that another program executes or obeys; each must keep its content.
const PROTECTED: [&str; 18] = [
    ".mimir/config.yml",
    ".mimir/tools.lock",
    ".mimir/workers/one.yml",
    ".git/hooks/pre-commit",
    ".git/config",
    "sub/.git/hooks/post-checkout",
    ".bashrc",
    "sub/.profile",
    ".claude/settings.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".mcp.json",
    ".vscode/tasks.json",
    ".zshrc",
    ".husky/_/pre-commit",
    ".githooks/pre-push",
    ".devcontainer/devcontainer.json",
    "sub/.vimrc",
];

fn with_protected() -> Arena {
    let arena = arena();
    for path in PROTECTED {
        let path = arena.kit().path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "as it was").unwrap();
    }
    arena
}

#[test]
fn protected_files_are_not_changed() {
    let arena = with_protected();
    for path in PROTECTED {
        let upper = path.to_uppercase();
        let dotted = format!("./sub/../{path}");
        let slashes = path.replace('/', "//");
        for spelling in [path, &upper, &dotted, &slashes] {
            let new = format!("{spelling}.new/x");
            all_refused(
                &arena,
                &[
                    ["write", spelling, "changed"],
                    ["create", spelling, ""],
                    ["truncate", spelling, ""],
                    ["append", spelling, "changed"],
                    ["set-size", spelling, "0"],
                    ["times", spelling, ""],
                    ["unlink", spelling, ""],
                    ["mkdir", spelling, ""],
                    ["rename", spelling, "plain2.txt"],
                    ["rename", "plain.txt", spelling],
                    ["link", spelling, "plain2.txt"],
                    ["link", "plain.txt", spelling],
                    ["symlink", spelling, "plain.txt"],
                    ["create", &new, ""],
                ],
            );
        }
    }
}

#[test]
fn protected_folders_are_not_moved_or_replaced() {
    let arena = with_protected();
    for folder in [
        ".mimir",
        ".MIMIR",
        ".git/hooks",
        ".git",
        "sub/.git",
        ".claude",
        ".vscode",
    ] {
        let new = format!("{folder}/new.yml");
        let mut steps = vec![
            ["rename", folder, "moved"],
            ["rmdir", folder, ""],
            ["symlink", folder, "sub"],
        ];
        if !matches!(folder, ".git" | "sub/.git" | ".vscode") {
            steps.extend([
                ["create", &new, ""],
                ["mkdir", &new, ""],
                ["rename", "plain.txt", &new],
            ]);
        }
        all_refused(&arena, &steps);
    }
}

#[test]
fn protected_files_are_not_changed_by_another_name() {
    let arena = with_protected();
    let before = picture(arena.kit().path());
    probe(
        &arena,
        "file_probe",
        &[
            ["symlink", "a", ".mimir"],
            ["write", "a/config.yml", "changed"],
            ["create", "a/new.yml", ""],
            ["symlink", "b", ".mimir/config.yml"],
            ["write", "b", "changed"],
            ["truncate", "b", ""],
            ["append", "b", "changed"],
            ["link-follow", "b", "c"],
            ["write", "c", "changed"],
            ["link", ".bashrc", "d"],
            ["write", "d", "changed"],
            ["symlink", "e", ".git"],
            ["write", "e/hooks/pre-commit", "changed"],
            ["create", "e/hooks/new", ""],
            ["rename", ".git", "g"],
            ["write", "g/hooks/pre-commit", "changed"],
            ["rename", "g", ".git"],
            ["mkdir", "made", ""],
            ["mkdir", "made/hooks", ""],
            ["write", "made/hooks/pre-push", "evil"],
            ["rename", "made", "sub/deep/.git"],
            ["rename", "made/hooks", ".git/hooks"],
        ],
    );
    let after = picture(arena.kit().path());
    for (path, content) in &before {
        assert_eq!(after.get(path), Some(content), "{path} has changed");
    }
    let hooks = |path: &&String| path.contains(".git/hooks") || path.starts_with(".mimir/");
    let (old, new) = (
        before.keys().filter(hooks).count(),
        after.keys().filter(hooks).count(),
    );
    assert_eq!(old, new, "{after:?}");
}

#[test]
fn secrets_files_are_not_read() {
    let arena = arena();
    let secrets = [
        ".env",
        "sub/.env.local",
        "key.pem",
        "id_rsa",
        "sub/server.key",
        ".aws/credentials",
        ".mimir/state/audit.jsonl",
    ];
    for path in secrets {
        let path = arena.kit().path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, Outside::SECRET).unwrap();
    }
    for path in secrets {
        let upper = path.to_uppercase();
        for spelling in [path, &upper] {
            all_refused(
                &arena,
                &[
                    ["read", spelling, ""],
                    ["read-nofollow", spelling, ""],
                    ["stat", spelling, ""],
                    ["hash", spelling, ""],
                    ["rename", spelling, "plain2.txt"],
                    ["link", spelling, "plain2.txt"],
                    ["write", spelling, "changed"],
                    ["unlink", spelling, ""],
                ],
            );
        }
        let results = probe(
            &arena,
            "file_probe",
            &[
                ["symlink", "pointer", path],
                ["read", "pointer", ""],
                ["unlink", "pointer", ""],
            ],
        );
        assert!(
            results[1].get("read").is_none(),
            "{path} by a link: {}",
            results[1]
        );
    }
    let listed = probe(&arena, "file_probe", &[["list", ".", ""]]);
    assert!(!listed[0].to_string().contains(".env"), "{}", listed[0]);
}

#[test]
fn protected_content_blocks_removal_of_its_folder() {
    let arena = with_protected();
    // Before a recursive deletion the host is asked about the folder, and refuses before anything is gone.
    for folder in ["sub", ".git", "sub/.git", ".vscode", "."] {
        all_refused(&arena, &[["rmdir", folder, ""]]);
    }
}

#[test]
fn git_repository_layout_cannot_be_created() {
    let arena = arena();
    let root = arena.kit().path().to_owned();
    for folder in [
        "objects",
        "refs",
        "bare/objects",
        "bare/refs",
        "sub/.git/objects",
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    // The state after a clone: git's own files, with a protected config.
    fs::write(root.join("sub/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for head in ["HEAD", "bare/HEAD", "bare/head"] {
        all_refused(
            &arena,
            &[
                ["write", head, "ref: refs/heads/main"],
                ["create", head, ""],
                ["rename", "plain.txt", head],
                ["link", "plain.txt", head],
                ["symlink", head, "plain.txt"],
                ["rename", "sub/.git/HEAD", head],
                ["link", "sub/.git/HEAD", head],
            ],
        );
    }
    all_refused(&arena, &[["rename", "sub/.git", "bare2"]]);
    for made in ["HEAD", "bare/HEAD", "bare2"] {
        assert!(!root.join(made).exists(), "{made}");
    }
}
