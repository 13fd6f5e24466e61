//! The folder is watched: added, changed and removed files take effect without a restart.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_kit::BOUND;
use mimir_wasm::{HostOptions, LoadedTools, Toolbox, WasmHost};
use tokio::sync::mpsc;

use crate::guests;

/// Names of the tools, and the number of quarantined files.
fn summary(loaded: &LoadedTools) -> (Vec<String>, usize) {
    let names = loaded.tools.iter().map(|tool| tool.name().to_string());
    (names.collect(), loaded.quarantined.len())
}

/// Writes a file atomically, as a careful program does.
fn put(folder: &Path, name: &str, content: &[u8]) {
    let temporary = folder.join(".new");
    fs::write(&temporary, content).unwrap();
    fs::rename(temporary, folder.join(name)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_reports_added_changed_and_removed_tools() {
    let workspace = tempfile::tempdir().unwrap();
    let folder = workspace.path().join("tools");
    let host = WasmHost::new(HostOptions::new(workspace.path()));
    let toolbox = Arc::new(Toolbox::new(host, vec![], Some(folder.clone())));
    let (tell, mut hear) = mpsc::unbounded_channel();
    let watched = Arc::clone(&toolbox);
    let watch = tokio::spawn(async move {
        let on_change = |loaded: LoadedTools| drop(tell.send(summary(&loaded)));
        watched.watch(Duration::from_millis(20), on_change).await;
    });
    let mut until = async |names: &[&str], left: usize| {
        let wanted = (
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
            left,
        );
        let seen = async {
            while let Some(now) = hear.recv().await {
                if now == wanted {
                    return;
                }
            }
            panic!("the watch ended");
        };
        tokio::time::timeout(BOUND * 2, seen)
            .await
            .unwrap_or_else(|_| panic!("never saw {wanted:?}"));
    };

    tokio::time::sleep(Duration::from_millis(50)).await;
    fs::create_dir(&folder).unwrap();
    put(&folder, "one.wasm", &guests::ADDER.bytes());
    until(&["add"], 0).await;
    put(&folder, "two.wasm", &guests::ECHO.bytes());
    until(&["add", "echo"], 0).await;
    put(&folder, "one.wasm", b"broken now");
    until(&["echo"], 1).await;
    put(&folder, "one.wasm", &guests::ADDER.bytes());
    until(&["add", "echo"], 0).await;
    fs::remove_file(folder.join("two.wasm")).unwrap();
    until(&["add"], 0).await;
    fs::remove_dir_all(&folder).unwrap();
    until(&[], 0).await;
    watch.abort();
}
