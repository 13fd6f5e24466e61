//! A plugin that does not say in time what it is costs its time once, and not at every look at the folder.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mimir_core::{Code, Quarantined};
use mimir_wasm::{HostOptions, Toolbox, WasmHost};

use crate::guests;

/// How long a plugin is waited for; it is not asked if a look takes less.
const WAIT: Duration = Duration::from_secs(5);

/// A look by a process of its own, and how long it took.
async fn look(home: &Path, again: bool) -> (Quarantined, Duration) {
    let mut options = HostOptions::new(home.join("workspace"));
    options.cache_dir = Some(home.join("cache"));
    let folder = home.join("workspace/tools");
    let mut toolbox = Toolbox::new(WasmHost::new(options), vec![], Some(folder));
    if again {
        toolbox = toolbox.asking_again();
    }
    let start = Instant::now();
    let mut loaded = toolbox.load().await;
    assert_eq!(loaded.quarantined.len(), 1);
    (loaded.quarantined.remove(0), start.elapsed())
}

#[tokio::test]
async fn it_is_asked_once_and_again_when_a_person_wants_it() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join("workspace/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::copy(guests::DESCRIBE_SLEEPS.path, tools.join("slow.wasm")).unwrap();

    let (first, took) = look(home.path(), false).await;
    assert_eq!(first.code, Code::Timeout, "{first:?}");
    assert!(took >= WAIT, "{took:?}");
    let (second, took) = look(home.path(), false).await;
    assert_eq!(second.code, Code::Timeout, "{second:?}");
    assert!(took < WAIT / 2, "{took:?}");
    for left in [first, second] {
        assert!(
            left.reason.contains("asked again in 10 min") && left.reason.contains("mimir doctor"),
            "{left:?}"
        );
    }
    let (third, took) = look(home.path(), true).await;
    assert_eq!(third.code, Code::Timeout, "{third:?}");
    assert!(took >= WAIT, "{took:?}");
}

#[tokio::test]
async fn several_are_waited_for_together_and_not_by_who_needs_none_of_them() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join("workspace/tools");
    fs::create_dir_all(&tools).unwrap();
    for number in 0..4 {
        // An empty custom section makes each another file.
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
    assert_eq!((known.unseen, known.quarantined.len()), (4, 0));
    assert!(start.elapsed() < WAIT, "nobody was asked");
    let start = Instant::now();
    assert_eq!(toolbox().load().await.quarantined.len(), 4);
    assert!(start.elapsed() < 3 * WAIT, "{:?}", start.elapsed());
}
