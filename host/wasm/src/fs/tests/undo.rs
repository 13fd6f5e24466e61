//! The undo recorder: copying in the background, and the record of a call that ends early.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

impl TestWorkspace {
    /// A workspace in which one call is recorded.
    fn recorded() -> (Self, UndoRecorder, UndoScope) {
        Self::recorded_with(UndoCopies::Required("no way"))
    }

    fn recorded_with(copies: UndoCopies) -> (Self, UndoRecorder, UndoScope) {
        let undo = UndoRecorder::default();
        let mut workspace = Self::with(64, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)]);
        let ws = workspace.host("");
        let tracking = MountTracking {
            quota: None,
            undo: Some(undo.clone()),
        };
        let mount = mount(&ws, "", DirectoryAccess::ReadWrite);
        workspace.fs = GuardedFs::open_tracked(vec![(mount, tracking)], 64).expect("a mount");
        let preopened = preopens::Host::get_directories(&mut workspace.view()).expect("preopens");
        workspace.roots = preopened.into_iter().map(|(root, _)| root).collect();
        let scope = workspace.begin_attempt(&undo, copies, &Arc::default());
        (workspace, undo, scope)
    }

    /// Begins to record an attempt of the call.
    fn begin_attempt(
        &self,
        undo: &UndoRecorder,
        copies: UndoCopies,
        earlier: &Arc<EarlierAttempts>,
    ) -> UndoScope {
        let target = UndoTarget {
            folder: self.host(".mimir/state/backups"),
            workspace: self.host(""),
            id: "call".to_owned(),
            tool: "test".to_owned(),
            copies,
        };
        undo.begin(target, Arc::clone(earlier))
    }

    fn record(&self) -> Option<serde_json::Value> {
        let record = fs::read(self.host(".mimir/state/backups/call.json")).ok()?;
        Some(serde_json::from_slice(&record).expect("JSON"))
    }
}

fn deadline(limit: Duration) -> mimir_core::Deadline {
    mimir_core::Deadline::new(std::sync::Arc::new(crate::SystemClock), limit, None)
}

#[test]
fn undo_copies_on_another_thread() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    fs::write(workspace.host("large"), vec![7; 32 << 20]).unwrap();
    let turns = std::sync::Arc::new(AtomicU64::new(0));
    let count = std::sync::Arc::clone(&turns);
    workspace.runtime.spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    workspace.write("large", "new").unwrap();
    // If it were copied on this thread, others would have one turn or two.
    assert!(turns.load(Ordering::Relaxed) > 100);
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    let record = workspace.record().unwrap();
    let change = &record["changes"][0];
    assert_eq!(change["before"]["size"], 32 << 20);
    let copy = change["before"]["backup"].as_str().unwrap();
    let copy = workspace.host(".mimir/state/backups").join(copy);
    assert_eq!(copy.metadata().unwrap().len(), 32 << 20);
}

#[test]
fn undo_records_the_folders_that_a_mount_creates() {
    let workspace = TestWorkspace::with(64, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)]);
    let undo = UndoRecorder::default();
    let scope = workspace.begin_attempt(&undo, UndoCopies::Optional, &Arc::default());
    let ws = workspace.host("");
    let tracking = MountTracking {
        quota: None,
        undo: Some(undo),
    };
    fs::create_dir(ws.join("data")).unwrap();
    let mount = mount(&ws, "data/deep/er", DirectoryAccess::ReadWrite);
    GuardedFs::open_tracked(vec![(mount, tracking)], 64).expect("a mount");
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    let record = workspace.record().unwrap();
    let changes = record["changes"].as_array().unwrap().iter();
    let changes: Vec<_> = changes
        .map(|change| {
            assert_eq!(change["before"]["kind"], "absent", "{change}");
            assert_eq!(change["after"]["kind"], "directory", "{change}");
            change["path"].as_str().unwrap()
        })
        .collect();
    assert_eq!(changes, ["data/deep", "data/deep/er"]);
}

#[test]
fn undo_reports_changed_agent_instruction_files() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    for name in ["CLAUDE.md", "mise.toml", "sub/AGENTS.md"] {
        let path = workspace.host(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "same").unwrap();
    }
    fs::create_dir(workspace.host(".cargo")).unwrap();
    workspace.write("CLAUDE.md", "other").unwrap();
    workspace.write("mise.toml", "same").unwrap();
    workspace.write("sub/AGENTS.md", "longer").unwrap();
    workspace.write(".cargo/config.toml", "new").unwrap();
    workspace.write("README.md", "new").unwrap();
    let TestWorkspace { runtime, .. } = &workspace;
    let changes = runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    assert!(changes.has_record);
    assert!(
        changes.paths.contains(&"README.md".to_owned()),
        "{changes:?}"
    );
    let obeyed = changes.auto_run_files;
    assert_eq!(obeyed, ["CLAUDE.md", "sub/AGENTS.md", ".cargo/config.toml"]);
}

#[test]
fn undo_record_is_written_on_timeout_and_on_drop() {
    for finishes in [true, false] {
        let (mut workspace, _undo, scope) = TestWorkspace::recorded();
        fs::write(workspace.host("same"), "1234").unwrap();
        workspace.write("same", "5678").unwrap();
        workspace.write("made", "x").unwrap();
        let TestWorkspace { runtime, .. } = &workspace;
        runtime.block_on(async {
            match finishes {
                true => drop(scope.finish(&deadline(Duration::ZERO)).await),
                false => drop(scope),
            }
        });
        // Waits for background work.
        let TestWorkspace { home, runtime, .. } = workspace;
        drop(runtime);
        let path = home.path().join("ws/.mimir/state/backups/call.json");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let changes = record["changes"].as_array().unwrap();
        let paths: Vec<_> = changes.iter().map(|change| &change["path"]).collect();
        assert_eq!(paths, ["same", "made"]);
        assert_eq!(changes[1]["before"]["kind"], "absent");
        assert_eq!(changes[1]["after"]["size"], 1);
    }
}

#[test]
fn undo_refuses_a_change_after_the_call() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    let how = OpenFlags::CREATE;
    let fd = workspace.open("made", how, DescriptorFlags::WRITE).unwrap();
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    let handle = Resource::new_borrow(fd.rep());
    let late = workspace.run(async |mut view, _| view.write(handle, b"late".to_vec(), 0).await);
    assert_eq!(late.err(), Some(ErrorCode::NotPermitted));
    assert!(workspace.write("other", "late").is_err());
    assert_eq!(fs::read(workspace.host("made")).unwrap(), b"");
    assert_eq!(
        workspace.record().unwrap()["changes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// The changes of a finished call, as path and kinds of the old and the new state.
fn finish_call(workspace: TestWorkspace, scope: UndoScope) -> (TestWorkspace, Vec<[String; 3]>) {
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    let record = workspace.record();
    let changes = record.iter().flat_map(|record| {
        let changes = record["changes"].as_array().unwrap().iter();
        changes.map(|change| {
            [
                &change["path"],
                &change["before"]["kind"],
                &change["after"]["kind"],
            ]
            .map(|part| part.as_str().unwrap().to_owned())
        })
    });
    let changes = changes.collect();
    (workspace, changes)
}

/// A record's changes: each path with its kind before and after, and the content of its copy.
fn changes_with_copies(workspace: &TestWorkspace) -> Vec<[String; 4]> {
    let record = workspace.record();
    let changes = record.iter().flat_map(|record| {
        let changes = record["changes"].as_array().unwrap().iter();
        changes.map(|change| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let copy = change["before"]["backup"].as_str().map(|copy| {
                let copy = workspace.host(".mimir/state/backups").join(copy);
                fs::read_to_string(copy).unwrap()
            });
            [
                text(&change["path"]),
                text(&change["before"]["kind"]),
                text(&change["after"]["kind"]),
                copy.unwrap_or_default(),
            ]
        })
    });
    changes.collect()
}

#[test]
fn undo_attempts_of_a_call_share_one_record() {
    let copies = UndoCopies::Required("no way");
    let (mut workspace, undo, first) = TestWorkspace::recorded_with(copies);
    drop(first);
    fs::write(workspace.host("again"), "original").unwrap();
    fs::write(workspace.host("reverted"), "original").unwrap();
    let earlier = Arc::default();
    let far = deadline(Duration::from_secs(60));
    let finish = |workspace: &TestWorkspace, scope: UndoScope| {
        workspace.runtime.block_on(scope.finish(&far));
    };

    let scope = workspace.begin_attempt(&undo, copies, &earlier);
    workspace.write("again", "first").unwrap();
    workspace.write("reverted", "first").unwrap();
    workspace.write("only-first", "x").unwrap();
    finish(&workspace, scope);
    assert_eq!(changes_with_copies(&workspace).len(), 3);

    let scope = workspace.begin_attempt(&undo, copies, &earlier);
    workspace.write("again", "second").unwrap();
    workspace.write("reverted", "original").unwrap();
    // The record is complete before the change, also without the end of the attempt.
    fs::write(workspace.host("src/main.rs"), "old").unwrap();
    workspace.write("src/main.rs", "new").unwrap();
    let unfinished = changes_with_copies(&workspace);
    let paths: Vec<&str> = unfinished.iter().map(|change| &*change[0]).collect();
    assert_eq!(paths, ["again", "reverted", "only-first", "src/main.rs"]);
    finish(&workspace, scope);
    let expected = [
        ["again", "file", "file", "original"],
        ["only-first", "absent", "file", ""],
        ["src/main.rs", "file", "file", "old"],
    ];
    assert_eq!(changes_with_copies(&workspace), expected);

    // An attempt that changes nothing keeps the record, and one that reverts everything removes it.
    let scope = workspace.begin_attempt(&undo, copies, &earlier);
    finish(&workspace, scope);
    assert_eq!(changes_with_copies(&workspace), expected);
    let scope = workspace.begin_attempt(&undo, copies, &earlier);
    workspace.write("again", "original").unwrap();
    workspace.write("src/main.rs", "old").unwrap();
    fs::remove_file(workspace.host("only-first")).unwrap();
    finish(&workspace, scope);
    assert!(workspace.record().is_none());
}

#[test]
fn undo_record_is_complete_before_each_change() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    workspace.write("src/main.rs", "other").unwrap();
    let record = workspace.record().unwrap();
    let before = &record["changes"][0]["before"];
    let copy = before["backup"].as_str().unwrap();
    let copy = fs::read_to_string(workspace.host(".mimir/state/backups").join(copy));
    assert_eq!(copy.unwrap(), "fn main() {}");
    workspace.write("new", "x").unwrap();
    let record = workspace.record().unwrap();
    assert_eq!(record["changes"][1]["before"]["kind"], "absent");
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    assert_eq!(
        workspace.record().unwrap()["changes"][1]["after"]["size"],
        1
    );
}

#[test]
fn undo_record_has_digests_of_new_contents_up_to_its_limit() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    workspace.write("src/main.rs", "other").unwrap();
    workspace.write("new", "x").unwrap();
    workspace.write("sparse", "x").unwrap();
    let sparse = fs::File::options()
        .write(true)
        .open(workspace.host("sparse"));
    sparse.unwrap().set_len((32 << 20) + 1).unwrap();
    let TestWorkspace { runtime, .. } = &workspace;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60))));
    let record = workspace.record().unwrap();
    let digests = [0, 1, 2].map(|n| record["changes"][n]["after"]["sha256"].as_str());
    assert_eq!(
        digests,
        [
            Some("d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"),
            Some("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
            None,
        ]
    );
    assert_eq!(record["changes"][2]["after"]["size"], (32 << 20) + 1);
}

#[test]
fn undo_record_without_changes_is_removed() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    workspace.write("src/main.rs", "fn main() {}").unwrap();
    workspace.write("new", "x").unwrap();
    workspace.unlink("new").unwrap();
    assert!(workspace.record().is_some());
    let (workspace, changes) = finish_call(workspace, scope);
    assert!(changes.is_empty() && workspace.record().is_none());
    let left = fs::read_dir(workspace.host(".mimir/state/backups")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn undo_records_the_contents_of_a_moved_directory() {
    let (mut workspace, _undo, scope) = TestWorkspace::recorded();
    workspace.rename("src", "moved").unwrap();
    workspace.write("moved/main.rs", "other").unwrap();
    let (_, changes) = finish_call(workspace, scope);
    let expected = [
        ["src/main.rs", "file", "absent"],
        ["src/deep/er.rs", "file", "absent"],
        ["src/deep", "directory", "absent"],
        ["src", "directory", "absent"],
        ["moved", "absent", "directory"],
        ["moved/deep", "absent", "directory"],
        ["moved/deep/er.rs", "absent", "file"],
        ["moved/main.rs", "absent", "file"],
    ];
    assert_eq!(changes, expected);
}

#[test]
fn undo_without_copies_refuses_or_names_the_change() {
    for (copies, is_refused) in [
        (UndoCopies::Required("no way"), true),
        (UndoCopies::Optional, false),
        (UndoCopies::Declined, false),
    ] {
        let (mut workspace, _undo, scope) = TestWorkspace::recorded_with(copies);
        let large = fs::File::create(workspace.host("large")).unwrap();
        large.set_len((100 << 20) + 1).unwrap();
        // On Windows, an open file may stay until it is closed.
        drop(large);
        let removed = workspace.unlink("large");
        assert_eq!(removed.err(), is_refused.then_some(ErrorCode::NotPermitted));
        if is_refused {
            assert!(workspace.last_refusal().ends_with("; no way"));
        }
        workspace.write("new", "x").unwrap();
        let (workspace, changes) = finish_call(workspace, scope);
        let declined = copies == UndoCopies::Declined;
        assert_eq!(changes.is_empty(), declined);
        let unkept = &workspace.record().unwrap()["unkept"]["paths"];
        let expected = match copies {
            UndoCopies::Required(_) => serde_json::Value::Null,
            UndoCopies::Optional => serde_json::json!(["large"]),
            UndoCopies::Declined => serde_json::json!(["large", "new"]),
        };
        assert_eq!(*unkept, expected);
    }
}
