//! Calls that need approval, and calls that are always refused.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::{Outside, picture};
use mimir_testkit::{Approve, Testkit, Value, json};

use super::{done, fails, kit};

/// Returns true if a person, who denies it, is asked about a call.
fn asks(kit: &Testkit, tool: &str, arguments: Value) -> bool {
    let before = kit.cards().len();
    let outcome = kit.call(tool, arguments);
    let asked = kit.cards().len() > before;
    if asked {
        assert_eq!(
            outcome.result().unwrap_err().code,
            ToolErrorCode::ApprovalDenied
        );
    }
    asked
}

#[test]
fn approval_is_needed_only_for_data_loss() {
    let kit = kit().approve(Approve::Never).workspace(|root| {
        fs::write(root.join("old.txt"), "old").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
    });
    for (tool, arguments) in [
        ("read_file", json!({"path": "old.txt"})),
        ("list_directory", json!({})),
        ("file_info", json!({"path": "old.txt"})),
        ("file_search", json!({"mode": "grep", "query": "old"})),
        ("write_file", json!({"path": "new.txt", "content": "new"})),
        (
            "move_file",
            json!({"from": "new.txt", "to": "folder/new.txt"}),
        ),
        (
            "file_operations",
            json!({"operation": "read", "path": "old.txt"}),
        ),
    ] {
        assert!(!asks(&kit, tool, arguments), "{tool}");
        assert!(kit.events().last().unwrap().ok, "{tool}");
    }
    for (tool, arguments) in [
        ("write_file", json!({"path": "old.txt", "content": "new"})),
        (
            "edit_file",
            json!({"path": "old.txt", "pattern": "old", "replacement": "new"}),
        ),
        ("delete_file", json!({"path": "old.txt"})),
        (
            "move_file",
            json!({"from": "folder/new.txt", "to": "old.txt", "overwrite": true}),
        ),
        (
            "file_operations",
            json!({"operation": "write", "path": "old.txt", "content": "new"}),
        ),
        (
            "file_operations",
            json!({"operation": "delete", "path": "old.txt"}),
        ),
    ] {
        assert!(asks(&kit, tool, arguments), "{tool}");
    }
    assert_eq!(
        fs::read_to_string(kit.path().join("old.txt")).unwrap(),
        "old"
    );
}

#[test]
fn protected_and_outside_paths_are_refused_with_a_code() {
    let outside = Outside::new();
    let up = outside.relative().join("secret").display().to_string();
    let absolute = outside.path().join("secret").display().to_string();
    let kit = kit().workspace(|root| {
        fs::write(root.join(".mimir/config.yml"), "limits: {}\n").unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join(".env"), Outside::SECRET).unwrap();
    });
    let before = picture(kit.path());
    for path in [
        ".mimir/config.yml",
        ".git/hooks/pre-commit",
        ".bashrc",
        ".mcp.json",
        ".env",
    ] {
        let error = fails(
            &kit,
            "write_file",
            json!({"path": path, "content": "x"}),
            ToolErrorCode::PermissionDenied,
        );
        assert!(error.message.contains(path), "{error}");
    }
    for path in [up.as_str(), absolute.as_str(), "../up", "a/../../up"] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("delete_file", json!({"path": path})),
            ("list_directory", json!({"path": path})),
            (
                "file_search",
                json!({"mode": "grep", "query": "crown", "path": path}),
            ),
        ] {
            let outcome = kit.call(tool, arguments);
            let error = outcome.result().expect_err(path);
            assert!(
                matches!(
                    error.code,
                    ToolErrorCode::InvalidPath | ToolErrorCode::PermissionDenied
                ),
                "{tool} {path}: {error}"
            );
        }
    }
    let error = fails(
        &kit,
        "read_file",
        json!({"path": ".env"}),
        ToolErrorCode::PermissionDenied,
    );
    assert!(!error.to_string().contains(Outside::SECRET));
    outside.intact();
    let changed: Vec<_> = picture(kit.path())
        .into_iter()
        .filter(|(path, content)| before.get(path) != Some(content))
        .collect();
    assert!(
        changed
            .iter()
            .all(|(path, _)| path.starts_with(".mimir/state")),
        "{changed:?}"
    );
}

#[test]
fn write_file_refusal_names_path_and_creates_no_folders() {
    let kit = kit().settings(json!({"tools": {"write_file": {"deny": ["new/sub/*.key"]}}}));
    let kit = kit.unwrap().workspace(|root| {
        fs::create_dir(root.join(".vscode")).unwrap();
    });
    for path in [".vscode/tasks.json", "new/sub/a.key", ".bashrc"] {
        let error = fails(
            &kit,
            "write_file",
            json!({"path": path, "content": "x", "createDirs": true}),
            ToolErrorCode::PermissionDenied,
        );
        assert!(
            error.message.contains(path) && !error.message.contains("unfinished"),
            "{error}"
        );
    }
    assert!(!kit.path().join("new").exists());
    assert_eq!(fs::read_dir(kit.path().join(".vscode")).unwrap().count(), 0);
}

#[test]
fn deny_rule_for_hidden_files_blocks_no_other_writes() {
    let deny = json!({"tools": {"write_file": {"deny": ["**/.*"]}}});
    let kit = kit().settings(deny).unwrap();
    done(
        &kit,
        "write_file",
        json!({"path": "a.txt", "content": "x", "backup": false}),
    );
    assert_eq!(fs::read_to_string(kit.path().join("a.txt")).unwrap(), "x");
    let error = fails(
        &kit,
        "write_file",
        json!({"path": ".hidden", "content": "x", "backup": false}),
        ToolErrorCode::PermissionDenied,
    );
    assert!(error.message.contains(".hidden"), "{error}");
    // The hint names the pattern of the rule.
    let way = &error.remedies;
    assert!(way.iter().any(|way| way.contains("`**/.*`")), "{way:?}");
}

#[test]
#[cfg(unix)]
fn backup_folder_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let kit = kit();
    let folder = kit.path().join(".mimir/state/backups");
    let mode = || fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
    let write = |content: &str| {
        done(
            &kit,
            "write_file",
            json!({"path": "a.txt", "content": content}),
        )
    };
    write("one");
    assert_eq!(mode(), 0o700);
    // A folder created by an earlier version gets the right permissions.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    write("two");
    assert_eq!(mode(), 0o700);
}

#[test]
fn deny_globs_of_the_config_hold() {
    let deny = json!({"deny": ["build/**", "*.sqlite"]});
    let config = json!({"tools": {"read_file": deny, "write_file": deny, "list_directory": deny}});
    let kit = kit().settings(config).unwrap().workspace(|root| {
        fs::create_dir(root.join("build")).unwrap();
        fs::write(root.join("build/out.txt"), "out").unwrap();
        fs::write(root.join("data.sqlite"), "data").unwrap();
    });
    fails(
        &kit,
        "read_file",
        json!({"path": "build/out.txt"}),
        ToolErrorCode::PermissionDenied,
    );
    fails(
        &kit,
        "read_file",
        json!({"path": "DATA.SQLITE"}),
        ToolErrorCode::PermissionDenied,
    );
    fails(
        &kit,
        "write_file",
        json!({"path": "build/new.txt", "content": "x"}),
        ToolErrorCode::PermissionDenied,
    );
    assert!(
        !done(&kit, "list_directory", json!({}))
            .to_string()
            .contains("sqlite")
    );
}

#[test]
fn delete_file_with_protected_content_is_all_or_nothing() {
    for backup in [true, false] {
        let kit = kit().workspace(|root| {
            for path in [
                "repo/.git/COMMIT_EDITMSG",
                "repo/.git/HEAD",
                "repo/.git/config",
                "repo/a.txt",
                "app/.env",
                "app/a.txt",
                "app/deep/b.txt",
                "blank/.env",
                "plain/deep/b.txt",
            ] {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "content").unwrap();
            }
        });
        let before = picture(kit.path());
        let delete = |path| json!({"path": path, "recursive": true, "backup": backup});
        for (path, rule) in [
            ("repo", "**/.git/config"),
            ("app", "`*.env`"),
            ("blank", "`*.env`"),
        ] {
            let error = fails(
                &kit,
                "delete_file",
                delete(path),
                ToolErrorCode::PermissionDenied,
            );
            assert!(
                error.message.contains(rule) && error.message.contains("nothing was deleted"),
                "{error}"
            );
        }
        let after = picture(kit.path());
        for (path, content) in before {
            assert_eq!(after.get(&path), Some(&content), "{path:?}");
        }
        done(&kit, "delete_file", delete("plain"));
        assert!(!kit.path().join("plain").exists());
    }
}
