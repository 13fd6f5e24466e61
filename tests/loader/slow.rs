//! A plugin that does not return its description in time costs that time once, not on every load.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mimir_core::{Quarantined, ToolErrorCode};
use mimir_wasm::{HostOptions, Toolbox, WasmHost};

use crate::guests;

/// Time limit of a description. A load that takes less did not query the plugin.
const WAIT: Duration = Duration::from_secs(5);

/// Loads in a separate process; returns the time it took.
async fn look(home: &Path, again: bool) -> (Quarantined, Duration) {
    let mut options = HostOptions::new(home.join("workspace"));
    options.cache_dir = Some(home.join("cache"));
    let folder = home.join("workspace/tools");
    let mut toolbox = Toolbox::new(WasmHost::new(options), vec![], Some(folder));
    if again {
        toolbox = toolbox.with_retries();
    }
    let start = Instant::now();
    let mut loaded = toolbox.load().await;
    assert_eq!(loaded.quarantined.len(), 1);
    (loaded.quarantined.remove(0), start.elapsed())
}

#[tokio::test]
async fn describe_timeout_is_remembered_until_a_person_retries() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join("workspace/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::copy(guests::DESCRIBE_SLEEPS.path, tools.join("slow.wasm")).unwrap();

    let (first, took) = look(home.path(), false).await;
    assert_eq!(first.code, ToolErrorCode::Timeout, "{first:?}");
    assert!(took >= WAIT, "{took:?}");
    let (second, took) = look(home.path(), false).await;
    assert_eq!(second.code, ToolErrorCode::Timeout, "{second:?}");
    assert!(took < WAIT, "{took:?}");
    for left in [first, second] {
        assert!(
            left.reason.contains("queried again in 10 min") && left.reason.contains("mimir doctor"),
            "{left:?}"
        );
    }
    let (third, took) = look(home.path(), true).await;
    assert_eq!(third.code, ToolErrorCode::Timeout, "{third:?}");
    assert!(took >= WAIT, "{took:?}");
}

#[tokio::test]
async fn describe_of_slow_plugins_is_parallel_or_skipped() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join("workspace/tools");
    fs::create_dir_all(&tools).unwrap();
    for number in 0..4 {
        // An empty custom section makes each file different.
        let mut bytes = fs::read(guests::DESCRIBE_SLEEPS.path).unwrap();
        bytes.extend([0, 2, 1, b'a' + number]);
        fs::write(tools.join(format!("slow{number}.wasm")), bytes).unwrap();
    }
    let toolbox = || {
        let mut options = HostOptions::new(home.path().join("workspace"));
        options.cache_dir = Some(home.path().join("cache"));
        Toolbox::new(WasmHost::new(options), vec![], Some(tools.clone()))
    };
    let start = Instant::now();
    let known = toolbox().known_only().load().await;
    assert_eq!((known.undescribed, known.quarantined.len()), (4, 0));
    assert!(start.elapsed() < WAIT, "the plugin was queried");
    let start = Instant::now();
    assert_eq!(toolbox().load().await.quarantined.len(), 4);
    assert!(start.elapsed() < 3 * WAIT, "{:?}", start.elapsed());
}
