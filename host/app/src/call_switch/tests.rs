use std::time::UNIX_EPOCH;

use super::*;
use crate::shared_state::FileSharedState;

fn notice(reason: &str) -> StopNotice {
    StopNotice::new("ada".to_owned(), UNIX_EPOCH, Some(reason.to_owned()))
}

fn notice_without_reason() -> StopNotice {
    StopNotice::new("bob".to_owned(), UNIX_EPOCH, None)
}

#[tokio::test]
async fn stop_file_stops_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let user_dirs = UserDirs {
        config: Some(folder.path().join("config")),
        ..UserDirs::default()
    };
    let file = StopFile::of_user(&user_dirs).unwrap();
    let switch = user_switch(&user_dirs);
    assert_eq!(switch.stopped(), None, "the folder does not exist");
    assert_eq!(file.start().unwrap(), None);
    let changed = switch.changed();
    file.stop(&notice("first")).unwrap();
    changed.await;
    assert_eq!(switch.stopped(), Some(notice("first")));
    file.stop(&notice("second order")).unwrap();
    assert_eq!(switch.stopped(), Some(notice("second order")));
    // The reason is that of its author.
    let in_force = file.stop(&notice_without_reason()).unwrap();
    assert_eq!(in_force, notice("second order"));
    assert_eq!(switch.stopped(), Some(notice("second order")));
    assert_eq!(file.start().unwrap(), Some(notice("second order")));
    assert_eq!(switch.stopped(), None);
}

#[test]
fn stop_file_that_cannot_be_read_stops() {
    let folder = tempfile::tempdir().unwrap();
    let user_dirs = UserDirs {
        config: Some(folder.path().to_owned()),
        ..UserDirs::default()
    };
    let file = StopFile::of_user(&user_dirs).unwrap();
    std::fs::write(file.path(), "{").unwrap();
    let reason = user_switch(&user_dirs).stopped().unwrap().reason.unwrap();
    assert!(reason.contains("stop.json cannot be read"), "{reason}");
    let in_force = file.stop(&notice_without_reason()).unwrap();
    assert_eq!(in_force, notice_without_reason());
    std::fs::remove_file(file.path()).unwrap();
    std::fs::create_dir(file.path()).unwrap();
    assert!(user_switch(&user_dirs).stopped().is_some());
}

#[tokio::test]
async fn stop_of_a_cluster_reaches_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let state: SharedStateHandle = Arc::new(FileSharedState::new(folder.path()));
    let other: SharedStateHandle = Arc::new(FileSharedState::new(folder.path()));
    let machine: Arc<dyn CallSwitch> = Arc::new(NoCallSwitch);
    let switch = ClusterCallSwitch::start(&state, machine).await.unwrap();
    assert_eq!(switch.stopped(), None);
    let stop = ClusterStop::new(other);
    let changed = switch.changed();
    stop.stop(&notice("all")).await.unwrap();
    changed.await;
    assert_eq!(switch.stopped(), Some(notice("all")));
    stop.stop(&notice("still all")).await.unwrap();
    let in_force = stop.stop(&notice_without_reason()).await.unwrap();
    assert_eq!(in_force, notice("still all"));
    let changed = switch.changed();
    assert_eq!(stop.start().await.unwrap(), Some(notice("still all")));
    while switch.stopped().is_some() {
        tokio::task::yield_now().await;
    }
    drop(changed);
    assert_eq!(stop.read().await.unwrap(), None);
}

#[tokio::test]
async fn stop_of_a_cluster_replaces_an_order_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let state: SharedStateHandle = Arc::new(FileSharedState::new(folder.path()));
    let area = StateArea::Control;
    let key = stop_key();
    let written = state.create(area, &key, b"{".to_vec(), None);
    written.await.unwrap();
    let stop = ClusterStop::new(state);
    let in_force = stop.stop(&notice_without_reason()).await.unwrap();
    assert_eq!(in_force, notice_without_reason());
    assert_eq!(stop.read().await.unwrap(), Some(notice_without_reason()));
}
