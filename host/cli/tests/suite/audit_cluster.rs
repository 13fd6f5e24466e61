//! `mimir audit` with the log of a cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use mimir_cluster::{ClusterConnection, ClusterNode, ConnectionOptions, NodeDescription, NodeRole};
use mimir_core::audit::{AuditEvent, AuditSink as _, EventKind};
use mimir_core::config::AuditSettings;
use mimir_kit::NatsServer;
use serde_json::Value;

use crate::kit::{mimir, run};

/// Records calls of two processes, of which one has left.
async fn record_calls(url: &str) -> ClusterNode {
    let mut last = None;
    for name in ["first", "second"] {
        let options = ConnectionOptions {
            servers: url.to_owned(),
            ..ConnectionOptions::default()
        };
        let connection = ClusterConnection::connect(options).await.unwrap();
        let description = NodeDescription {
            role: NodeRole::Front,
            host: name.to_owned(),
            workspace: None,
            labels: BTreeMap::new(),
            capacity: 0,
            tools: None,
        };
        let node = ClusterNode::start(connection, description).await.unwrap();
        let sink = node.audit_sink(AuditSettings::default());
        for number in 0..3 {
            let event = AuditEvent {
                id: format!("{name}-{number}"),
                tool: format!("{name}_tool"),
                ..AuditEvent::new(EventKind::Call, SystemTime::now())
            };
            sink.announce(&event).await.unwrap();
            sink.record_with_others(&event).await.unwrap();
        }
        if let Some(left) = last.replace(node) {
            left.shut_down().await;
        }
    }
    last.unwrap()
}

fn audit(home: &Path, url: &str, arguments: &[&str]) -> (i32, String, String) {
    let fixed = ["audit", arguments[0], "--cluster", "--nats", url];
    run(home, &[&fixed, &arguments[1..]].concat())
}

#[test]
#[ignore = "needs nats-server"]
fn audit_log_of_a_cluster_is_verified_shown_and_exported() {
    let server = NatsServer::start();
    let url = server.url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(record_calls(&url));
    let home = tempfile::tempdir().unwrap();
    let home = home.path();

    let (code, out, error) = audit(home, &url, &["verify"]);
    assert_eq!(code, 0, "{out}{error}");
    assert!(
        out.contains("the log is intact: 15 lines of 2 writers"),
        "{out}"
    );
    assert!(
        out.contains("6 calls announced, 0 running; 1 of 2 writers closed"),
        "{out}"
    );
    let (code, out, _) = audit(home, &url, &["verify", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"]), (0, &true.into()));
    let head = report["head"]["hash"].as_str().unwrap();
    let (code, out, _) = audit(home, &url, &["verify", "--head", &head[..20]]);
    assert!(
        code == 0 && out.contains("the noted hash is the state after message"),
        "{out}"
    );
    let (code, out, _) = audit(home, &url, &["verify", "--head", &"0".repeat(64)]);
    assert!(code == 1 && out.contains("not-noted"), "{out}");

    let (code, out, _) = audit(home, &url, &["tail", "-n", "2"]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out}");
    let (code, out, _) = audit(home, &url, &["show", "--tool", "first_tool", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, shown["events"].as_array().map(Vec::len)),
        (0, Some(6))
    );
    let (_, out, _) = audit(home, &url, &["show", "--event", "announced"]);
    assert_eq!(out.lines().count(), 6, "{out}");

    let folder = home.join("export");
    let out_option = folder.to_str().unwrap();
    let (code, out, error) = audit(home, &url, &["export", "--out", out_option]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("15 new lines into 2 files"), "{out}");
    let (_, out, _) = audit(home, &url, &["export", "--out", out_option]);
    assert!(out.contains("0 new lines"), "{out}");
    let entries = fs::read_dir(&folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    let mut arguments = vec!["audit", "verify"];
    arguments.extend(files.iter().map(String::as_str));
    let (code, out, error) = run(home, &arguments);
    assert_eq!(code, 0, "{out}{error}");
    assert_eq!(out.matches("the log is intact").count(), 2, "{out}");
    let text = fs::read_to_string(&files[0]).unwrap();
    fs::write(&files[0], text.replacen("\"ok\":true", "\"ok\":null", 1)).unwrap();
    let (code, out, _) = run(home, &arguments);
    assert!(code == 1 && out.contains("changed"), "{out}");
    let (code, _, error) = run(home, &["audit", "verify", "missing.jsonl"]);
    assert!(code != 0 && error.contains("missing.jsonl"), "{error}");
    // Nothing is removed that is newer, or whose files were changed.
    let remove = |folder: &str, time: &str| {
        audit(
            home,
            &url,
            &["export", "--out", folder, "--remove-before", time],
        )
    };
    let (code, out, error) = remove(out_option, "1h");
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("no older messages"), "{out}");
    let fresh = home.join("fresh");
    let fresh = fresh.to_str().unwrap();
    let (code, out, error) = remove(fresh, "2999-01-01");
    assert_eq!(code, 0, "{error}");
    assert!(
        out.contains("15 new lines") && out.contains("Removed "),
        "{out}"
    );
    let (code, out, _) = audit(home, &url, &["verify", "--head", &head[..20]]);
    assert!(
        code == 0 && out.contains("were exported and removed"),
        "{out}"
    );
    let (_, out, _) = audit(home, &url, &["show", "--event", "pruned"]);
    assert!(out.contains("mimir.retention"), "{out}");
    let (code, _, error) = remove(fresh, "tomorrow");
    assert!(code == 2 && error.contains("2026-01-31"), "{error}");
    runtime.block_on(node.shut_down());
}

#[test]
fn audit_of_a_cluster_needs_its_servers() {
    let home = tempfile::tempdir().unwrap();
    let (code, _, error) = run(home.path(), &["audit", "verify", "--cluster"]);
    assert!(code == 2 && error.contains("--nats"), "{error}");
    let unreachable = ["--nats", "nats://127.0.0.1:1"];
    let arguments = [&["audit", "tail", "--cluster"], &unreachable[..]].concat();
    let (code, _, error) = run(home.path(), &arguments);
    assert!(code != 0 && error.contains("127.0.0.1:1"), "{error}");
    let arguments = [
        &["audit", "verify", "a.jsonl", "--cluster"],
        &unreachable[..],
    ]
    .concat();
    assert_eq!(run(home.path(), &arguments).0, 2);
}

#[test]
#[ignore = "needs nats-server"]
fn audit_log_and_approvals_of_a_cluster_without_streams_are_an_error() {
    let server = NatsServer::start();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (url, out_option) = (server.url(), home.join("export").display().to_string());
    for arguments in [
        &["audit", "verify", "--cluster"][..],
        &["audit", "show", "--cluster"],
        &["audit", "tail", "--cluster"],
        &["audit", "export", "--cluster", "--out", &out_option],
        &["approvals", "list", "--workspace-name", "main"],
        &["approvals", "pending"],
    ] {
        let named = [arguments, &["--nats", &url]].concat();
        let (code, out, error) = run(home, &named);
        assert_ne!(code, 0, "{arguments:?}: {out}");
        for part in ["UNAVAILABLE", "does not exist", "`mimir cluster setup`"] {
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }

    // Without --cluster, the log of the workspace is read.
    for command in ["show", "tail", "verify"] {
        let mut local = mimir(home, &["audit", command]);
        local.env("MIMIR_NATS", server.url());
        let output = local.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && error.contains("--cluster shows that of the cluster"),
            "{command}: {error}"
        );
    }
}
