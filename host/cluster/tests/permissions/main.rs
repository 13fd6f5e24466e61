//! Tests of the files that `mimir cluster init` writes, with a NATS server that is started from them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that goes wrong ends where it goes wrong"
)]

mod cluster_folder;

use std::time::Duration;

use mimir_cluster::{
    ClusterConnection, ClusterError, ComponentStore, DeploymentManifest, DeploymentMirror,
    Deployments, MirrorChange, NatsState, NodeRole, ObjectError,
};
use mimir_core::shared_state::{SharedState, SharedStateError, StateArea, StateKey};
use std::sync::Arc;

use cluster_folder::ClusterFolder;

/// Maximum time for a change to be seen. Reached only by a broken cluster.
const PATIENCE: Duration = Duration::from_secs(20);

async fn state(cluster: &ClusterFolder, role: &str) -> NatsState {
    NatsState::new(cluster.connect(role).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_refuses_processes_without_a_key_or_with_a_foreign_one() {
    let cluster = ClusterFolder::start(1);
    let refused = cluster.connect_with_key(None).await.err().unwrap();
    assert!(matches!(refused, ClusterError::Connect { .. }), "{refused}");
    assert!(refused.to_string().contains("--nats-key"), "{refused}");
    let other = ClusterFolder::write(1);
    let key = other.path("keys/admin.nk");
    let refused = cluster.connect_with_key(Some(key)).await.err().unwrap();
    assert!(
        refused.to_string().contains("do not accept the key"),
        "{refused}"
    );
    // A server with a certificate of another authority is not trusted.
    let refused = cluster
        .connect_with_authority("admin", other.path("tls/ca.pem"))
        .await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("certificate"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_keys_are_rotated_without_the_loss_of_its_state() {
    let mut cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    let missing = admin.require_audit_log().await.unwrap_err().to_string();
    assert!(
        missing.contains("MIMIR_AUDIT does not exist") && missing.contains("data folder"),
        "{missing}"
    );
    admin.create_streams(None).await.unwrap();
    let key = StateKey::new(["a"]);
    let before = NatsState::new(admin);
    let stored = before.create(StateArea::Approvals, &key, vec![1], None);
    stored.await.unwrap();
    let old_key = cluster.path("old.nk");
    std::fs::copy(cluster.path("keys/admin.nk"), &old_key).unwrap();

    cluster.rotate_keys(&ClusterFolder::write(1));
    let refused = cluster.connect_with_key(Some(old_key)).await.err().unwrap();
    assert!(
        refused.to_string().contains("do not accept the key"),
        "{refused}"
    );
    let admin = cluster.connect("admin").await.unwrap();
    admin.require_audit_log().await.unwrap();
    admin.require_area(StateArea::Approvals).await.unwrap();
    let after = NatsState::new(admin);
    let found = after.get(StateArea::Approvals, &key).await;
    assert_eq!(found.unwrap().unwrap().value, [1]);
    let front = cluster.connect("front").await.unwrap();
    front.require_area(StateArea::Questions).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_streams_are_created_by_an_administrator_only() {
    let cluster = ClusterFolder::start(1);
    let front = cluster.connect("front").await.unwrap();
    let key = StateKey::new(["a"]);
    let early = NatsState::new(front.clone());
    let early = early.create(StateArea::Sessions, &key, vec![1], None).await;
    let message = early.unwrap_err().to_string();
    assert!(message.contains("mimir cluster setup"), "{message}");
    assert!(!message.contains("cannot be reached"), "{message}");
    let refused = front.create_streams(None).await.unwrap_err().to_string();
    assert!(
        refused.contains("STREAM.CREATE") && refused.contains("keys/admin.nk"),
        "{refused}"
    );
    let admin = cluster.connect("admin").await.unwrap();
    let created = admin.create_streams(None).await.unwrap();
    assert!(
        created
            .iter()
            .all(|stream| !stream.existed && stream.replicas == 1)
    );
    let again = admin.create_streams(None).await.unwrap();
    assert!(again.iter().all(|stream| stream.existed));
    let status = admin.stream_status().await.unwrap();
    assert!(
        status
            .iter()
            .all(|stream| stream.exists && stream.replicas == 1),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_audit_log_is_enlarged_by_an_administrator_for_good() {
    const GIB: u64 = 1 << 30;
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let worker = cluster.connect("worker").await.unwrap();
    assert!(worker.enlarge_audit_log(3 * GIB).await.is_err());
    assert_eq!(admin.enlarge_audit_log(3 * GIB).await.unwrap(), 2 * GIB);
    // Another setup does not make it smaller again.
    admin.create_streams(None).await.unwrap();
    let smaller = admin.enlarge_audit_log(2 * GIB).await.unwrap_err();
    assert!(smaller.to_string().contains("only grow"), "{smaller}");
    let too_large = admin.enlarge_audit_log(100 * GIB).await.unwrap_err();
    assert!(
        too_large.to_string().contains("max_file_store"),
        "{too_large}"
    );
    let status = admin.stream_status().await.unwrap();
    assert!(status.iter().any(|stream| stream.max_bytes == 3 * GIB));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_keys_of_another_role_are_refused_before_a_process_joins() {
    let cluster = ClusterFolder::start(1);
    for (key, role, is_accepted) in [
        ("front", NodeRole::Front, true),
        ("worker", NodeRole::Worker, true),
        ("front", NodeRole::Worker, false),
        ("worker", NodeRole::Front, false),
        ("admin", NodeRole::Front, false),
    ] {
        let connection = cluster.connect(key).await.unwrap();
        let checked = connection.check_role(role).await;
        assert_eq!(checked.is_ok(), is_accepted, "{key} as {role}");
        if let Err(error) = checked {
            assert!(
                error.to_string().contains(&format!("keys/{role}.nk")),
                "{error}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_roles_access_only_their_areas() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    use StateArea::{Control, Deployment, Keys};
    for (role, read_only, hidden) in [
        ("front", &[Control, Deployment][..], &[][..]),
        ("worker", &[Control, Deployment][..], &[Keys][..]),
        ("admin", &[][..], &[Keys][..]),
    ] {
        let state = state(&cluster, role).await;
        let key = StateKey::new([role]);
        for area in StateArea::ALL {
            let is_hidden = hidden.contains(&area);
            let can_write = !is_hidden && !read_only.contains(&area);
            let written = state.create(area, &key, vec![1], None).await;
            let listed = state.list(area, None).await;
            let found = state.get(area, &key).await;
            let watched = state.watch(area).await.map(drop);
            let is_forbidden = |error: Option<&SharedStateError>| match error {
                None => false,
                Some(SharedStateError::Forbidden { area: named, .. }) => *named == area,
                Some(other) => panic!("{role} {area}: {other}"),
            };
            assert_eq!(
                is_forbidden(written.as_ref().err()),
                !can_write,
                "{role} {area}"
            );
            assert_eq!(
                is_forbidden(listed.as_ref().err()),
                is_hidden,
                "{role} {area}"
            );
            assert_eq!(
                is_forbidden(found.as_ref().err()),
                is_hidden,
                "{role} {area}"
            );
            assert_eq!(
                is_forbidden(watched.as_ref().err()),
                is_hidden,
                "{role} {area}"
            );
        }
    }
}

/// The subjects that decide who sends calls, runs them, and answers.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_roles_cannot_take_each_others_part() {
    let cluster = ClusterFolder::start(1);
    cluster
        .connect("admin")
        .await
        .unwrap()
        .create_streams(None)
        .await
        .unwrap();
    for (role, action, subject, is_allowed) in [
        ("front", "publish", "mimir.worker.n.call", true),
        ("worker", "publish", "mimir.worker.n.call", false),
        ("admin", "publish", "mimir.worker.n.call", false),
        ("worker", "subscribe", "mimir.worker.n.call", true),
        ("front", "subscribe", "mimir.worker.n.call", false),
        ("front", "subscribe", "mimir.worker.>", false),
        ("admin", "subscribe", ">", false),
        ("worker", "publish", "mimir.reply.n.1", true),
        ("front", "publish", "mimir.reply.n.1", false),
        ("worker", "subscribe", "mimir.reply.n.1", false),
        ("worker", "publish", "mimir.front.n.message", false),
        ("worker", "subscribe", "mimir.front.n.message", false),
        ("worker", "subscribe", "_INBOX.>", false),
        ("worker", "subscribe", "$KV.MIMIR_KEYS.>", false),
        (
            "front",
            "publish",
            "$JS.API.STREAM.DELETE.MIMIR_AUDIT",
            false,
        ),
        (
            "worker",
            "publish",
            "$JS.API.STREAM.PURGE.MIMIR_AUDIT",
            false,
        ),
        (
            "admin",
            "publish",
            "$JS.API.STREAM.MSG.DELETE.MIMIR_AUDIT",
            false,
        ),
        (
            "front",
            "publish",
            "$JS.API.STREAM.PURGE.MIMIR_AUDIT",
            false,
        ),
        ("front", "publish", "mimir.retention", false),
        ("worker", "publish", "mimir.retention", false),
        ("worker", "publish", "$JS.API.STREAM.CREATE.EVIL", false),
        (
            "worker",
            "publish",
            "$JS.API.CONSUMER.CREATE.KV_MIMIR_KEYS",
            false,
        ),
        (
            "worker",
            "publish",
            "$JS.API.DIRECT.GET.KV_MIMIR_KEYS",
            false,
        ),
    ] {
        let allowed = cluster.try_subject(role, action, subject).await;
        assert_eq!(allowed, is_allowed, "{role} {action} {subject}");
    }
}

/// Objects are named by their content, so that nobody can replace what a node runs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_objects_are_checked_and_cannot_be_replaced() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let store = ComponentStore::new(admin);
    let content: Vec<u8> = (0..1_500_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let digest = store.put(content.clone().into()).await.unwrap();
    assert_eq!(store.put(content.clone().into()).await.unwrap(), digest);
    let worker = cluster.connect("worker").await.unwrap();
    let read = ComponentStore::new(worker);
    assert_eq!(read.get(&digest).await.unwrap(), content);
    assert!(matches!(
        read.get(&"0".repeat(64)).await,
        Err(ObjectError::Missing(_))
    ));
    assert!(matches!(
        read.get("../x").await,
        Err(ObjectError::Missing(_))
    ));
    let empty = store.put(Vec::new().into()).await.unwrap();
    assert_eq!(read.get(&empty).await.unwrap(), Vec::<u8>::new());
    // A worker cannot store objects, so it cannot damage those that others will store.
    let refused = read.put(b"other".to_vec().into()).await.unwrap_err();
    assert!(refused.to_string().contains("may not publish"), "{refused}");
    // Damaged content is refused: the chunk of one object under the name of another.
    let other = b"damaged".to_vec();
    let name = cluster.store_damaged_object(&other).await;
    // The plain client is not told when its messages are stored.
    let stored = async {
        while read.size(&name).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stored).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("component.wasm");
    let damaged = read.get_file(&name, &path).await.unwrap_err();
    assert!(matches!(damaged, ObjectError::Damaged { .. }), "{damaged}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left"
    );
    read.get_file(&digest, &path).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content);
}

fn manifest(files: &[(&str, &[u8])]) -> DeploymentManifest {
    let files = files
        .iter()
        .map(|(path, content)| DeploymentManifest::file(path, content, false));
    DeploymentManifest::new("web", files.collect(), "admin".to_owned(), 1)
}

async fn publish(
    connection: &ClusterConnection,
    files: &[(&str, &[u8])],
    replaced: Option<u64>,
) -> u64 {
    let state = Arc::new(NatsState::new(connection.clone()));
    let deployments = Deployments::new(state, ComponentStore::new(connection.clone()));
    for (_, content) in files {
        deployments.store_file(content.to_vec()).await.unwrap();
    }
    deployments
        .publish(&manifest(files), replaced)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_deployments_reach_all_nodes_and_keep_no_old_files() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let first = publish(
        &admin,
        &[
            ("config.yml", b"a: 1"),
            ("tools/one.sh", b"1"),
            ("tools/two.sh", b"1"),
        ],
        None,
    )
    .await;
    let worker = cluster.connect("worker").await.unwrap();
    let state = Arc::new(NatsState::new(worker.clone()));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".mimir/tools/old")).unwrap();
    std::fs::write(folder.path().join(".mimir/tools/old/x"), "x").unwrap();
    let decisions = Arc::new(|_: &DeploymentManifest| Ok(()));
    let mirror = DeploymentMirror::start(worker, state, "web", folder.path().to_owned(), decisions);
    let mirror = mirror.await.unwrap();
    let read = |path: &str| std::fs::read_to_string(folder.path().join(".mimir").join(path)).ok();
    assert_eq!(read("config.yml").as_deref(), Some("a: 1"));
    assert_eq!(
        read("tools/two.sh").as_deref(),
        Some("1"),
        "two files may have the same content"
    );
    assert_eq!(read("tools/old/x"), None);
    let mut changes = mirror.changes();
    let second = publish(
        &admin,
        &[("config.yml", b"a: 2"), ("tools/two.sh", b"2")],
        Some(first),
    )
    .await;
    let is_second = |change: &MirrorChange| matches!(change, MirrorChange::InForce { revision, .. } if *revision == second);
    tokio::time::timeout(PATIENCE, changes.wait_for(is_second))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read("config.yml").as_deref(), Some("a: 2"));
    assert_eq!(read("tools/one.sh"), None);
    // Of two administrators, one learns of the other.
    let deployments = Deployments::new(
        Arc::new(NatsState::new(admin.clone())),
        ComponentStore::new(admin.clone()),
    );
    let late = deployments
        .publish(&manifest(&[]), Some(first))
        .await
        .unwrap_err();
    assert!(late.to_string().contains("someone else"), "{late}");
    // A worker cannot publish.
    let worker = cluster.connect("worker").await.unwrap();
    let own = Arc::new(NatsState::new(worker));
    let as_worker = Deployments::new(own, ComponentStore::new(admin));
    let refused = as_worker.publish(&manifest(&[]), Some(second)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("may not access") && refused.contains("keys/admin.nk"),
        "{refused}"
    );
    let (_, condition) = tokio::sync::watch::channel(mimir_cluster::NodeCondition::default());
    mirror.report_as(Arc::new(|| "node-1".to_owned()), condition);
    let reported = async {
        loop {
            let found = deployments.in_force().await.unwrap();
            if found
                .iter()
                .any(|(node, report)| node == "node-1" && report.revision == Some(second))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reported).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_nodes_of_one_user_share_the_copy_of_a_deployment() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let files = |number: u8| -> Vec<(String, Vec<u8>)> {
        let files = (0..20).map(|file| (format!("tools/{file}.sh"), vec![number + file; 9]));
        files.collect()
    };
    let publish_files = async |number: u8, replaced| {
        let files = files(number);
        let files = files.iter().map(|(path, content)| (&**path, &**content));
        publish(&admin, &files.collect::<Vec<_>>(), replaced).await
    };
    let mut revision = publish_files(0, None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut mirrors = Vec::new();
    for _ in 0..4 {
        let worker = cluster.connect("worker").await.unwrap();
        let state = Arc::new(NatsState::new(worker.clone()));
        let decisions = Arc::new(|_: &DeploymentManifest| Ok(()));
        let path = folder.path().to_owned();
        let mirror = DeploymentMirror::start(worker, state, "web", path, decisions);
        mirrors.push(mirror.await.unwrap());
    }
    for number in 1..10 {
        revision = publish_files(number, Some(revision)).await;
        for mirror in &mirrors {
            let mut changes = mirror.changes();
            let settled = changes.wait_for(|change| match change {
                MirrorChange::InForce { revision: used, .. } => *used == revision,
                _ => true,
            });
            let settled = tokio::time::timeout(PATIENCE, settled).await.unwrap();
            let settled = settled.unwrap().clone();
            assert!(
                matches!(settled, MirrorChange::InForce { .. }),
                "{settled:?}"
            );
        }
        for (path, content) in files(number) {
            let copy = folder.path().join(".mimir").join(path);
            assert_eq!(std::fs::read(copy).unwrap(), content);
        }
    }
}

/// Returns the number of files of this process that are open at a path.
#[cfg(target_os = "linux")]
fn count_open_files(path: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    open.filter(|file| file == path).count()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_deployment_that_waits_for_the_folder_does_not_replace_a_newer_one() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let first = publish(&admin, &[("config.yml", b"a: 1")], None).await;
    let worker = cluster.connect("worker").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap();
    let lock_path = path.join("deployment.lock");
    let lock = std::fs::File::create(&lock_path).unwrap();
    lock.lock().unwrap();
    let mirror = tokio::spawn({
        let state = Arc::new(NatsState::new(worker.clone()));
        let decisions = Arc::new(|_: &DeploymentManifest| Ok(()));
        DeploymentMirror::start(worker, state, "web", path.clone(), decisions)
    });
    // The first deployment was read.
    let waits = async {
        while count_open_files(&lock_path) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.unwrap();
    let second = publish(&admin, &[("config.yml", b"a: 2")], Some(first)).await;
    drop(lock);
    let mirror = mirror.await.unwrap().unwrap();
    let change = mirror.changes().borrow().clone();
    assert!(
        matches!(change, MirrorChange::InForce { revision, .. } if revision == second),
        "{change:?}"
    );
    let copy = std::fs::read_to_string(path.join(".mimir/config.yml"));
    assert_eq!(copy.unwrap(), "a: 2");
}

/// Every key can have the server's answer to a request stored in a stream: it must neither count nor stay in the way.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cluster_answers_stored_as_a_deployment_are_not_used_and_can_be_replaced() {
    let cluster = ClusterFolder::start(1);
    let admin = cluster.connect("admin").await.unwrap();
    admin.create_streams(None).await.unwrap();
    let first = publish(&admin, &[("config.yml", b"a: 1")], None).await;
    let request = "$JS.API.STREAM.INFO.KV_MIMIR_DEPLOYMENT";
    let reply = "$KV.MIMIR_DEPLOYMENT.deployment.web";
    cluster.direct_answer("worker", request, reply).await;
    let state = Arc::new(NatsState::new(admin.clone()));
    let deployments = Deployments::new(state, ComponentStore::new(admin.clone()));
    let replaced = async {
        loop {
            let entry = deployments.published("web").await.unwrap().unwrap();
            if entry.revision != first {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let entry = tokio::time::timeout(PATIENCE, replaced).await.unwrap();
    assert!(entry.manifest.is_err(), "{entry:?}");
    publish(&admin, &[("config.yml", b"a: 2")], Some(entry.revision)).await;
    let entry = deployments.published("web").await.unwrap().unwrap();
    assert_eq!(entry.manifest.unwrap().files.len(), 1);
}
