use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::shared_state::FileSharedState;

/// A process of a workspace, without its calls.
struct SharingProcess {
    calls: Arc<RunningCalls>,
}

impl SharingProcess {
    async fn start(folder: &Path, workspace: &str) -> Self {
        let state = Arc::new(FileSharedState::new(folder));
        let store = SharedApprovalStore::start(state, workspace, "ada").await;
        let calls = Arc::new(RunningCalls::default());
        Arc::new(store.unwrap()).share_agent_stops(&calls);
        Self { calls }
    }

    fn stops(&self) -> &SessionStops {
        self.calls.stops()
    }

    /// Waits until the orders fulfil a condition.
    async fn wait_for(&self, condition: impl Fn(&SessionStops) -> bool) {
        let mut changes = self.stops().changes();
        while !condition(self.stops()) {
            changes.changed().await.unwrap();
        }
    }
}

fn notice(session: &str) -> StopNotice {
    let reason = Some("it deletes files".to_owned());
    StopNotice::new("ada".into(), SystemTime::now(), reason).for_session(session)
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_stop_holds_in_all_processes_of_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let one = SharingProcess::start(folder.path(), "shop").await;
    let other = SharingProcess::start(folder.path(), "shop").await;
    let foreign = SharingProcess::start(folder.path(), "bank").await;
    assert!(one.stops().stop(notice("wild\u{202e}")));
    other
        .wait_for(|stops| stops.stopped("wild\u{202e}").is_some())
        .await;
    let known = other.stops().stopped("wild\u{202e}").unwrap();
    assert_eq!(known.reason.as_deref(), Some("it deletes files"));
    assert_eq!(known, one.stops().notices()[0]);
    let later = SharingProcess::start(folder.path(), "shop").await;
    assert!(later.stops().stopped("wild\u{202e}").is_some());
    assert!(later.stops().stopped("tame").is_none());
    assert!(foreign.stops().notices().is_empty());
    assert!(other.stops().start("wild\u{202e}"));
    for process in [&one, &other, &later] {
        process.wait_for(|stops| stops.notices().is_empty()).await;
    }
    let last = SharingProcess::start(folder.path(), "shop").await;
    assert!(last.stops().notices().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_stop_holds_here_while_the_store_fails() {
    let folder = tempfile::tempdir().unwrap();
    let one = SharingProcess::start(folder.path(), "shop").await;
    let other = SharingProcess::start(folder.path(), "shop").await;
    // A file where the store creates its folder.
    let area = folder.path().join(StateArea::Approvals.as_str());
    std::fs::write(&area, "").unwrap();
    one.stops().stop(notice("wild"));
    let is_reported = |stops: &SessionStops| {
        let notice = stops.stopped("wild").unwrap();
        notice
            .unshared
            .is_some_and(|text| text.starts_with("other servers may not know"))
    };
    one.wait_for(is_reported).await;
    assert!(other.stops().notices().is_empty());
    std::fs::remove_file(&area).unwrap();
    other
        .wait_for(|stops| stops.stopped("wild").is_some())
        .await;
    one.wait_for(|stops| stops.stopped("wild").unwrap().unshared.is_none())
        .await;
    assert!(one.stops().unshared().is_empty());
}

/// Starts the approvals of a process without its task that shares orders.
async fn start_store(folder: &Path) -> SharedApprovalStore {
    let state = Arc::new(FileSharedState::new(folder));
    let store = SharedApprovalStore::start(state, "shop", "ada").await;
    store.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_stop_is_not_withdrawn_with_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        start_store(folder.path()).await,
        start_store(folder.path()).await,
    );
    let stops = SessionStops::default();
    stops.share();
    stops.stop(notice("wild"));
    assert!(one.share_changes(&stops).await);
    // Withdrawn here, but not stored yet, while a person stops the agent again elsewhere.
    stops.start("wild");
    let again = StopNotice {
        at_ms: notice("wild").at_ms + 1,
        by: "bob".into(),
        ..notice("wild")
    };
    other.store_agent_stop(&again).await.unwrap();
    assert!(one.share_changes(&stops).await);
    stops.apply_shared(one.agent_stops(&stops));
    assert_eq!(stops.stopped("wild"), Some(again));
    assert!(stops.unshared().is_empty());
    stops.start("wild");
    assert!(one.share_changes(&stops).await);
    stops.apply_shared(one.agent_stops(&stops));
    assert_eq!(stops.stopped("wild"), None);
    let key = one.agent_stop_key(&notice("wild"));
    let stored = one.state.get(StateArea::Approvals, &key).await.unwrap();
    assert!(stored.is_none(), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_stop_remains_if_its_entry_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = start_store(folder.path()).await;
    let stops = SessionStops::default();
    stops.share();
    let (wild, tame) = (notice("wild"), notice("tame"));
    store.store_agent_stop(&wild).await.unwrap();
    stops.apply_shared(store.agent_stops(&stops));
    let replace = async |value: Vec<u8>| {
        let key = store.agent_stop_key(&notice("wild"));
        let written = write_value(&*store.state, &key, value.clone(), None).await;
        let revision = written.unwrap();
        store.mirror.set(StateEntry {
            key,
            value,
            revision,
        });
    };
    for value in [b"{\"stream\":\"KV\",\"seq\":1}".to_vec(), encode(&tame)] {
        replace(value).await;
        assert_eq!(store.agent_stops(&stops), std::slice::from_ref(&wild));
    }
}
