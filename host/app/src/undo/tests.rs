use std::path::Path;

use sha2::{Digest, Sha256};

use super::*;

fn hash(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn file(text: &str) -> PathState {
    PathState::File {
        sha256: Some(hash(text)),
        backup: None,
        size: None,
        modified: None,
        mode: None,
    }
}

/// A workspace in which a call has changed files.
struct Scene {
    dir: tempfile::TempDir,
    backups: UndoStore,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceFolder::find(Some(dir.path())).unwrap();
        let backups = UndoStore::for_workspace(&workspace);
        fs::create_dir_all(&backups.folder).unwrap();
        Self { dir, backups }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root().join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn kept(&self, name: &str, text: &str) -> PathState {
        fs::write(self.backups.folder.join(name), text).unwrap();
        PathState::File {
            sha256: Some(hash(text)),
            backup: Some(name.to_owned()),
            size: None,
            modified: None,
            mode: None,
        }
    }

    fn choose(&self, id: Option<&str>) -> Result<UndoRecord, ToolError> {
        self.backups.read_history()?.choose(id).cloned()
    }

    fn record(&self, id: &str, changes: Vec<(&str, PathState, PathState)>) -> UndoRecord {
        let record = UndoRecord {
            id: id.to_owned(),
            tool: "write_file".to_owned(),
            time: "2026-01-01T00:00:00Z".to_owned(),
            changes: changes
                .into_iter()
                .map(|(path, before, after)| UndoChange {
                    path: path.to_owned(),
                    before,
                    after,
                })
                .collect(),
            unrecorded: None,
            undone: None,
        };
        let path = self.backups.folder.join(format!("{id}.json"));
        fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
        record
    }
}

fn told(restored: &[RestoredPath]) -> Vec<(&str, RestoreResult)> {
    restored
        .iter()
        .map(|path| (path.path.as_str(), path.result))
        .collect()
}

#[test]
fn undo_restores_an_overwritten_file_once() {
    let scene = Scene::new();
    scene.write("a.txt", "new");
    scene.record("1", vec![("a.txt", scene.kept("1-0", "old"), file("new"))]);
    let record = scene.choose(None).unwrap();
    assert_eq!(
        told(&scene.backups.restore(record, false, true).unwrap()),
        [("a.txt", RestoreResult::Restored)]
    );
    assert_eq!(scene.read("a.txt"), "old");
    assert_eq!(
        scene.choose(None).unwrap_err().code,
        ToolErrorCode::NotFound
    );
    assert_eq!(
        scene.choose(Some("1")).unwrap_err().code,
        ToolErrorCode::AlreadyExists
    );
}

#[test]
fn undo_keeps_files_changed_since_unless_forced() {
    let scene = Scene::new();
    scene.write("a.txt", "mine");
    scene.write("b.txt", "new");
    let changes = vec![
        ("a.txt", scene.kept("1-0", "old a"), file("new")),
        ("b.txt", scene.kept("1-1", "old b"), file("new")),
    ];
    let record = scene.record("1", changes);
    let error = scene
        .backups
        .restore(record.clone(), false, true)
        .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::AlreadyExists);
    assert!(
        error.message.contains("a.txt") && !error.message.contains("b.txt"),
        "{error}"
    );
    assert_eq!(scene.read("b.txt"), "new", "a file was changed");
    scene.backups.restore(record, true, true).unwrap();
    assert_eq!(
        (scene.read("a.txt"), scene.read("b.txt")),
        ("old a".into(), "old b".into())
    );
}

#[test]
fn undo_removes_created_files_and_restores_removed_trees() {
    let scene = Scene::new();
    scene.write("made.txt", "new");
    let changes = vec![
        ("made.txt", PathState::Absent, file("new")),
        ("tree/deep/x", scene.kept("1-0", "x"), PathState::Absent),
        ("tree/deep", PathState::DIRECTORY, PathState::Absent),
        ("tree/empty", PathState::DIRECTORY, PathState::Absent),
        ("tree", PathState::DIRECTORY, PathState::Absent),
    ];
    let record = scene.record("1", changes);
    scene.backups.restore(record, false, true).unwrap();
    assert!(!scene.root().join("made.txt").exists());
    assert_eq!(scene.read("tree/deep/x"), "x");
    assert!(scene.root().join("tree/empty").is_dir());
}

#[test]
fn undo_with_a_damaged_backup_restores_nothing() {
    let scene = Scene::new();
    scene.write("a.txt", "new");
    let record = scene.record("1", vec![("a.txt", scene.kept("1-0", "old"), file("new"))]);
    fs::write(scene.backups.folder.join("1-0"), "other").unwrap();
    assert_eq!(
        scene
            .backups
            .restore(record.clone(), true, true)
            .unwrap_err()
            .code,
        ToolErrorCode::Unavailable
    );
    fs::remove_file(scene.backups.folder.join("1-0")).unwrap();
    assert_eq!(
        scene.backups.restore(record, true, true).unwrap_err().code,
        ToolErrorCode::Unavailable
    );
    assert_eq!(scene.read("a.txt"), "new");
}

#[test]
fn undo_rejects_forged_records() {
    let scene = Scene::new();
    for path in [
        "../out",
        "/etc/x",
        ".mimir/config.yml",
        ".git/hooks/pre-commit",
        "",
    ] {
        let record = scene.record(
            "1",
            vec![(path, scene.kept("1-0", "evil"), PathState::Absent)],
        );
        assert!(scene.backups.restore(record, true, true).is_err(), "{path}");
    }
    assert!(!scene.root().join(".git").exists());
    let outside = PathState::File {
        sha256: Some(hash("x")),
        backup: Some("../../../secret".to_owned()),
        size: None,
        modified: None,
        mode: None,
    };
    let record = scene.record("2", vec![("a.txt", outside, PathState::Absent)]);
    assert!(scene.backups.restore(record, true, true).is_err());
}

#[test]
#[cfg(unix)]
fn undo_does_not_follow_links_out_of_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let scene = Scene::new();
    std::os::unix::fs::symlink(outside.path(), scene.root().join("folder")).unwrap();
    let record = scene.record(
        "1",
        vec![("folder/x", scene.kept("1-0", "old"), PathState::Absent)],
    );
    assert!(scene.backups.restore(record, true, true).is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn undo_records_are_listed_newest_first_with_unreadable_ones() {
    let scene = Scene::new();
    assert!(scene.backups.read_history().unwrap().records.is_empty());
    scene.record("01a", vec![]);
    scene.record("01b", vec![]);
    fs::write(scene.backups.folder.join("bad.json"), "{").unwrap();
    fs::copy(
        scene.backups.folder.join("01a.json"),
        scene.backups.folder.join("copy.json"),
    )
    .unwrap();
    let found = scene.backups.read_history().unwrap();
    let ids: Vec<&str> = found
        .records
        .iter()
        .map(|record| record.id.as_str())
        .collect();
    assert_eq!(ids, ["01b", "01a"]);
    assert_eq!(found.unreadable.len(), 2);
    assert_eq!(
        scene.choose(Some("01")).unwrap_err().code,
        ToolErrorCode::InvalidInput
    );
    assert_eq!(scene.choose(Some("01b")).unwrap().id, "01b");
    scene.record("01b1", vec![]);
    assert_eq!(scene.choose(Some("01b")).unwrap().id, "01b", "a full id");
    assert_eq!(
        scene.choose(Some("x")).unwrap_err().code,
        ToolErrorCode::NotFound
    );
}

#[test]
fn undo_reports_a_result_for_each_path() {
    let scene = Scene::new();
    fs::create_dir_all(scene.root().join("made/inner")).unwrap();
    scene.write("made/theirs", "somebody else's");
    let changes = vec![
        ("made", PathState::Absent, PathState::DIRECTORY),
        ("made/inner", PathState::Absent, PathState::DIRECTORY),
        ("from", scene.kept("1-0", "moved"), PathState::Absent),
        ("made/inner/to", PathState::Absent, file("moved")),
    ];
    let record = scene.record("1", changes);
    assert_eq!(
        told(&scene.backups.restore(record, false, true).unwrap()),
        [
            ("made/inner/to", RestoreResult::Unchanged),
            ("from", RestoreResult::Restored),
            ("made/inner", RestoreResult::Removed),
            ("made", RestoreResult::LeftInPlace),
        ]
    );
    assert_eq!(scene.read("made/theirs"), "somebody else's");
}

#[test]
fn undo_conflict_stops_the_restore_before_it_begins() {
    let scene = Scene::new();
    let record = |id: &str| {
        scene.record(
            id,
            vec![
                ("other", scene.kept("o", "other"), PathState::Absent),
                ("d/x", scene.kept("x", "x"), PathState::Absent),
                ("d", PathState::DIRECTORY, PathState::Absent),
            ],
        )
    };
    let refused = |force: bool, code: ToolErrorCode| {
        let error = scene.backups.restore(record("1"), force, true).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains('d'), "{error}");
        assert!(!scene.root().join("other").exists());
    };
    // A file in place of a folder.
    scene.write("d", "a file");
    refused(false, ToolErrorCode::AlreadyExists);
    refused(true, ToolErrorCode::AlreadyExists);
    assert_eq!(scene.read("d"), "a file");
    // A link in place of a folder.
    #[cfg(unix)]
    {
        fs::remove_file(scene.root().join("d")).unwrap();
        fs::create_dir(scene.root().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", scene.root().join("d")).unwrap();
        refused(true, ToolErrorCode::AlreadyExists);
        assert!(!scene.root().join("elsewhere/x").exists());
    }
    // A folder in place of a file.
    fs::remove_file(scene.root().join("d")).unwrap();
    fs::create_dir_all(scene.root().join("d/x")).unwrap();
    refused(true, ToolErrorCode::AlreadyExists);
}

#[test]
#[cfg(unix)]
fn undo_restores_links_to_any_target() {
    let scene = Scene::new();
    let target = "/usr/bin/python3".to_owned();
    let before = PathState::Link { target };
    let record = scene.record("1", vec![("venv/python", before, PathState::Absent)]);
    scene.backups.restore(record.clone(), false, true).unwrap();
    let link = scene.root().join("venv/python");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("/usr/bin/python3"));
    // Changed since, and restored by force.
    fs::remove_file(&link).unwrap();
    scene.write("venv/python", "mine");
    assert!(scene.backups.restore(record.clone(), false, true).is_err());
    scene.backups.restore(record, true, true).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("/usr/bin/python3"));
}

#[test]
fn undo_record_age_is_computed_from_its_time() {
    let scene = Scene::new();
    let mut record = scene.record("1", vec![]);
    let now: jiff::Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
    let age = |record: &UndoRecord| record.age(now).map(|age| age.as_secs());
    assert_eq!(age(&record), Some(90));
    record.time = "2027-01-01T00:00:00Z".to_owned();
    assert_eq!(age(&record), None);
    record.time = "yesterday".to_owned();
    assert_eq!(age(&record), None);
}

#[test]
fn undo_of_an_overwriting_move_restricts_the_mode() {
    let scene = Scene::new();
    scene.write("to", "moved");
    let changes = vec![
        ("from", scene.kept("1-0", "moved"), PathState::Absent),
        ("to", scene.kept("1-1", "old"), file("moved")),
    ];
    let record = scene.record("1", changes);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &str| {
            let meta = fs::metadata(scene.root().join(path)).unwrap();
            meta.permissions().mode() & 0o777
        };
        let to = scene.root().join("to");
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
        scene.backups.restore(record, false, true).unwrap();
        assert_eq!((mode("from"), mode("to")), (0o700, 0o755));
    }
    #[cfg(not(unix))]
    scene.backups.restore(record, false, true).unwrap();
    assert_eq!(
        (scene.read("from"), scene.read("to")),
        ("moved".into(), "old".into())
    );
}

#[test]
fn undo_of_a_new_file_without_digest_compares_size_and_time() {
    let scene = Scene::new();
    scene.write("made.txt", "new");
    let meta = scene.root().join("made.txt").metadata().unwrap();
    let modified = meta.modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    let made = |size: u64| PathState::File {
        sha256: None,
        backup: None,
        size: Some(size),
        modified: Some(i64::try_from(since.as_nanos()).unwrap()),
        mode: None,
    };
    let record = scene.record("1", vec![("made.txt", PathState::Absent, made(3))]);
    // Same size, but modified later.
    let file = fs::File::options()
        .write(true)
        .open(scene.root().join("made.txt"))
        .unwrap();
    let later = modified + std::time::Duration::from_millis(1);
    file.set_modified(later).unwrap();
    let error = scene
        .backups
        .restore(record.clone(), false, true)
        .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::AlreadyExists, "{error}");
    file.set_modified(modified).unwrap();
    let other = scene.record("2", vec![("made.txt", PathState::Absent, made(4))]);
    assert!(scene.backups.restore(other, false, true).is_err());
    scene.backups.restore(record, false, true).unwrap();
    assert!(!scene.root().join("made.txt").exists());
}

#[test]
fn undo_call_diff_shows_masked_changes_within_its_limit() {
    let scene = Scene::new();
    let redactor = mimir_core::Redactor::new().with_values([("KEY", "hunter2-value")]);
    let old: String = (0..30).map(|n| format!("line {n}\n")).collect();
    let new = old.replace("line 15\n", "is hunter2-value\nmore\n");
    scene.write("a.txt", &new);
    scene.write("b.txt", "made");
    let changes = vec![
        ("a.txt", scene.kept("1-0", &old), file(&new)),
        ("b.txt", PathState::Absent, file("made")),
        ("c.txt", scene.kept("1-2", "gone"), PathState::Absent),
        ("folder", PathState::Absent, PathState::DIRECTORY),
    ];
    scene.record("1", changes);
    let diffs = scene.backups.call_diffs("1", &redactor, 100);
    let counts: Vec<_> = diffs
        .iter()
        .map(|diff| (diff.path.as_str(), diff.added, diff.removed))
        .collect();
    assert_eq!(counts, [("a.txt", 2, 1), ("b.txt", 1, 0), ("c.txt", 0, 1)]);
    let lines = &diffs[0].lines;
    assert_eq!(lines[0].kind, CallDiffKind::Position);
    let added: Vec<_> = lines
        .iter()
        .filter(|line| line.kind == CallDiffKind::Added)
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(added, ["is [REDACTED:secret:KEY]", "more"]);
    // The hunk with three lines around the change.
    assert_eq!(lines.len(), 1 + 3 + 1 + 2 + 3);
    let few = scene.backups.call_diffs("1", &redactor, 4);
    assert_eq!((few[0].lines.len(), few[0].lines_left_out), (4, 6));
    assert_eq!((few[1].lines.len(), few[1].added), (0, 1));
    assert_eq!(scene.backups.call_diffs("2", &redactor, 4), []);
}

#[test]
fn undo_call_diff_names_why_a_file_is_not_compared() {
    let scene = Scene::new();
    let redactor = mimir_core::Redactor::new();
    scene.write("changed.txt", "by a later call");
    fs::write(scene.root().join("image.png"), b"\x89PNG\xff").unwrap();
    let long = "x\n".repeat(200_000);
    scene.write("long.txt", &long);
    let lines = "x\n".repeat(11_000);
    scene.write("lines.txt", &lines);
    let mut image = file("");
    if let PathState::File { sha256, .. } = &mut image {
        *sha256 = None;
    }
    let changes = vec![
        ("changed.txt", scene.kept("1-0", "old"), file("new")),
        ("image.png", PathState::Absent, image),
        ("long.txt", PathState::Absent, file(&long)),
        ("lines.txt", scene.kept("1-4", &lines), file(&lines)),
        ("../outside.txt", PathState::Absent, file("x")),
        ("a.txt", file("old"), file("new")),
    ];
    scene.record("1", changes);
    let diffs = scene.backups.call_diffs("1", &redactor, 100);
    let reasons: Vec<_> = diffs.iter().filter_map(|diff| diff.unknown).collect();
    assert_eq!(
        reasons,
        [
            "it has changed since",
            "it is not a text file",
            "it is too large to be compared",
            "it has too many lines to be compared",
            "it cannot be read",
            "no copy of the old content exists",
        ]
    );
}
