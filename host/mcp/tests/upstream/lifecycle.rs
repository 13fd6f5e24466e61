//! Start and end of servers, and their configuration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_core::config::SandboxMode;
use serde_json::json;

use super::{CallReaction, MemoryDescriptions, Script, Upstream, outcome_text, text};

#[tokio::test]
async fn server_does_not_start_for_a_listing_with_cached_tools() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let descriptions: Arc<MemoryDescriptions> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    let first = Upstream::on(
        Arc::clone(&descriptions),
        servers.clone(),
        &[("s", &script)],
    );
    assert_eq!(first.servers.known().unseen, 1);
    assert_eq!(
        script.started.load(Ordering::SeqCst),
        0,
        "listing does not start it"
    );
    assert_eq!(first.servers.load().await.tools.len(), 1);
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    // Another process uses the cached description.
    let second = Upstream::on(Arc::clone(&descriptions), servers, &[("s", &script)]);
    let found = second.servers.known();
    assert_eq!((found.tools.len(), found.unseen), (1, 0));
    let second = second.open().await;
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    assert_eq!(
        outcome_text(&second.call("mcp_s_go", json!({})).await),
        "hello"
    );
    assert_eq!(script.started.load(Ordering::SeqCst), 2);
    // A server with other settings has no cached description.
    let other = json!({"s": {"command": "s", "args": ["--other"]}});
    let third = Upstream::on(descriptions, other, &[("s", &script)]);
    assert_eq!(third.servers.known().unseen, 1);
}

#[tokio::test]
async fn server_failure_is_not_retried_by_listings() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    script.exits_at_start.store(true, Ordering::SeqCst);
    let descriptions: Arc<MemoryDescriptions> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    for _ in 0..3 {
        // Each iteration acts as another process.
        let upstream = Upstream::on(
            Arc::clone(&descriptions),
            servers.clone(),
            &[("s", &script)],
        );
        let found = upstream.servers.load().await;
        assert!(found.quarantined[0].reason.contains("mimir mcp test s"));
    }
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    script.exits_at_start.store(false, Ordering::SeqCst);
    let upstream = Upstream::on(descriptions, servers, &[("s", &script)]);
    assert!(upstream.servers.test("s").await.unwrap().is_ok());
    assert_eq!(upstream.servers.load().await.tools.len(), 1);
}

#[tokio::test]
async fn server_stops_when_idle_and_restarts() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "idleMs": 100}});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "hello"
    );
    for _ in 0..1500 {
        if script.ended.load(Ordering::SeqCst) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!upstream.servers.runs("s").await);
    assert_eq!(
        script.killed.load(Ordering::SeqCst),
        0,
        "the idle server was killed instead of exiting on its own"
    );
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "hello"
    );
}

#[tokio::test]
async fn server_does_not_stop_during_a_call() {
    let script = Script::new(CallReaction::Late(Duration::from_millis(600)));
    let servers = json!({"s": {"command": "s", "idleMs": 50}});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "late"
    );
}

#[tokio::test]
async fn server_launch_follows_the_settings() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({"s": {
        "command": "s", "args": ["-a", "b"], "cwd": "sub", "env": {"PLAIN": "x", "TOKEN": "a${KEY}b"},
        "sandbox": "none", "workspaceCode": true, "networkAccess": true, "bindMounts": ["/data"], "prefix": "mine_",
    }});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)]);
    let found = upstream.servers.load().await;
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
    let script = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "env": {"TOKEN": "${OTHER}"}}});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)]);
    let error = upstream.servers.test("s").await.unwrap().unwrap_err();
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
        let mut script = Script::new(CallReaction::Answers(text("hello")));
        script.modern = modern;
        script.legacy = !modern;
        let upstream = Upstream::on(Arc::default(), settings(right), &[("s", &script)]);
        assert_eq!(upstream.servers.load().await.tools.len(), 1, "{right}");
        let begun = if modern {
            "initialize"
        } else {
            "server/discover"
        };
        assert!(
            script.received(begun).is_empty(),
            "{right}: it is not tried"
        );
        let before = script.received(other).len();
        let upstream = Upstream::on(Arc::default(), settings(wrong), &[("s", &script)]);
        let error = upstream.servers.test("s").await.unwrap().unwrap_err();
        assert_eq!(
            script.received(other).len(),
            before,
            "{wrong}: no other is tried"
        );
        let way_out = error.remedies.join(" ");
        assert!(way_out.contains("mcp.servers.s.protocol"), "{error:?}");
    }
    // Without the setting, both generations are tried.
    let mut script = Script::new(CallReaction::Answers(text("hello")));
    script.modern = true;
    assert_eq!(Upstream::one(&script).servers.load().await.tools.len(), 1);
    assert_eq!(script.received("initialize").len(), 1);
}

#[tokio::test]
async fn server_disabled_has_no_tools() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "enabled": false}});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)]);
    assert!(upstream.servers.is_empty() && upstream.servers.load().await.tools.is_empty());
}

#[tokio::test]
async fn server_empty_prefix_keeps_tool_names() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({"s": {"command": "s", "prefix": ""}});
    let upstream = Upstream::on(Arc::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(outcome_text(&upstream.call("go", json!({})).await), "hello");
}
