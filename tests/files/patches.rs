//! `apply_patch` under the real pipeline: rules, approvals, undo and masks of every file that a patch names.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::picture;
use mimir_testkit::{Approve, Testkit, Value, json};

use super::{done, fails, kit};

fn codex(sections: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{sections}*** End Patch\n") })
}

fn text(kit: &Testkit, path: &str) -> String {
    fs::read_to_string(kit.path().join(path)).unwrap()
}

fn with_files() -> Testkit {
    kit().workspace(|root| {
        fs::write(root.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(root.join("b.txt"), "b\n").unwrap();
        fs::write(root.join("c.txt"), "c\n").unwrap();
    })
}

const ALL: &str = "*** Update File: a.txt\n one\n-two\n+2\n*** Update File: b.txt\n*** Move to: sub/b2.txt\n-b\n+B\n*** Delete File: c.txt\n*** Add File: new.txt\n+n\n";

#[test]
fn patch_changes_files_after_one_question_with_the_list() {
    let kit = with_files();
    let patched = done(&kit, "apply_patch", codex(ALL));
    let files = patched["files"].as_array().unwrap().iter();
    let actions: Vec<_> = files.map(|file| file["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["updated", "moved", "deleted", "added"]);
    assert_eq!(text(&kit, "a.txt"), "one\n2\nthree\n");
    assert_eq!(text(&kit, "sub/b2.txt"), "B\n");
    assert!(!kit.path().join("c.txt").exists() && !kit.path().join("b.txt").exists());
    let cards = kit.cards();
    assert_eq!(cards.len(), 1);
    let card = format!("{:?}", cards[0]);
    for part in [
        "changes a.txt",
        "b.txt to sub/b2.txt",
        "deletes c.txt",
        "creates new.txt",
    ] {
        assert!(card.contains(part), "{part}: {card}");
    }
    // The record has every change.
    let id = patched["backup"].as_str().unwrap();
    let record = text(&kit, &format!(".mimir/state/backups/{id}.json"));
    for path in ["a.txt", "b.txt", "sub/b2.txt", "c.txt", "new.txt"] {
        assert!(record.contains(&format!("\"{path}\"")), "{path}: {record}");
    }
}

#[test]
fn patch_that_only_adds_files_is_not_asked_about() {
    let kit = with_files().approve(Approve::Never);
    done(&kit, "apply_patch", codex("*** Add File: new.txt\n+n\n"));
    fails(
        &kit,
        "apply_patch",
        codex("*** Update File: a.txt\n-one\n+1\n"),
        ToolErrorCode::ApprovalDenied,
    );
    assert_eq!(kit.cards().len(), 1);
    assert_eq!(text(&kit, "a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn patch_obeys_the_rules_of_the_other_file_tools() {
    let update = "*** Update File: a.txt\n-one\n+1\n";
    let delete = "*** Delete File: c.txt\n";
    let moves = "*** Update File: b.txt\n*** Move to: d.txt\n b\n";
    let add = "*** Add File: out/x.txt\n+x\n";
    for (settings, sections) in [
        (
            json!({"tools": {"edit_file": {"approval": "always_deny"}}}),
            update,
        ),
        (
            json!({"tools": {"delete_file": {"enabled": false}}}),
            delete,
        ),
        (
            json!({"tools": {"move_file": {"approval": "always_deny"}}}),
            moves,
        ),
        (json!({"tools": {"write_file": {"deny": ["out/**"]}}}), add),
        (json!({"files": {"deny": ["a.txt"]}}), update),
        (json!({"tools": {"apply_patch": {"deny": ["c.*"]}}}), delete),
    ] {
        let kit = with_files().settings(settings.clone()).unwrap();
        let before = picture(kit.path());
        let all = format!("*** Add File: first.txt\n+1\n{sections}");
        let outcome = kit.call("apply_patch", codex(&all));
        let error = outcome.result().expect_err("a rule denies it");
        assert!(
            matches!(
                error.code,
                ToolErrorCode::PolicyDenied | ToolErrorCode::PermissionDenied
            ),
            "{settings}: {error}"
        );
        assert!(
            kit.cards().is_empty(),
            "{settings}: denied without a question"
        );
        assert_eq!(picture(kit.path()), before, "{settings}");
    }
}

#[test]
fn patch_rejects_leave_all_files_and_show_the_lines() {
    let kit = with_files();
    let before = picture(kit.path());
    let error = fails(
        &kit,
        "apply_patch",
        json!({"patch": "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+B\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-zwei\n+2\n"}),
        ToolErrorCode::NotFound,
    );
    assert!(error.message.contains("2|two"), "{error}");
    let details = error.details.as_ref().unwrap();
    assert_eq!(details["rejects"][0]["path"], "a.txt");
    assert_eq!(picture(kit.path()), before);
}

#[test]
fn patch_changes_nothing_if_the_disk_refuses_a_write() {
    let kit = with_files().settings(json!({"limits": {"newFileBytes": 3_000}}));
    let kit = kit.unwrap();
    let before = picture(kit.path());
    let large = "+line of the file\n".repeat(100);
    let sections = format!(
        "*** Update File: a.txt\n-one\n+1\n*** Delete File: c.txt\n*** Add File: x/1.txt\n{large}*** Add File: x/2.txt\n{large}"
    );
    let outcome = kit.call("apply_patch", codex(&sections));
    let error = outcome.result().expect_err("the files are too large");
    assert!(error.message.contains("nothing was changed"), "{error}");
    assert_eq!(error.details.as_ref().unwrap()["path"], "x/2.txt");
    let after = picture(kit.path());
    let is_state = |path: &str| path.starts_with(".mimir/state");
    let changed: Vec<_> = after
        .iter()
        .filter(|(path, content)| !is_state(path) && before.get(*path) != Some(content))
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert!(before.keys().all(|path| after.contains_key(path)));
}

#[test]
fn patch_rules_about_content_apply() {
    let rule = json!({"policy": {"rules": [{
        "tools": ["write_file", "edit_file"],
        "when": {"replacement": {"regex": "forbidden"}},
        "decision": "deny",
    }]}});
    let kit = with_files().settings(rule).unwrap();
    let denied = codex("*** Update File: a.txt\n-one\n+forbidden\n");
    fails(&kit, "apply_patch", denied, ToolErrorCode::PolicyDenied);
    done(
        &kit,
        "apply_patch",
        codex("*** Update File: a.txt\n-one\n+fine\n"),
    );
}

#[test]
fn patch_accepts_the_argument_name_of_codex() {
    let kit = with_files();
    let patch = codex("*** Update File: a.txt\n-one\n+1\n");
    done(&kit, "apply_patch", json!({ "input": patch["patch"] }));
    assert_eq!(text(&kit, "a.txt"), "1\ntwo\nthree\n");
}

const TOKEN: &str = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";

#[test]
fn patch_restores_masks_only_in_their_own_file() {
    let kit = kit();
    let old = format!("DEBUG = True\nTOKEN = \"{TOKEN}\"\nEND\n");
    fs::write(kit.path().join("s.py"), &old).unwrap();
    fs::write(kit.path().join("t.py"), "END\n").unwrap();
    done(&kit, "read_file", json!({"path": "s.py"}));
    let mask = "TOKEN = \"[REDACTED:github-pat]\"";
    let unified = format!(
        "--- a/s.py\n+++ b/s.py\n@@ -1,3 +1,4 @@\n-DEBUG = True\n+DEBUG = False\n {mask}\n+MORE = 1\n END\n"
    );
    let patched = kit.call("apply_patch", json!({ "patch": unified }));
    assert!(patched.result().is_ok(), "{}", patched.text());
    assert_eq!(
        text(&kit, "s.py"),
        format!("DEBUG = False\nTOKEN = \"{TOKEN}\"\nMORE = 1\nEND\n")
    );
    let renamed = codex(&format!(
        "*** Update File: s.py\n DEBUG = False\n-{mask}\n+GITHUB_{mask}\n"
    ));
    done(&kit, "apply_patch", renamed);
    assert!(text(&kit, "s.py").contains(&format!("GITHUB_TOKEN = \"{TOKEN}\"")));
    let before = picture(kit.path());
    for sections in [
        format!("*** Add File: n.py\n+{mask}\n"),
        format!("*** Update File: t.py\n+{mask}\n END\n"),
        // Only the indentation differs, so it is not certain which value the mask stands for.
        format!("*** Update File: s.py\n   MORE = 1\n+{mask}\n"),
    ] {
        let outcome = kit.call("apply_patch", codex(&sections));
        let error = outcome.result().expect_err(&sections);
        assert_eq!(error.code, ToolErrorCode::InvalidInput, "{error}");
        assert!(!error.to_string().contains("ghp_"), "{error}");
    }
    assert_eq!(picture(kit.path()), before);
}
