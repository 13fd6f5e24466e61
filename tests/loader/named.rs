//! A component that was not written for mimir and declares no needs: a person grants folders, variables and settings
//! by name.

use std::fs;
use std::path::Path;

use mimir_core::grants::{self, Grant, ToolsLock, named_folder};
use mimir_core::needs::{DirectoryAccess, Needs};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Registry, Tool};
use mimir_testkit::{Approve, Outcome, Testkit, ToolErrorCode, json};

use crate::guests;

fn fill(root: &Path) {
    for folder in ["docs", "out", "other"] {
        fs::create_dir(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("a.txt"), folder).unwrap();
    }
    fs::write(root.join("docs/.env"), "KEY=value").unwrap();
    fs::create_dir(root.join("out/denied")).unwrap();
}

/// A kit with the component, and with these needs granted by a person.
fn kit(named: &Needs) -> Testkit {
    let kit = Testkit::new(guests::FOREIGN_FILES.path).unwrap();
    let kit = kit.approve(Approve::Never).workspace(fill);
    let denies = json!({"files": {"deny": ["out/denied/**"]}});
    let kit = kit.settings(denies).unwrap();
    let tools = kit.tools();
    let grant = Grant::new(&tools, vec![])
        .unwrap()
        .with_named(named.clone());
    let mut lock = ToolsLock::default();
    let location = tools[0].origin.location.clone();
    lock.plugins.insert(location.clone(), grant);
    lock.prefixes.insert(location, "x_".to_owned());
    // Parsed as from the file.
    let lock: ToolsLock = serde_json::from_value(json!(lock)).unwrap();
    let mut tools: Vec<Tool> = tools.iter().map(|tool| Tool::clone(tool)).collect();
    let mut left_out = Vec::new();
    grants::apply_prefixes(&lock, &mut tools, &mut left_out);
    assert!(grants::apply(&lock, &mut tools, |_, _| true).is_empty());
    let policy = kit.pipeline().snapshot().policy.clone();
    let registry = Registry::new(tools, left_out);
    kit.pipeline()
        .replace(PipelineSnapshot { registry, policy });
    kit
}

fn files() -> Needs {
    Needs {
        files: vec![
            named_folder("docs", DirectoryAccess::Read),
            named_folder("out", DirectoryAccess::ReadWrite),
        ],
        ..Needs::default()
    }
}

fn read(kit: &Testkit, path: &str) -> Outcome {
    kit.call("x_read_text", json!({ "path": path }))
}

fn write(kit: &Testkit, path: &str) -> Outcome {
    kit.call("x_write_text", json!({ "path": path, "text": "new" }))
}

#[test]
fn grant_opens_only_the_named_folders() {
    let kit = kit(&files());
    assert_eq!(read(&kit, "docs/a.txt").text(), "docs");
    assert_eq!(read(&kit, "out/a.txt").text(), "out");
    let wrote = write(&kit, "out/b.txt");
    assert!(wrote.is_ok(), "{}", wrote.text());
    assert_eq!(
        fs::read_to_string(kit.path().join("out/b.txt")).unwrap(),
        "new"
    );
    for refused in [
        write(&kit, "docs/b.txt"),
        read(&kit, "other/a.txt"),
        read(&kit, "docs/../other/a.txt"),
        read(&kit, "/etc/passwd"),
        // Files with secrets are denied to it, as to every tool.
        read(&kit, "docs/.env"),
        write(&kit, "out/denied/b.txt"),
    ] {
        assert!(refused.result().is_err(), "{}", refused.text());
    }
    assert!(!kit.path().join("docs/b.txt").exists());
    let tools = kit.tools();
    let lines = tools[0].definition.needs.lines();
    assert!(
        lines.iter().any(|line| line.contains("read `docs`")),
        "{lines:?}"
    );
}

#[test]
fn grant_hint_is_shown_when_no_folders_were_granted() {
    let kit = kit(&Needs::default());
    let outcome = read(&kit, "docs/a.txt");
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError);
    assert!(
        error.message.contains("`x_read_text` was granted no files")
            && error
                .message
                .contains("`mimir tools trust x_read_text --read DIR`"),
        "{error}"
    );
    // The message is not shown if folders were granted.
    let granted = self::kit(&files());
    let outcome = read(&granted, "docs/missing.txt");
    let error = outcome.result().unwrap_err();
    assert!(!error.message.contains("granted no files"), "{error}");
}

#[test]
fn grant_exposes_the_named_variables_and_settings() {
    let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let kit = kit(&Needs {
        environment: pair("UNITS", "metric"),
        config: pair("city", "Bergen"),
        ..Needs::default()
    });
    let value = |tool: &str, arguments| {
        let outcome = kit.call(tool, arguments);
        let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
        output.structured.clone().unwrap()["result"].clone()
    };
    assert_eq!(value("x_variable", json!({"name": "UNITS"})), "metric");
    assert_eq!(value("x_variable", json!({"name": "HOME"})), json!(null));
    assert_eq!(value("x_setting", json!({"key": "city"})), "Bergen");
    assert_eq!(value("x_setting", json!({"key": "country"})), json!(null));
    assert_eq!(value("x_settings", json!({})), json!([["city", "Bergen"]]));
    assert!(kit.cards().is_empty());
}

#[test]
fn grant_of_a_missing_folder_does_not_stop_the_tool() {
    let kit = kit(&Needs {
        files: vec![
            named_folder("docs", DirectoryAccess::Read),
            named_folder("made/deep", DirectoryAccess::ReadWrite),
            named_folder("missing", DirectoryAccess::Read),
        ],
        ..Needs::default()
    });
    assert_eq!(read(&kit, "docs/a.txt").text(), "docs");
    let wrote = write(&kit, "made/deep/b.txt");
    assert!(wrote.is_ok(), "{}", wrote.text());
    assert_eq!(read(&kit, "made/deep/b.txt").text(), "new");
    // A folder to read is not created.
    let outcome = read(&kit, "missing/a.txt");
    let error = outcome.result().unwrap_err();
    assert!(
        error.message.contains("`missing`") && error.message.contains("does not exist"),
        "{error}"
    );
    assert!(
        error.remedies[0].contains("create the folder `missing`"),
        "{error:?}"
    );
    assert!(!kit.path().join("missing").exists());
}

#[cfg(unix)]
#[test]
fn grant_creates_no_folder_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    let kit = kit(&Needs {
        files: vec![named_folder("away/new", DirectoryAccess::ReadWrite)],
        ..Needs::default()
    });
    std::os::unix::fs::symlink(outside.path(), kit.path().join("away")).unwrap();
    let outcome = write(&kit, "away/new/b.txt");
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert!(error.message.contains("symbolic link"), "{error}");
    assert!(
        error.remedies[0].contains("replace the link"),
        "{:?}",
        error.remedies
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn grant_ends_when_the_build_changes() {
    let kit = Testkit::new(guests::FOREIGN_FILES.path).unwrap();
    let tools = kit.tools();
    let mut grant = Grant::new(&tools, vec![]).unwrap().with_named(files());
    grant.digest = "another".to_owned();
    let mut lock = ToolsLock::default();
    lock.plugins.insert(tools[0].origin.location.clone(), grant);
    let mut tools: Vec<Tool> = tools.iter().map(|tool| Tool::clone(tool)).collect();
    let problems = grants::apply(&lock, &mut tools, |_, _| true);
    assert!(
        problems[0].contains("has changed since it was granted"),
        "{problems:?}"
    );
    assert!(tools.iter().all(|tool| tool.granted.is_empty()));
    // A lock file that was not written on this machine grants nothing.
    let problems = grants::apply(&lock, &mut tools, |_, _| false);
    assert!(problems[0].contains("is ignored"), "{problems:?}");
    assert!(tools.iter().all(|tool| tool.granted.is_empty()));
}
