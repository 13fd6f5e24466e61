use serde_json::json;

use super::*;
use crate::shared_state::FileSharedState;

fn approval(id: &str, added_at: Timestamp) -> StoredApproval {
    serde_json::from_value(json!({
        "id": id, "tool": "exec", "digest": "00", "pattern": {"fixed": {}}, "reasons": [],
        "addedBy": "user", "addedAt": added_at
    }))
    .unwrap()
}

fn grant() -> Grant {
    serde_json::from_value(json!({"digest": "00", "imports": [], "tools": {}})).unwrap()
}

struct Replicas {
    folder: tempfile::TempDir,
    one: SharedApprovalStore,
    other: SharedApprovalStore,
}

impl Replicas {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            one: store(folder.path(), "shop").await,
            other: store(folder.path(), "shop").await,
            folder,
        }
    }

    fn access(&self) -> SharedApprovals {
        SharedApprovals::new(Arc::new(FileSharedState::new(self.folder.path())), "shop")
    }
}

async fn store(folder: &std::path::Path, workspace: &str) -> SharedApprovalStore {
    let state = Arc::new(FileSharedState::new(folder));
    let store = SharedApprovalStore::start(state, workspace, "ada").await;
    store.unwrap()
}

/// Waits until the store has as many approvals.
async fn wait_for_approvals(store: &SharedApprovalStore, count: usize) {
    let mut changes = store.changes();
    while store.approvals().unwrap().len() != count {
        changes.changed().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_counts_in_all_processes_until_it_is_revoked() {
    let replicas = Replicas::start().await;
    let now = Timestamp::now();
    let first = approval("aa", now);
    replicas.one.store(first.clone()).unwrap();
    assert_eq!(
        replicas.one.approvals().unwrap(),
        std::slice::from_ref(&first)
    );
    wait_for_approvals(&replicas.other, 1).await;
    let elsewhere = store(replicas.folder.path(), "other").await;
    assert_eq!(elsewhere.approvals().unwrap(), [], "another workspace");
    replicas.other.store(first.clone()).unwrap();
    let access = replicas.access();
    assert_eq!(access.revoke(&first.id).await.unwrap(), 1);
    assert_eq!(access.revoke(&first.id).await.unwrap(), 0);
    wait_for_approvals(&replicas.one, 0).await;
    wait_for_approvals(&replicas.other, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_expires_after_the_maximum_age() {
    let replicas = Replicas::start().await;
    let added = Timestamp::now();
    replicas.one.store(approval("aa", added)).unwrap();
    assert_eq!(replicas.one.approvals().unwrap()[0].expires_at, None);
    let hour = SignedDuration::from_hours(1);
    replicas.one.set_max_age(hour);
    let expires = replicas.one.approvals().unwrap()[0].expires_at;
    assert_eq!(expires, Some(added + hour));
    let listed = replicas.access().approvals(hour).await.unwrap();
    assert_eq!(listed[0].expires_at, Some(added + hour));
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_use_is_recorded_and_does_not_restore_a_revoked_one() {
    let replicas = Replicas::start().await;
    let now = Timestamp::now();
    let one = approval("aa", now);
    replicas.one.store(one.clone()).unwrap();
    replicas.one.record_use(&one.id, now);
    let mut changes = replicas.one.changes();
    while replicas.one.approvals().unwrap()[0].last_used != Some(now) {
        changes.changed().await.unwrap();
    }
    replicas.access().revoke(&one.id).await.unwrap();
    wait_for_approvals(&replicas.other, 0).await;
    replicas.other.record_use(&one.id, now);
    let hour = SignedDuration::from_hours(1);
    assert_eq!(replicas.access().approvals(hour).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_of_a_session_is_listed_until_it_ends_or_is_revoked() {
    let replicas = Replicas::start().await;
    let (one, two) = (
        approval("aa", Timestamp::now()),
        approval("bb", Timestamp::now()),
    );
    for approval in [&one, &two] {
        replicas
            .one
            .list_for_session("secret id", approval)
            .unwrap();
    }
    replicas.one.list_for_session("other", &one).unwrap();
    let listed = || replicas.one.listed_in_session("secret id").unwrap();
    assert_eq!(listed(), [one.id.clone(), two.id.clone()]);
    let access = replicas.access();
    let all = access.session_approvals().await.unwrap();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|listed| !listed.session.contains("secret")));
    assert_eq!(access.revoke(&one.id).await.unwrap(), 2);
    let mut changes = replicas.one.changes();
    while listed().len() > 1 {
        changes.changed().await.unwrap();
    }
    replicas.one.end_session("secret id");
    assert_eq!(listed(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_and_revocation_count_in_all_processes() {
    let replicas = Replicas::start().await;
    let mut changes = replicas.other.changes();
    let shared = |grant: Option<Grant>| SharedGrant {
        location: ".mimir/tools/a.wasm".to_owned(),
        grant,
        by: "ada".to_owned(),
        at: Timestamp::now(),
    };
    let location = shared(None).location;
    let applied = |mut lock: ToolsLock, mut given: BTreeMap<String, String>| {
        replicas.other.apply_grants(&mut lock, &mut given);
        let grant = lock.plugins.get(&location);
        grant.is_some_and(|grant| given.get(&location) == Some(&grant.id(&location)))
    };
    let none = || (ToolsLock::default(), BTreeMap::new());
    let own = || {
        let (mut lock, mut given) = none();
        given.insert(location.clone(), grant().id(&location));
        lock.plugins.insert(location.clone(), grant());
        (lock, given)
    };
    let before = replicas.other.grant_revisions();
    let (lock, given) = own();
    assert!(applied(lock, given), "the grants of the machine count");
    let access = replicas.access();
    access.set_grant(&shared(Some(grant()))).await.unwrap();
    changes.changed().await.unwrap();
    let (lock, given) = none();
    assert!(applied(lock, given));
    assert_ne!(replicas.other.grant_revisions(), before);
    access.set_grant(&shared(None)).await.unwrap();
    changes.changed().await.unwrap();
    let (lock, given) = own();
    assert!(!applied(lock, given), "revoked everywhere");
    assert_eq!(access.grants().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_that_cannot_be_read_revokes_all() {
    let replicas = Replicas::start().await;
    let mut changes = replicas.other.changes();
    let state = FileSharedState::new(replicas.folder.path());
    let key = WorkspaceKeys("shop".to_owned()).grant("a");
    let written = write_value(&state, &key, b"{}".to_vec(), None).await;
    written.unwrap();
    changes.changed().await.unwrap();
    let mut given = BTreeMap::from([("b".to_owned(), "id".to_owned())]);
    replicas
        .other
        .apply_grants(&mut ToolsLock::default(), &mut given);
    assert!(given.is_empty());
}
