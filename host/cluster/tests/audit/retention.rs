//! Removal of exported messages: what is kept, interruptions, attacks.

use std::path::Path;
use std::time::{Duration, SystemTime};

use async_nats::jetstream;
use mimir_audit::AuditLog;
use mimir_cluster::{
    ClusterExportError, ClusterFault, ClusterLog, ClusterRemoval, ClusterVerifyReport, NatsState,
    NodeRole,
};
use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, event, wait_until};
use crate::nats_server::NatsServer;

/// Returns a time after all messages.
fn future() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

struct Admin {
    log: ClusterLog,
    state: NatsState,
}

impl Admin {
    fn new(node: &TestNode) -> Self {
        Self {
            log: ClusterLog::new(node.connection.clone()),
            state: NatsState::new(node.connection.clone()),
        }
    }

    async fn remove(&self, folder: &Path) -> Result<ClusterRemoval, ClusterExportError> {
        let removed = self
            .log
            .export_and_remove(&self.state, folder, future(), "test");
        removed.await.map(|(_, removal)| removal)
    }

    async fn verify(&self, noted: Option<&str>) -> ClusterVerifyReport {
        let report = self.log.verify(&self.state, noted).await;
        report.expect("the log is readable")
    }
}

fn verify_files(folder: &Path) -> u64 {
    let mut lines = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            let snapshot = AuditLog::at(&path).snapshot().expect("a file");
            let report = mimir_audit::verify_exported(&snapshot).expect("a log");
            assert!(report.ok, "{path:?}: {report:?}");
            lines += report.lines;
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn removal_keeps_what_processes_need_and_the_log_verifies() {
    let server = NatsServer::start();
    let (left, running) = (
        TestNode::start_as(&server.url(), NodeRole::Admin).await,
        TestNode::start(&server.url()).await,
    );
    let left_id = left.node.id();
    left.announce("l1").await;
    left.record("l1").await;
    left.node.shut_down().await;
    running.record("r1").await;
    running.announce("open").await;
    for number in 0..20 {
        running.record(&format!("later-{number}")).await;
    }
    let admin = Admin::new(&running);
    let before = admin.verify(None).await;
    let folder = tempfile::tempdir().unwrap();
    // Nothing is old enough.
    let past = SystemTime::now() - Duration::from_secs(3600);
    let none = admin
        .log
        .export_and_remove(&admin.state, folder.path(), past, "test");
    assert_eq!(none.await.unwrap().1.messages, 0);
    assert_eq!(admin.verify(None).await.messages, before.messages);

    let removal = admin.remove(folder.path()).await.unwrap();
    assert_eq!(
        (removal.writers, removal.before),
        (2, before.head.sequence + 1)
    );
    let noted = before.head.hash.to_string();
    let after = admin.verify(Some(&noted)).await;
    assert!(after.ok, "{after:?}");
    assert_eq!(after.noted, Some(before.head.sequence));
    // The last message of the one that has left, and all from the running call on.
    assert_eq!(after.messages + removal.messages, before.messages + 1);
    assert_eq!(after.running_calls, 1);
    assert_eq!(verify_files(folder.path()), before.lines);
    // The removed calls count as ones that may have run; those that are still there are found.
    assert!(running.find(&left_id, "unknown").await.announced);
    assert!(
        running
            .find(&running.node.id(), "later-3")
            .await
            .outcome
            .is_some()
    );

    // The process goes on, and the call ends. A second removal removes the rest.
    running.record("open").await;
    running.record("after").await;
    assert!(admin.verify(None).await.ok);
    let second = admin.remove(folder.path()).await.unwrap();
    assert!(second.messages >= 20, "{second:?}");
    let report = admin.verify(None).await;
    assert!(report.ok && report.writers == 3, "{report:?}");
    running.record("more").await;
    assert!(admin.verify(None).await.ok);
    verify_files(folder.path());
    // A new folder gets what is left.
    let rest = tempfile::tempdir().unwrap();
    admin.log.export(rest.path()).await.unwrap();
    assert!(verify_files(rest.path()) > 0);
    let third = admin.remove(rest.path()).await.unwrap();
    assert!(third.messages > 0 && admin.verify(None).await.ok);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn removal_fences_processes_as_before() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    let (admin, folder) = (Admin::new(&second), tempfile::tempdir().unwrap());
    // The writer of a process that never wrote is closed, and the log is cut.
    second.record("s1").await;
    second.node.close_writer(&id).await.unwrap();
    second.record("s2").await;
    admin.remove(folder.path()).await.unwrap();
    first.record("c2").await;
    assert_ne!(first.node.id(), id, "the old id is fenced");
    // A process that has written before continues its chain.
    let id = first.node.id();
    admin.remove(folder.path()).await.unwrap();
    first.record("c3").await;
    assert_eq!(first.node.id(), id);
    // It is closed by another process, its log is cut, and it wakes up.
    first.announce("open").await;
    second.node.close_writer(&id).await.unwrap();
    admin.remove(folder.path()).await.unwrap();
    let error = first.sink.record_with_others(&event("open")).await;
    assert!(error.unwrap_err().is_taken_over());
    wait_until("the node has a new id", || first.node.id() != id).await;
    first.record("c4").await;
    let report = admin.verify(None).await;
    assert!(report.ok, "{report:?}");
    verify_files(folder.path());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn interrupted_removal_verifies_and_can_be_repeated() {
    let server = NatsServer::start();
    let last = TestNode::start(&server.url()).await;
    for number in 0..40 {
        let node = TestNode::start_as(&server.url(), NodeRole::Admin).await;
        node.announce(&format!("{number}-a")).await;
        node.record(&format!("{number}-a")).await;
        node.record(&format!("{number}-b")).await;
        node.node.shut_down().await;
    }
    last.record("last").await;
    let (admin, folder) = (Admin::new(&last), tempfile::tempdir().unwrap());
    let total = admin.verify(None).await.messages;
    admin.log.export(folder.path()).await.unwrap();
    let (mut sizes, mut millis) = (std::collections::BTreeSet::new(), 1);
    let done = loop {
        let removed =
            tokio::time::timeout(Duration::from_millis(millis), admin.remove(folder.path()));
        let done = removed.await;
        let report = admin.verify(None).await;
        assert!(report.ok, "after {millis} ms: {report:?}");
        sizes.insert(report.messages);
        last.record(&format!("after-{millis}")).await;
        if let Ok(done) = done {
            break done.unwrap();
        }
        millis += 3;
    };
    println!("{total} messages, then {sizes:?}, last removal {done:?}");
    assert!(
        sizes.len() > 2,
        "some were interrupted in the middle: {sizes:?}"
    );
    let report = admin.verify(None).await;
    assert!(report.ok && report.messages < total / 2, "{report:?}");
    verify_files(folder.path());
    // Two at the same time do no harm.
    last.record("again").await;
    let (a, b) = tokio::join!(admin.remove(folder.path()), admin.remove(folder.path()));
    assert!(a.is_ok() || b.is_ok(), "{a:?} {b:?}");
    assert!(admin.verify(None).await.ok);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn log_verifies_while_lines_are_removed() {
    let server = NatsServer::start();
    let mut nodes = Vec::new();
    for _ in 0..20 {
        nodes.push(TestNode::start(&server.url()).await);
    }
    // Interleaved, so that a verification is in the middle of many writers when their first lines are removed.
    for round in 0..6 {
        for node in &nodes {
            node.record(&format!("r{round}")).await;
        }
    }
    let (admin, reader, folder) = (
        Admin::new(&nodes[0]),
        Admin::new(&nodes[1]),
        tempfile::tempdir().unwrap(),
    );
    let is_removed = std::sync::atomic::AtomicBool::new(false);
    let remove = async {
        let removal = admin.remove(folder.path()).await.unwrap();
        is_removed.store(true, std::sync::atomic::Ordering::SeqCst);
        removal
    };
    let verify = async {
        let mut count = 0;
        while !is_removed.load(std::sync::atomic::Ordering::SeqCst) {
            let report = reader.verify(None).await;
            assert!(report.ok, "{report:?}");
            count += 1;
        }
        count
    };
    let (removal, count) = tokio::join!(remove, verify);
    println!("{count} verifications during {removal:?}");
    assert_eq!(removal.writers, nodes.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn nothing_is_removed_without_a_complete_export_of_an_intact_log() {
    let server = NatsServer::start();
    let node = TestNode::start(&server.url()).await;
    for number in 0..5 {
        node.record(&number.to_string()).await;
    }
    let (admin, folder) = (Admin::new(&node), tempfile::tempdir().unwrap());
    admin.log.export(folder.path()).await.unwrap();
    let path = folder.path().join(format!("{}.jsonl", node.node.id()));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("write_file", "wrote_file", 1)).unwrap();
    let error = admin.remove(folder.path()).await.unwrap_err();
    assert!(
        matches!(error, ClusterExportError::Incomplete(_)),
        "{error}"
    );
    assert_eq!(admin.verify(None).await.messages, 5);
    // The folder of another export that has only the end.
    let fresh = tempfile::tempdir().unwrap();
    std::fs::write(fresh.path().join("position.json"), r#"{"sequence":4}"#).unwrap();
    assert!(admin.remove(fresh.path()).await.is_err());
    // The log has a fault.
    let client = async_nats::connect(server.url()).await.unwrap();
    let jetstream = jetstream::new(client.clone());
    let forged = r#"{"event":"call","id":"c9","ok":true}"#;
    let publish = jetstream.publish("mimir.audit.evil", forged.into()).await;
    publish.unwrap().await.unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let error = admin.remove(fresh.path()).await.unwrap_err();
    assert!(
        matches!(error, ClusterExportError::NotVerified(_)),
        "{error}"
    );
    let report = admin.verify(None).await;
    assert_eq!(report.messages, 6);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.fault == ClusterFault::Forged)
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn removal_beyond_the_stated_one_is_found() {
    let server = NatsServer::start();
    let node = TestNode::start(&server.url()).await;
    for number in 0..6 {
        node.record(&number.to_string()).await;
    }
    let (admin, folder) = (Admin::new(&node), tempfile::tempdir().unwrap());
    admin.remove(folder.path()).await.unwrap();
    for number in 6..12 {
        node.record(&number.to_string()).await;
    }
    assert!(admin.verify(None).await.ok);
    // An administrator of the NATS server removes more.
    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = jetstream::new(client)
        .get_stream("MIMIR_AUDIT")
        .await
        .unwrap();
    let subject = format!("mimir.audit.{}", node.node.id());
    stream.purge().filter(subject).keep(2).await.unwrap();
    let report = admin.verify(None).await;
    assert!(!report.ok, "{report:?}");
    let error = admin.remove(folder.path()).await.unwrap_err();
    assert!(
        matches!(error, ClusterExportError::NotVerified(_)),
        "{error}"
    );
}
