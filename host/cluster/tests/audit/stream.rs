//! The stream: concurrency, restarts, limits, attacks, export.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use mimir_audit::AuditLog;
use mimir_cluster::{ClusterFault, ClusterLog};
use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, event, wait_until};
use crate::nats_server::NatsServer;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn concurrent_calls_of_several_nodes_are_recorded_and_exported() {
    let server = NatsServer::start();
    let nodes = [
        Arc::new(TestNode::start(&server.url()).await),
        Arc::new(TestNode::start(&server.url()).await),
    ];
    let mut tasks = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        for caller in 0..32 {
            let node = Arc::clone(node);
            tasks.spawn(async move {
                for call in 0..20 {
                    let id = format!("{number}-{caller}-{call}");
                    node.announce(&id).await;
                    if call % 2 == 0 {
                        node.record(&id).await;
                    } else {
                        node.sink.record(&event(&id)).unwrap();
                    }
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let report = nodes[0].verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.announced_calls, report.lines), (1280, 2562));
    // Lines of concurrent calls share messages.
    assert!(report.messages < report.lines, "{report:?}");
    let folder = tempfile::tempdir().unwrap();
    let log = ClusterLog::new(nodes[0].connection.clone());
    let export = log.export(folder.path()).await.unwrap();
    assert_eq!((export.lines, export.files), (2562, 2));
    nodes[1].record("later").await;
    let export = log.export(folder.path()).await.unwrap();
    assert_eq!((export.lines, export.files), (1, 1));
    for node in &nodes {
        let path = folder.path().join(format!("{}.jsonl", node.node.id()));
        let snapshot = AuditLog::at(path).snapshot().unwrap();
        let report = mimir_audit::verify(&snapshot, None, None).unwrap();
        assert!(report.ok && report.lines >= 1281, "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn restarted_server_loses_no_line_and_gets_none_twice() {
    let mut server = NatsServer::start();
    let node = Arc::new(TestNode::start(&server.url()).await);
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..16 {
        let node = Arc::clone(&node);
        tasks.spawn(async move {
            let mut recorded = 0;
            for call in 0..200 {
                let id = format!("{caller}-{call}");
                if node.sink.announce(&event(&id)).await.is_ok() {
                    // A record that is refused meanwhile is made later.
                    recorded += u32::from(node.sink.record_with_others(&event(&id)).await.is_ok());
                } else {
                    // The announcement may be stored all the same, if the server was away for long.
                    let _ = node.sink.record_with_others(&event(&id)).await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            recorded
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.restart();
    }
    let mut recorded = 0;
    while let Some(done) = tasks.join_next().await {
        recorded += done.unwrap();
    }
    wait_until("the log is writable again", || node.sink.ready().is_ok()).await;
    node.record("last").await;
    let report = node.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!(report.running_calls, 0, "{report:?}");
    assert!(recorded > 0 && report.announced_calls >= u64::from(recorded));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn paused_server_refuses_calls_and_loses_none() {
    let server = NatsServer::start();
    let node = TestNode::start(&server.url()).await;
    node.announce("before").await;
    let signal = |signal: &str| {
        let id = server.process().to_string();
        let status = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    let process = server.process();
    wait_until("the server has stopped", || {
        crate::process::is_stopped(process)
    })
    .await;
    let began = std::time::Instant::now();
    assert!(node.sink.announce(&event("meanwhile")).await.is_err());
    // The server does not answer, so callers learn after a bounded time.
    assert!(began.elapsed() < Duration::from_secs(20));
    let refusal = event("meanwhile");
    let recorded = node.sink.record_with_others(&refusal);
    assert!(node.sink.ready().is_err());
    signal("-CONT");
    recorded.await.unwrap();
    wait_until("the log is writable again", || node.sink.ready().is_ok()).await;
    node.record("before").await;
    let report = node.verify().await;
    assert!(report.ok && report.running_calls == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn full_stream_refuses_calls_until_it_has_space() {
    let server = NatsServer::start();
    let node = TestNode::start(&server.url()).await;
    node.announce("open").await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let jetstream = jetstream::new(client);
    let mut stream = jetstream.get_stream("MIMIR_AUDIT").await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    let space = config.max_messages;
    config.max_messages = 1;
    jetstream.update_stream(config.clone()).await.unwrap();
    let error = node.sink.announce(&event("refused")).await.unwrap_err();
    assert_eq!(
        error.source.kind(),
        std::io::ErrorKind::StorageFull,
        "{error}"
    );
    let error = node.sink.ready().unwrap_err();
    assert_eq!(
        error.source.kind(),
        std::io::ErrorKind::StorageFull,
        "{error}"
    );
    // The outcome of a call that ran waits for space.
    let outcome = event("open");
    let recorded = node.sink.record_with_others(&outcome);
    config.max_messages = space;
    jetstream.update_stream(config).await.unwrap();
    recorded.await.unwrap();
    wait_until("the log is writable again", || node.sink.ready().is_ok()).await;
    node.announce("again").await;
    node.record("again").await;
    let report = node.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.announced_calls, report.running_calls), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn log_cannot_be_deleted_and_forged_messages_are_found() {
    let server = NatsServer::start();
    let node = TestNode::start(&server.url()).await;
    let id = node.node.id();
    node.record("c1").await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let jetstream = jetstream::new(client);
    let stream = jetstream.get_stream("MIMIR_AUDIT").await.unwrap();
    assert!(stream.delete_message(1).await.is_err());
    // A client that may publish appends an outcome to the chain of another process.
    let forged = r#"{"event":"call","id":"c9","ok":true}"#;
    let publish = jetstream.publish(format!("mimir.audit.{id}"), forged.into());
    publish.await.unwrap().await.unwrap();
    // The process is fenced, since its chain is no longer its own.
    node.record("c2").await;
    wait_until("the node has a new id", || node.node.id() != id).await;
    let report = node.verify().await;
    let faults: Vec<_> = report.findings.iter().map(|found| found.fault).collect();
    assert!(
        !report.ok && faults.contains(&ClusterFault::Changed),
        "{report:?}"
    );
    node.record("c3").await;
}
