//! Start and end of servers, and their configuration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_core::config::SandboxMode;
use serde_json::json;

use super::{Behind, Does, Script, Shelf, said, text};

#[tokio::test]
async fn server_does_not_start_for_a_listing_with_cached_tools() {
    let script = Script::new(Does::Answers(text("hello")));
    let shelf: Arc<Shelf> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    let first = Behind::on(Arc::clone(&shelf), servers.clone(), &[("s", &script)]);
    assert_eq!(first.servers.known().unseen, 1);
    assert_eq!(
        script.started.load(Ordering::SeqCst),
        0,
        "listing does not start it"
    );
    assert_eq!(first.servers.load().await.tools.len(), 1);
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    // Another process uses the cached description.
    let second = Behind::on(Arc::clone(&shelf), servers, &[("s", &script)]);
    let found = second.servers.known();
    assert_eq!((found.tools.len(), found.unseen), (1, 0));
    let second = second.open().await;
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    assert_eq!(said(&second.call("mcp_s_go", json!({})).await), "hello");
    assert_eq!(script.started.load(Ordering::SeqCst), 2);
    // A server with other settings has no cached description.
    let other = json!({"s": {"command": "s", "args": ["--other"]}});
    let third = Behind::on(shelf, other, &[("s", &script)]);
    assert_eq!(third.servers.known().unseen, 1);
}

#[tokio::test]
async fn server_failure_is_not_retried_by_listings() {
    let script = Script::new(Does::Answers(text("hello")));
    script.stillborn.store(true, Ordering::SeqCst);
    let shelf: Arc<Shelf> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    for _ in 0..3 {
        // Each time like another process.
        let behind = Behind::on(Arc::clone(&shelf), servers.clone(), &[("s", &script)]);
        let found = behind.servers.load().await;
        assert!(found.quarantined[0].reason.contains("mimir mcp test s"));
    }
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    script.stillborn.store(false, Ordering::SeqCst);
    let behind = Behind::on(shelf, servers, &[("s", &script)]);
    assert!(behind.servers.test("s").await.unwrap().is_ok());
    assert_eq!(behind.servers.load().await.tools.len(), 1);
}

#[tokio::test]
async fn server_stops_when_idle_and_restarts() {
    let script = Script::new(Does::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "idleMs": 100}});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "hello");
    for _ in 0..200 {
        if script.ended.load(Ordering::SeqCst) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!behind.servers.runs("s").await);
    assert_eq!(
        script.killed.load(Ordering::SeqCst),
        0,
        "it ended on its own"
    );
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "hello");
}

#[tokio::test]
async fn server_does_not_stop_during_a_call() {
    let script = Script::new(Does::Late(Duration::from_millis(600)));
    let servers = json!({"s": {"command": "s", "idleMs": 50}});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "late");
}

#[tokio::test]
async fn server_launch_follows_the_settings() {
    let script = Script::new(Does::Answers(text("hello")));
    let servers = json!({"s": {
        "command": "s", "args": ["-a", "b"], "cwd": "sub", "env": {"PLAIN": "x", "TOKEN": "a${KEY}b"},
        "sandbox": "none", "workspaceCode": true, "networkAccess": true, "bindMounts": ["/data"], "prefix": "mine_",
    }});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)]);
    let found = behind.servers.load().await;
    assert_eq!(found.tools[0].name().as_str(), "mine_go");
    let launch = script.launch.lock().clone().unwrap();
    assert_eq!(launch.args, ["s", "-a", "b"]);
    assert_eq!(launch.directory.as_deref(), Some("sub"));
    let token = ("TOKEN".to_owned(), "as3cr3t-value-of-the-keyb".to_owned());
    assert!(launch.environment.contains(&token), "{launch:?}");
    assert!(launch.secrets && launch.workspace_code, "{launch:?}");
    assert_eq!(launch.sandbox.mode, Some(SandboxMode::None));
    assert_eq!(launch.sandbox.network_access, Some(true));
    assert_eq!(launch.sandbox.bind_mounts[0].at, "/data");
    // The identity for a grant has the name of the variable, and not its value.
    let identity = found.tools[0].origin.imports.join("\n");
    assert!(
        identity.contains("TOKEN") && !identity.contains("s3cr3t"),
        "{identity}"
    );
}

#[tokio::test]
async fn server_with_a_missing_secret_fails_with_a_hint() {
    let script = Script::new(Does::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "env": {"TOKEN": "${OTHER}"}}});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)]);
    let error = behind.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(
        error.remedies[0].contains("mimir secrets set OTHER"),
        "{error:?}"
    );
    assert_eq!(script.started.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_protocol_setting_is_enforced() {
    let settings = |protocol: &str| json!({"s": {"command": "s", "protocol": protocol}});
    for (modern, right, wrong, other) in [
        (false, "2025-11-25", "2026-07-28", "initialize"),
        (true, "2026-07-28", "2025-11-25", "server/discover"),
    ] {
        let mut script = Script::new(Does::Answers(text("hello")));
        script.modern = modern;
        script.legacy = !modern;
        let behind = Behind::on(Arc::default(), settings(right), &[("s", &script)]);
        assert_eq!(behind.servers.load().await.tools.len(), 1, "{right}");
        let begun = if modern {
            "initialize"
        } else {
            "server/discover"
        };
        assert!(script.heard(begun).is_empty(), "{right}: it is not tried");
        let before = script.heard(other).len();
        let behind = Behind::on(Arc::default(), settings(wrong), &[("s", &script)]);
        let error = behind.servers.test("s").await.unwrap().unwrap_err();
        assert_eq!(
            script.heard(other).len(),
            before,
            "{wrong}: no other is tried"
        );
        let way_out = error.remedies.join(" ");
        assert!(way_out.contains("mcp.servers.s.protocol"), "{error:?}");
    }
    // Without the setting both are tried.
    let mut script = Script::new(Does::Answers(text("hello")));
    script.modern = true;
    assert_eq!(Behind::one(&script).servers.load().await.tools.len(), 1);
    assert_eq!(script.heard("initialize").len(), 1);
}

#[tokio::test]
async fn server_disabled_has_no_tools() {
    let script = Script::new(Does::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "enabled": false}});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)]);
    assert!(behind.servers.is_empty() && behind.servers.load().await.tools.is_empty());
}

#[tokio::test]
async fn server_empty_prefix_keeps_tool_names() {
    let script = Script::new(Does::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "prefix": ""}});
    let behind = Behind::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(said(&behind.call("go", json!({})).await), "hello");
}
