use super::*;
use crate::kit::Workspace;

fn begin(workspace: &Workspace) -> Backup {
    Backup::begin(&workspace.cx(), "test_tool", None)
        .unwrap()
        .unwrap()
}

#[test]
fn backup_record_is_written_before_the_change() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let place = Place::new(&workspace.cx(), "a.txt").unwrap();
    let id = guarded(
        Some(begin(&workspace)),
        |backup| backup.change(&place, Some(Kind::File), State::of(b"new")),
        || {
            assert_eq!(workspace.record().changes.len(), 1, "written down first");
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(id.as_deref(), Some("test-request"));
    let record = workspace.record();
    assert_eq!(
        (record.tool.as_str(), record.changes[0].path.as_str()),
        ("test_tool", "a.txt")
    );
    assert_eq!(workspace.kept(&record.changes[0].before), b"old");
    assert_eq!(record.changes[0].before.without_copy(), State::of(b"old"));
    assert_eq!(record.changes[0].after, State::of(b"new"));
}

#[test]
fn backup_record_is_removed_when_the_change_fails() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let place = Place::new(&workspace.cx(), "a.txt").unwrap();
    let failed = guarded(
        Some(begin(&workspace)),
        |backup| backup.change(&place, Some(Kind::File), State::Absent),
        || Err(Error::permission_denied("no")),
    );
    assert!(failed.is_err());
    assert_eq!(
        fs::read_dir(workspace.root().join(FOLDER)).unwrap().count(),
        0
    );
}

#[test]
fn backup_names_are_sanitized_and_unique() {
    let workspace = Workspace::new();
    let cx = workspace.cx().with_request_id("../a b/ü");
    let first = Backup::begin(&cx, "t", None).unwrap().unwrap();
    assert_eq!(first.id(), Some("---a-b--"));
    first.write().unwrap();
    assert_eq!(
        Backup::begin(&cx, "t", None).unwrap().unwrap().id(),
        Some("---a-b---2")
    );
}

#[test]
fn backup_without_a_folder_suggests_backup_false() {
    let dir = tempfile::tempdir().unwrap();
    let cx = Context::at(dir.path());
    let Err(error) = Backup::begin(&cx, "t", None) else {
        panic!("the folder is missing")
    };
    assert!(error.message().contains("backup: false"), "{error}");
    assert!(Backup::begin(&cx, "t", unwanted(false)).unwrap().is_none());
}

#[test]
fn backup_states_serialize_as_undo_reads_them() {
    let change = Change {
        path: "a".into(),
        before: State::File {
            sha256: "00".into(),
            backup: Some("R/0".into()),
        },
        after: State::Link { target: "b".into() },
    };
    let json = serde_json::json!({
        "path": "a",
        "before": {"kind": "file", "sha256": "00", "backup": "R/0"},
        "after": {"kind": "link", "target": "b"},
    });
    assert_eq!(serde_json::to_value(&change).unwrap(), json);
    assert_eq!(
        serde_json::to_value(State::Absent).unwrap(),
        serde_json::json!({"kind": "absent"})
    );
}
