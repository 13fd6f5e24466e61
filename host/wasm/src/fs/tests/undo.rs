//! The undo recorder: copying in the background, and the record of a call that ends early.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

impl World {
    /// A workspace in which one call is recorded.
    fn recorded() -> (Self, UndoRecorder, UndoScope) {
        Self::recorded_with(UndoCopies::Required("no way"))
    }

    fn recorded_with(copies: UndoCopies) -> (Self, UndoRecorder, UndoScope) {
        let undo = UndoRecorder::default();
        let mut world = Self::with(64, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)]);
        let ws = world.host("");
        let watch = MountTracking {
            quota: None,
            undo: Some(undo.clone()),
        };
        let mount = mount(&ws, "", DirectoryAccess::ReadWrite);
        world.fs = GuardedFs::open_tracked(vec![(mount, watch)], 64).expect("a mount");
        let found = preopens::Host::get_directories(&mut world.view()).expect("preopens");
        world.roots = found.into_iter().map(|(root, _)| root).collect();
        let scope = undo.begin(UndoTarget {
            folder: ws.join(".mimir/state/backups"),
            workspace: ws,
            id: "call".to_owned(),
            tool: "test".to_owned(),
            copies,
        });
        (world, undo, scope)
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
    let (mut world, _undo, scope) = World::recorded();
    fs::write(world.host("large"), vec![7; 32 << 20]).unwrap();
    let turns = std::sync::Arc::new(AtomicU64::new(0));
    let count = std::sync::Arc::clone(&turns);
    world.runtime.spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    world.write("large", "new").unwrap();
    // If it were copied on this thread, others would have one turn or two.
    assert!(turns.load(Ordering::Relaxed) > 100);
    let World { runtime, .. } = &world;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60)), None));
    let record = world.record().unwrap();
    let change = &record["changes"][0];
    assert_eq!(change["before"]["size"], 32 << 20);
    let copy = change["before"]["backup"].as_str().unwrap();
    let copy = world.host(".mimir/state/backups").join(copy);
    assert_eq!(copy.metadata().unwrap().len(), 32 << 20);
}

#[test]
fn undo_reports_changed_agent_instruction_files() {
    let (mut world, _undo, scope) = World::recorded();
    for name in ["CLAUDE.md", "mise.toml", "sub/AGENTS.md"] {
        let path = world.host(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "same").unwrap();
    }
    fs::create_dir(world.host(".cargo")).unwrap();
    world.write("CLAUDE.md", "other").unwrap();
    world.write("mise.toml", "same").unwrap();
    world.write("sub/AGENTS.md", "longer").unwrap();
    world.write(".cargo/config.toml", "new").unwrap();
    world.write("README.md", "new").unwrap();
    let World { runtime, .. } = &world;
    let obeyed = runtime.block_on(scope.finish(&deadline(Duration::from_secs(60)), None));
    assert_eq!(obeyed, ["CLAUDE.md", "sub/AGENTS.md", ".cargo/config.toml"]);
}

#[test]
fn undo_record_is_written_on_timeout_and_on_drop() {
    for finishes in [true, false] {
        let (mut world, _undo, scope) = World::recorded();
        fs::write(world.host("same"), "1234").unwrap();
        world.write("same", "5678").unwrap();
        world.write("made", "x").unwrap();
        let World { runtime, .. } = &world;
        runtime.block_on(async {
            match finishes {
                true => scope.finish(&deadline(Duration::ZERO), None).await,
                false => {
                    drop(scope);
                    Vec::new()
                }
            }
        });
        // Waits for background work.
        let World { home, runtime, .. } = world;
        drop(runtime);
        let path = home.path().join("ws/.mimir/state/backups/call.json");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let changes = record["changes"].as_array().unwrap();
        let paths: Vec<_> = changes.iter().map(|change| &change["path"]).collect();
        assert_eq!(paths, ["same", "made"]);
        assert_eq!(changes[1]["before"]["kind"], "absent");
        assert_eq!(changes[1]["after"]["size"], 1);
        assert!(changes[1]["after"].get("sha256").is_none());
    }
}

#[test]
fn undo_refuses_a_change_after_the_call() {
    let (mut world, _undo, scope) = World::recorded();
    let how = OpenFlags::CREATE;
    let fd = world.open("made", how, DescriptorFlags::WRITE).unwrap();
    let World { runtime, .. } = &world;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60)), None));
    let handle = Resource::new_borrow(fd.rep());
    let late = world.run(async |mut view, _| view.write(handle, b"late".to_vec(), 0).await);
    assert_eq!(late.err(), Some(ErrorCode::NotPermitted));
    assert!(world.write("other", "late").is_err());
    assert_eq!(fs::read(world.host("made")).unwrap(), b"");
    assert_eq!(
        world.record().unwrap()["changes"].as_array().unwrap().len(),
        1
    );
}

/// The changes of a finished call, as path and kinds of the old and the new state.
fn finished(world: World, scope: UndoScope) -> (World, Vec<[String; 3]>) {
    let World { runtime, .. } = &world;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60)), None));
    let record = world.record();
    let changes = record.iter().flat_map(|record| {
        let changes = record["changes"].as_array().unwrap().iter();
        changes.map(|one| {
            [&one["path"], &one["before"]["kind"], &one["after"]["kind"]]
                .map(|part| part.as_str().unwrap().to_owned())
        })
    });
    let changes = changes.collect();
    (world, changes)
}

#[test]
fn undo_record_is_complete_before_each_change() {
    let (mut world, _undo, scope) = World::recorded();
    world.write("src/main.rs", "other").unwrap();
    let record = world.record().unwrap();
    let before = &record["changes"][0]["before"];
    let copy = before["backup"].as_str().unwrap();
    let copy = fs::read_to_string(world.host(".mimir/state/backups").join(copy));
    assert_eq!(copy.unwrap(), "fn main() {}");
    world.write("new", "x").unwrap();
    let record = world.record().unwrap();
    assert_eq!(record["changes"][1]["before"]["kind"], "absent");
    let World { runtime, .. } = &world;
    runtime.block_on(scope.finish(&deadline(Duration::from_secs(60)), None));
    assert_eq!(world.record().unwrap()["changes"][1]["after"]["size"], 1);
}

#[test]
fn undo_record_without_changes_is_removed() {
    let (mut world, _undo, scope) = World::recorded();
    world.write("src/main.rs", "fn main() {}").unwrap();
    world.write("new", "x").unwrap();
    world.unlink("new").unwrap();
    assert!(world.record().is_some());
    let (world, changes) = finished(world, scope);
    assert!(changes.is_empty() && world.record().is_none());
    let left = fs::read_dir(world.host(".mimir/state/backups")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn undo_records_the_contents_of_a_moved_directory() {
    let (mut world, _undo, scope) = World::recorded();
    world.rename("src", "moved").unwrap();
    world.write("moved/main.rs", "other").unwrap();
    let (_, changes) = finished(world, scope);
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
    for (copies, refused) in [
        (UndoCopies::Required("no way"), true),
        (UndoCopies::Optional, false),
        (UndoCopies::Declined, false),
    ] {
        let (mut world, _undo, scope) = World::recorded_with(copies);
        let large = fs::File::create(world.host("large")).unwrap();
        large.set_len((100 << 20) + 1).unwrap();
        let removed = world.unlink("large");
        assert_eq!(removed.err(), refused.then_some(ErrorCode::NotPermitted));
        if refused {
            assert!(world.last_refusal().ends_with("; no way"));
        }
        world.write("new", "x").unwrap();
        let (world, changes) = finished(world, scope);
        let declined = copies == UndoCopies::Declined;
        assert_eq!(changes.is_empty(), declined);
        let unkept = &world.record().unwrap()["unkept"]["paths"];
        let expected = match copies {
            UndoCopies::Required(_) => serde_json::Value::Null,
            UndoCopies::Optional => serde_json::json!(["large"]),
            UndoCopies::Declined => serde_json::json!(["large", "new"]),
        };
        assert_eq!(*unkept, expected);
    }
}
