//! The newest lines of the log, newest first, for consoles.

use std::ops::ControlFlow;

use mimir_cluster::{ClusterLog, NatsState, RecentLog};
use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, event};
use crate::nats_server::NatsServer;

/// Returns the ids of the calls in the messages up to `last`, newest first.
async fn ids_before(log: &RecentLog, last: Option<u64>, max: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let visited = log.visit_newest_first(last, |message| {
        for line in message.lines().rev() {
            let line: serde_json::Value = serde_json::from_slice(line).expect("lines are JSON");
            if line["event"] == "call" && ids.len() < max {
                ids.push(line["id"].as_str().unwrap_or_default().to_owned());
            }
        }
        if ids.len() < max {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    visited.await.expect("the log is readable");
    ids
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn recent_lines_come_newest_first_across_blocks_and_writers() {
    let server = NatsServer::start();
    let nodes = [
        TestNode::start(&server.url()).await,
        TestNode::start(&server.url()).await,
    ];
    let reader = RecentLog::new(nodes[0].connection.clone(), nodes[0].node.nodes());
    assert_eq!(ids_before(&reader, None, 10).await, Vec::<String>::new());
    let mut recorded = Vec::new();
    for number in 0..700 {
        let id = format!("c{number}");
        nodes[number % 2].record(&id).await;
        recorded.insert(0, id);
        // The reader follows while the log grows.
        if number % 97 == 0 {
            assert_eq!(ids_before(&reader, None, usize::MAX).await, recorded);
        }
    }
    assert_eq!(ids_before(&reader, None, usize::MAX).await, recorded);
    assert_eq!(ids_before(&reader, None, 3).await, recorded[..3]);
    // From a message in the middle of the stream.
    let last = reader.extent().await.unwrap().unwrap().last;
    let later = ids_before(&reader, Some(last - 300), 5).await;
    assert_eq!(later, recorded[300..305]);
    let mut followed = 0;
    let end = reader.visit_from(last - 9, |message| {
        followed += 1;
        let writer = &message.writer;
        assert_eq!(writer.role.as_deref(), Some("worker"), "{writer:?}");
        ControlFlow::Continue(())
    });
    assert_eq!((end.await.unwrap(), followed), (last, 10));
    assert_eq!(
        reader.visit_from(last + 1, |_| panic!()).await.unwrap(),
        last
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn recent_lines_of_ended_nodes_name_them_also_after_a_removal() {
    let server = NatsServer::start();
    let admin = TestNode::start(&server.url()).await;
    let ended = TestNode::start(&server.url()).await;
    let id = ended.node.id();
    for number in 0..20 {
        ended.record(&format!("c{number}")).await;
    }
    ended.sink.record(&event("last")).unwrap();
    ended.node.shut_down().await;
    let reader = RecentLog::new(admin.connection.clone(), admin.node.nodes());
    let mut roles = Vec::new();
    let visited = reader.visit_newest_first(None, |message| {
        if message.writer.writer == id {
            roles.push(message.writer.role.clone());
        }
        ControlFlow::Continue(())
    });
    visited.await.unwrap();
    assert!(roles.iter().all(|role| role.as_deref() == Some("worker")) && roles.len() > 5);
    // Messages that were exported and removed are left out.
    admin.record("kept").await;
    let state = NatsState::new(admin.connection.clone());
    let folder = tempfile::tempdir().unwrap();
    let log = ClusterLog::new(admin.connection.clone());
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let removed = log.export_and_remove(&state, folder.path(), now, "a test");
    let (_, removed) = removed.await.unwrap();
    assert!(removed.messages > 0, "{removed:?}");
    let fresh = RecentLog::new(admin.connection.clone(), admin.node.nodes());
    let ids = ids_before(&fresh, None, usize::MAX).await;
    assert!(
        ids.contains(&"kept".to_owned()) && !ids.contains(&"c0".to_owned()),
        "{ids:?}"
    );
}

/// Prints how long the last 100,000 lines take to read: `MIMIR_RECENT_LINES=100000` and `--nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn recent_lines_are_cached_within_a_size() {
    let lines: usize = std::env::var("MIMIR_RECENT_LINES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000);
    let server = NatsServer::start();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let url = server.url();
        tasks.spawn(async move {
            let node = TestNode::start(&url).await;
            for number in 0..lines / 8 {
                node.record(&format!("{writer}-{number}")).await;
            }
            node
        });
    }
    let nodes = tasks.join_all().await;
    let reader = RecentLog::new(nodes[0].connection.clone(), nodes[0].node.nodes());
    let mut times = Vec::new();
    for _ in 0..2 {
        let began = std::time::Instant::now();
        let ids = ids_before(&reader, None, usize::MAX).await;
        times.push(began.elapsed());
        assert_eq!(ids.len(), lines / 8 * 8);
    }
    let began = std::time::Instant::now();
    let fresh = RecentLog::new(nodes[0].connection.clone(), nodes[0].node.nodes());
    ids_before(&fresh, None, 200).await;
    eprintln!(
        "{lines} lines: first {:?}, again {:?}; the newest 200 of another reader {:?}",
        times[0],
        times[1],
        began.elapsed()
    );
}
