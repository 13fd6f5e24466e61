use std::collections::BTreeMap;

use mimir_core::grants::ToolGrant;
use serde_json::json;

use super::*;

fn store(folder: &Path) -> UserApprovalStore {
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(workspace.join(".mimir/state")).unwrap();
    let places = UserDirs {
        config: Some(folder.join("config")),
        ..UserDirs::default()
    };
    UserApprovalStore::new(&places, &WorkspaceFolder::find(Some(&workspace)).unwrap()).unwrap()
}

fn grant(digest: &str) -> Grant {
    let mut tools = BTreeMap::new();
    tools.insert(
        "count".to_owned(),
        ToolGrant {
            declaration: Vec::new(),
            definition: "aa".into(),
            needs: serde_json::from_value(
                json!({"files": [{"path": "docs", "access": "read", "reason": "counts words"}]}),
            )
            .unwrap(),
        },
    );
    Grant {
        digest: digest.into(),
        imports: vec!["wasi:cli/stdout@0.2.6".into()],
        tools,
        withheld: vec![],
        hosts: vec![],
        named: mimir_core::Needs::default(),
        listed: None,
    }
}

#[test]
fn grant_is_written_to_lock_file_and_user_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    assert_eq!(store.read().unwrap(), WorkspaceApprovals::default());
    store.grant(".mimir/tools/count.wasm", grant("00")).unwrap();
    let has_given = || store.has_given_grant(".mimir/tools/count.wasm").unwrap();
    assert!(has_given());
    let lock = store.lock().read().unwrap();
    let kept = &lock.plugins[".mimir/tools/count.wasm"];
    assert_eq!(
        store.read().unwrap().grants[".mimir/tools/count.wasm"],
        kept.id(".mimir/tools/count.wasm")
    );
    let text = std::fs::read_to_string(store.lock().path()).unwrap();
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(
        body,
        "version: 1\nplugins:\n  .mimir/tools/count.wasm:\n    digest: '00'\n    imports:\n    - wasi:cli/stdout@0.2.6\n    tools:\n      count:\n        definition: aa\n        needs:\n          files:\n          - path: docs\n            access: read\n            reason: counts words"
    );
    assert!(store.revoke(".mimir/tools/count.wasm").unwrap());
    assert!(!store.revoke(".mimir/tools/count.wasm").unwrap());
    assert!(store.read().unwrap().grants.is_empty());
    // The lock file of a clone has the grant of another person.
    let insert = |lock: &mut mimir_core::grants::ToolsLock| {
        lock.plugins
            .insert(".mimir/tools/count.wasm".to_owned(), grant("00"))
    };
    store.lock().change(insert).unwrap();
    assert!(!has_given());
}

#[test]
fn grant_replaced_or_revoked_is_removed() {
    const PLACE: &str = ".mimir/tools/count.wasm";
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.grant(PLACE, grant("00")).unwrap();
    store.grant(PLACE, grant("01")).unwrap();
    let approvals = store.read().unwrap();
    assert_eq!(
        approvals.grants.into_values().collect::<Vec<_>>(),
        [grant("01").id(PLACE)]
    );
    let lock = std::fs::read(store.lock().path()).unwrap();
    for broken in [None, Some("<<<<<<< ours\n")] {
        store.grant(PLACE, grant("01")).unwrap();
        match broken {
            None => std::fs::remove_file(store.lock().path()).unwrap(),
            Some(text) => std::fs::write(store.lock().path(), text).unwrap(),
        }
        let revoked = store.revoke(PLACE);
        match broken {
            None => assert!(
                revoked.unwrap(),
                "revoking reports the grant without a lock file"
            ),
            Some(_) => {
                let error = revoked.unwrap_err().to_string();
                assert!(error.contains("resolve the conflicts"), "{error}");
                assert!(error.contains("mimir tools trust NAME"), "{error}");
            }
        }
        assert!(store.read().unwrap().grants.is_empty());
        std::fs::write(store.lock().path(), &lock).unwrap();
    }
}

#[test]
fn grants_in_an_old_format_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.change(|_| ()).unwrap();
    let text = std::fs::read_to_string(store.path()).unwrap();
    let before = text.replace(r#""grants": {}"#, r#""grants": ["00ff"]"#);
    assert_ne!(before, text);
    std::fs::write(store.path(), before).unwrap();
    assert!(store.read().unwrap().grants.is_empty());
}

#[test]
fn grants_written_concurrently_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..10 {
                    let location = format!("{thread}-{n}.wasm");
                    store
                        .grant(&location, grant(&format!("{thread}{n}")))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(store.lock().read().unwrap().plugins.len(), 40);
    assert_eq!(store.read().unwrap().grants.len(), 40);
}

#[test]
fn approval_files_invalid_or_writable_by_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store
        .change(|approvals| approvals.grants.insert("x".into(), "y".into()))
        .unwrap();
    let good = std::fs::read_to_string(store.path()).unwrap();
    for (bad, advice) in [
        ("{", "move it away"),
        ("3", "move it away"),
        (r#"{"leases": [{"id": 1}]}"#, "move it away"),
        (r#"{"version": 2}"#, "newer version of mimir"),
    ] {
        std::fs::write(store.path(), bad).unwrap();
        let error = store.read().unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
    std::fs::write(store.path(), good).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(store.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(
            store
                .read()
                .unwrap_err()
                .to_string()
                .contains("other users can write it")
        );
    }
    #[cfg(unix)]
    {
        std::fs::remove_file(store.lock().path()).ok();
        std::os::unix::fs::symlink("/dev/zero", store.lock().path()).unwrap();
        assert!(
            store
                .lock()
                .read()
                .unwrap_err()
                .to_string()
                .contains("is a link; remove it")
        );
        std::fs::remove_file(store.lock().path()).unwrap();
    }
    for (version, remedy) in [(0, "remove the file"), (2, "update mimir")] {
        std::fs::write(store.lock().path(), format!("version: {version}")).unwrap();
        let error = store.lock().read().unwrap_err().to_string();
        assert!(error.contains(remedy), "{error}");
    }
    for bad in ["version: 2", "plugins: 3", "version: 1\nmore: x", "\0"] {
        std::fs::write(store.lock().path(), bad).unwrap();
        assert!(
            store
                .lock()
                .read()
                .unwrap_err()
                .to_string()
                .contains("so no grants apply"),
            "{bad}"
        );
    }
}

#[test]
fn approval_expiry_is_capped_by_current_settings() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let given = Timestamp::from_second(1_700_000_000).unwrap();
    let hours = |count| given + SignedDuration::from_hours(count);
    let lease = |id: &str, end: Option<Timestamp>| StoredApproval {
        id: serde_json::from_value(json!(id)).unwrap(),
        expires_at: end,
        ..sample(given)
    };
    for (id, end) in [
        ("a", Some(hours(90 * 24))),
        ("b", Some(hours(2))),
        ("c", None),
    ] {
        store.store(lease(id, end)).unwrap();
    }
    let ends = |store: &UserApprovalStore| -> Vec<_> {
        let leases = store.approvals().unwrap();
        leases.into_iter().map(|lease| lease.expires_at).collect()
    };
    assert_eq!(ends(&store), [Some(hours(90 * 24)), Some(hours(2)), None]);
    let day = store.with_max_age(SignedDuration::from_hours(24));
    assert_eq!(
        ends(&day),
        [Some(hours(24)), Some(hours(2)), Some(hours(24))]
    );
}

#[test]
fn session_approvals_are_listed_while_the_process_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let lease = sample(Timestamp::UNIX_EPOCH);
    for session in ["one", "two", "two"] {
        store.list_for_session(session, &lease).unwrap();
    }
    assert_eq!(
        store.listed_in_session("one").unwrap(),
        std::slice::from_ref(&lease.id)
    );
    assert_eq!(store.listed_in_session("two").unwrap().len(), 1);
    assert_eq!(store.listed_in_session("three").unwrap(), []);
    let text = std::fs::read_to_string(store.path()).unwrap();
    assert!(
        !text.contains("\"one\""),
        "the session id was stored in plain text"
    );
    // Entries of a crashed process: no process has the highest possible id.
    let other =
        |approvals: &mut WorkspaceApprovals| approvals.sessions[0].process = i32::MAX as u32;
    store.change(other).unwrap();
    assert_eq!(store.listed_in_session("one").unwrap(), []);
    store.end_session("two");
    assert_eq!(store.read().unwrap().sessions, []);
    assert!(
        store.approvals().unwrap().is_empty(),
        "a session approval was stored permanently"
    );
}

/// Creates an approval of one call of a tool.
fn sample(given: Timestamp) -> StoredApproval {
    serde_json::from_value(json!({
        "id": "x", "tool": "count", "digest": "00", "pattern": {"fixed": {}, "open": []},
        "reasons": [], "addedBy": "user", "addedAt": given,
    }))
    .unwrap()
}
