//! Secrets in files that a model reads masked and then writes back.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_testkit::json;

use super::{done, fails, kit};

const TOKEN: &str = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";
const OTHER: &str = "ghp_9bYr2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";

#[test]
fn masks_are_not_written_over_the_secrets_of_a_file() {
    let kit = kit();
    let path = kit.path().join("settings.py");
    let old = format!("GITHUB_TOKEN = \"{TOKEN}\"\nDEBUG = True\nGITLAB_TOKEN = \"{OTHER}\"\n");
    fs::write(&path, &old).unwrap();
    let shown = done(&kit, "read_file", json!({"path": "settings.py"}));
    let shown = shown["content"].as_str().unwrap().to_owned();
    assert_eq!(shown.matches("[REDACTED:github-pat]").count(), 2, "{shown}");
    let content = shown.replace("True", "False");
    done(
        &kit,
        "write_file",
        json!({"path": "settings.py", "content": content}),
    );
    let old = old.replace("True", "False");
    assert_eq!(fs::read_to_string(&path).unwrap(), old);

    let edit = json!({
        "path": "./settings.py",
        "pattern": "GITLAB_TOKEN = \"[REDACTED:github-pat]\"",
        "replacement": "GITLAB_KEY = \"[REDACTED:github-pat]\"",
    });
    let edited = done(&kit, "edit_file", edit);
    assert_eq!(edited["replacements"], 1);
    assert!(!edited.to_string().contains("ghp_"), "{edited}");
    let old = old.replace("GITLAB_TOKEN", "GITLAB_KEY");
    assert_eq!(fs::read_to_string(&path).unwrap(), old);

    let compact = json!({"operation": "write", "path": "settings.py", "content": format!("# mine\n{}", shown.replace("GITLAB_TOKEN", "GITLAB_KEY"))});
    done(&kit, "file_operations", compact);
    let now = fs::read_to_string(&path).unwrap();
    assert!(
        now.starts_with("# mine\n") && now.contains(TOKEN) && now.contains(OTHER),
        "{now}"
    );
    let moved = json!({"from": "settings.py", "to": "moved.py"});
    done(&kit, "move_file", moved);
    assert_eq!(
        fs::read_to_string(kit.path().join("moved.py")).unwrap(),
        now
    );
}

#[test]
fn masks_are_not_written_to_other_files() {
    let kit = kit();
    fs::write(kit.path().join("a.txt"), format!("token {TOKEN}\n")).unwrap();
    done(&kit, "read_file", json!({"path": "a.txt"}));
    let copy = json!({"path": "b.txt", "content": "token [REDACTED:github-pat]\n"});
    let error = fails(&kit, "write_file", copy, ToolErrorCode::InvalidInput);
    assert!(
        error
            .message
            .contains("can only be restored in its own file"),
        "{error}"
    );
    assert!(!kit.path().join("b.txt").exists());
}
