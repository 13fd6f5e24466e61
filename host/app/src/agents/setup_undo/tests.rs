use super::*;
use crate::agents::{AgentEnvironment, FolderListing, SetupPlan, SetupRecordStore};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// A project with this `.mcp.json` that was set up for Claude Code.
fn set_up(before: Option<&str>) -> (tempfile::TempDir, SetupRecords) {
    let dir = tempfile::tempdir().unwrap();
    let mut record = SetupRecords::default();
    if let Some(before) = before {
        std::fs::write(dir.path().join(".mcp.json"), before).unwrap();
    }
    run(dir.path(), &mut record);
    (dir, record)
}

fn run(root: &Path, record: &mut SetupRecords) {
    let environment = AgentEnvironment::default();
    let plan = SetupPlan::make(root, &environment, Path::new("/m"), &[AgentKind::Claude]);
    for change in plan.pending_changes() {
        record.add_change(root, change);
        change.apply().unwrap();
    }
}

fn undo(root: &Path, record: SetupRecords) -> Option<String> {
    let (failed, left) = SetupUndo::make(root, record).apply();
    assert!(failed.is_empty() && left.is_empty_for(root), "{failed:?}");
    std::fs::read_to_string(root.join(".mcp.json")).ok()
}

#[test]
fn setup_undo_restores_an_unchanged_file() {
    for before in [None, Some("{}"), Some("{ \"mcpServers\":{\"mimir\":{}} }")] {
        let (dir, record) = set_up(before);
        assert_eq!(undo(dir.path(), record).as_deref(), before);
    }
}

#[test]
fn setup_undo_of_a_changed_file_removes_only_the_entry() {
    let (dir, record) = set_up(Some("{\n  \"a\": 1\n}\n"));
    let path = dir.path().join(".mcp.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"a\": 1", "\"a\": 2")).unwrap();
    assert_eq!(
        undo(dir.path(), record).as_deref(),
        Some("{\n  \"a\": 2\n}\n")
    );
}

#[test]
fn setup_undo_puts_a_replaced_entry_back_into_a_changed_file() {
    let (dir, record) = set_up(Some(
        "{\"mcpServers\": {\"mimir\": {\"command\": \"old\"}}}",
    ));
    let path = dir.path().join(".mcp.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("// mine\n{text}")).unwrap();
    let after = undo(dir.path(), record).unwrap();
    assert!(
        after.starts_with("// mine\n") && after.contains("\"old\"") && !after.contains("serve"),
        "{after}"
    );
}

#[test]
fn setup_undo_after_two_setups_restores_what_the_person_wrote_in_between() {
    let mine = "{\"mine\": 1, \"mcpServers\": {\"mimir\": {\"command\": \"x\"}}}";
    for later in ["", "// later\n"] {
        let (dir, mut record) = set_up(None);
        let path = dir.path().join(".mcp.json");
        std::fs::write(&path, mine).unwrap();
        run(dir.path(), &mut record);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("/m"), "{text}");
        std::fs::write(&path, format!("{later}{text}")).unwrap();
        let after = undo(dir.path(), record).unwrap();
        let is_restored = after == mine || !later.is_empty() && after.starts_with(later);
        assert!(is_restored && after.contains("\"x\""), "{after}");
    }
}

#[test]
fn setup_undo_after_two_setups_of_the_same_entry_removes_it() {
    let (dir, mut record) = set_up(None);
    let path = dir.path().join(".mcp.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("// mine\n{text}")).unwrap();
    // Another path of the program, as after an update.
    let environment = AgentEnvironment::default();
    let plan = SetupPlan::make(
        dir.path(),
        &environment,
        Path::new("/n"),
        &[AgentKind::Claude],
    );
    for change in plan.pending_changes() {
        record.add_change(dir.path(), change);
        change.apply().unwrap();
    }
    let after = undo(dir.path(), record).unwrap();
    assert!(
        after.starts_with("// mine\n") && !after.contains("\"mimir\""),
        "{after}"
    );
}

#[test]
fn setup_undo_leaves_an_entry_of_another_program() {
    let (dir, record) = set_up(None);
    let path = dir.path().join(".mcp.json");
    let mine = "{\"mcpServers\": {\"mimir\": {\"command\": \"x\"}}}";
    std::fs::write(&path, mine).unwrap();
    assert!(SetupUndo::make(dir.path(), record.clone()).files[0].keeps_entry);
    assert_eq!(undo(dir.path(), record).as_deref(), Some(mine));

    // An entry with more keys is still the one of the setup.
    let (dir, record) = set_up(None);
    let path = dir.path().join(".mcp.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replacen("\"command\"", "\"trust\": true, \"command\"", 1);
    assert_ne!(more, text);
    std::fs::write(&path, more).unwrap();
    assert_eq!(undo(dir.path(), record), None);
}

#[test]
fn setup_undo_keeps_created_files_that_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(".mimir");
    let before = FolderListing::read(&folder);
    std::fs::create_dir_all(folder.join("tools")).unwrap();
    for name in ["same", "tools/changed"] {
        std::fs::write(folder.join(name), "made").unwrap();
    }
    let mut record = SetupRecords::default();
    record.workspace.add_created_since(&before);
    std::fs::write(folder.join("tools/changed"), "mine").unwrap();
    let undo = SetupUndo::make(dir.path(), record);
    assert_eq!(undo.kept, [folder.join("tools/changed")]);
    let (failed, left) = undo.apply();
    assert!(failed.is_empty() && left.is_empty_for(dir.path()));
    assert!(!folder.join("same").exists() && folder.join("tools/changed").exists());
}

#[test]
fn setup_undo_keeps_files_that_others_use_while_those_stay() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(".mimir");
    let before = FolderListing::read(&folder);
    std::fs::create_dir_all(folder.join("state")).unwrap();
    for name in [
        ".gitignore",
        "config.schema.json",
        "mimir.d.ts",
        "config.yml",
        "state/log",
    ] {
        std::fs::write(folder.join(name), "made").unwrap();
    }
    let mut record = SetupRecords::default();
    record.workspace.add_created_since(&before);
    std::fs::write(folder.join("state/log"), "more").unwrap();
    let (failed, _) = SetupUndo::make(dir.path(), record.clone()).apply();
    assert!(failed.is_empty());
    for name in [".gitignore", "config.schema.json", "mimir.d.ts"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assert!(!folder.join("config.yml").exists());

    // Once nothing else stays, they go, too.
    std::fs::remove_file(folder.join("state/log")).unwrap();
    SetupUndo::make(dir.path(), record).apply();
    assert!(!folder.exists());
}

#[test]
fn setup_undo_keeps_a_file_of_the_user_until_the_last_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let environment = AgentEnvironment {
        codex_home: Some(dir.path().join(".codex")),
        ..AgentEnvironment::default()
    };
    let file = dir.path().join(".codex/config.toml");
    let roots = ["a", "b", "c"].map(|name| dir.path().join(name));
    let mut user = SetupRecord::default();
    for root in &roots {
        std::fs::create_dir(root).unwrap();
        let plan = SetupPlan::make(root, &environment, Path::new("/m"), &[AgentKind::Codex]);
        let mut records = SetupRecords {
            user,
            ..SetupRecords::default()
        };
        for change in plan.pending_changes() {
            records.add_change(root, change);
            change.apply().unwrap();
        }
        // The file is changed once; the other workspaces only use it.
        assert_eq!(records.add_uses(root, &plan), root != &roots[0]);
        user = records.user;
    }
    std::fs::remove_dir(&roots[2]).unwrap();
    for (root, users) in [(&roots[0], 1), (&roots[1], 0)] {
        let records = SetupRecords {
            user,
            ..SetupRecords::default()
        };
        let undo = SetupUndo::make(root, records);
        assert_eq!(undo.files[0].used_by.len(), users, "{root:?}");
        let (failed, left) = undo.apply();
        assert!(failed.is_empty() && left.is_empty_for(root));
        assert_eq!(file.exists(), users > 0);
        user = left.user;
    }
    assert!(user.is_empty());
}

#[test]
fn setup_records_of_two_workspaces_are_both_kept() {
    let dir = tempfile::tempdir().unwrap();
    let user_dirs = UserDirs {
        config: Some(dir.path().join("config")),
        ..UserDirs::default()
    };
    let environment = AgentEnvironment {
        codex_home: Some(dir.path().join(".codex")),
        config: Some(dir.path().join(".config")),
        ..AgentEnvironment::default()
    };
    let stores = ["a", "b"].map(|name| {
        let root = dir.path().join(name);
        std::fs::create_dir(&root).unwrap();
        let workspace = WorkspaceFolder::find(Some(&root)).unwrap();
        let store = SetupRecordStore::for_workspace(&user_dirs, &workspace).unwrap();
        (root, store)
    });
    // Both have read the records before the other one changes them.
    let [read, _] = stores.each_ref().map(|(_, store)| store.read().unwrap());
    for ((root, store), agent) in stores.iter().zip([AgentKind::Codex, AgentKind::Goose]) {
        let plan = SetupPlan::make(root, &environment, Path::new("/m"), &[agent]);
        let change = plan.pending_changes().next().unwrap();
        store
            .update(|records| records.add_change(root, change))
            .unwrap();
    }
    let (_, store) = &stores[0];
    assert_eq!(store.read().unwrap().user.files.len(), 2);
    let changed = store.lock().unwrap().check_unchanged(&read);
    assert!(matches!(changed, Err(AgentSetupError::Changed { .. })));
    let again = store.read().unwrap();
    store.lock().unwrap().check_unchanged(&again).unwrap();
}
