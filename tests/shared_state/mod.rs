//! The conformance tests of shared state, with files and with NATS.

use std::sync::Arc;

use mimir::shared_state::FileSharedState;
use mimir_cluster::{ClusterConnection, ConnectionOptions, NatsState};
use mimir_core::shared_state::{SharedStateError, StateArea, StateKey};
use mimir_kit::NatsServer;
use mimir_kit::state_conformance::{self, StatePair};

fn files(root: &std::path::Path) -> StatePair {
    let root = root.join("state");
    StatePair {
        one: Arc::new(FileSharedState::new(&root)),
        other: Arc::new(FileSharedState::new(&root)),
    }
}

async fn connect(server: &NatsServer) -> NatsState {
    let options = ConnectionOptions {
        servers: server.url(),
        ..ConnectionOptions::default()
    };
    NatsState::new(ClusterConnection::connect(options).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_state_in_files_conforms() {
    let folder = tempfile::tempdir().unwrap();
    state_conformance::check_all(&files(folder.path())).await;
}

#[tokio::test]
async fn shared_state_in_files_reports_an_unusable_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("state");
    std::fs::write(&root, "a file, not a folder").unwrap();
    let state = FileSharedState::new(&root);
    state_conformance::unreachable_store_is_reported(&state).await;
}

#[tokio::test]
async fn shared_state_in_files_reports_damaged_files() {
    let folder = tempfile::tempdir().unwrap();
    let pair = files(folder.path());
    let key = StateKey::new(["a"]);
    let area = StateArea::Questions;
    pair.one.create(area, &key, vec![1], None).await.unwrap();
    let files = std::fs::read_dir(folder.path().join("state/questions")).unwrap();
    let mut values = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == "value"));
    std::fs::write(values.next().unwrap(), "damaged").unwrap();
    for error in [
        pair.other.get(area, &key).await.unwrap_err(),
        pair.other.list(area, None).await.unwrap_err(),
        pair.other
            .create(area, &key, vec![2], None)
            .await
            .unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(
            matches!(error, SharedStateError::Unreachable { .. })
                && message.contains("remove the file"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn shared_state_in_nats_conforms() {
    let server = NatsServer::start();
    let pair = StatePair {
        one: Arc::new(connect(&server).await),
        other: Arc::new(connect(&server).await),
    };
    state_conformance::check_all(&pair).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn shared_state_in_nats_reports_a_killed_server_and_recovers() {
    let mut server = NatsServer::start();
    let pair = StatePair {
        one: Arc::new(connect(&server).await),
        other: Arc::new(connect(&server).await),
    };
    state_conformance::values_are_created_once(&pair).await;
    server.kill();
    state_conformance::unreachable_store_is_reported(&*pair.one).await;
    server.restart();
    // The connection is restored after a pause.
    let key = StateKey::new(["recovered"]);
    while pair.one.get(StateArea::Jobs, &key).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    state_conformance::updates_need_the_current_revision(&pair).await;
}
