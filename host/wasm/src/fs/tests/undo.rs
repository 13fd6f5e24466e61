//! The undo recorder: copying in the background, and the record of a call that ends early.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

impl World {
    /// A workspace in which one call is recorded.
    fn recorded() -> (Self, UndoRecorder, UndoScope) {
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
