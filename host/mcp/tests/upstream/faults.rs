//! Misbehaving servers, which must not affect other servers or mimir.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_mcp::client::{RunRequests, ServerState};
use serde_json::json;

use super::{CallReaction, Recorder, Script, Upstream, outcome_text, text, tool};

#[tokio::test]
async fn server_timeout_cancels_the_call() {
    let script = Script::new(CallReaction::Nothing);
    let servers = json!({"s": {"command": "s", "timeoutMs": 100}});
    let upstream = Upstream::on(Default::default(), servers, &[("s", &script)])
        .open()
        .await;
    let begun = Instant::now();
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::Timeout,
        "{}",
        outcome_text(&outcome)
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
    let cancelled = script.wait_for_received("notifications/cancelled", 1).await;
    assert_eq!(cancelled.len(), 1);
}

#[tokio::test]
async fn server_gets_the_cancellation_of_a_dropped_call() {
    let script = Script::new(CallReaction::Nothing);
    let upstream = Upstream::one(&script).open().await;
    let call = upstream.call("mcp_s_go", json!({}));
    tokio::select! {
        _ = call => panic!("the call has ended"),
        _ = script.wait_for_received("tools/call", 1) => {}
    }
    let cancelled = script.wait_for_received("notifications/cancelled", 1).await;
    assert_eq!(cancelled.len(), 1);
    let received = script.received("tools/call");
    assert_eq!(cancelled[0]["params"]["requestId"], received[0]["id"]);
}

#[tokio::test]
async fn server_late_and_double_answers_are_dropped() {
    let script = Script::new(CallReaction::Late(Duration::from_millis(300)));
    let servers = json!({"s": {"command": "s", "timeoutMs": 100}});
    let upstream = Upstream::on(Default::default(), servers, &[("s", &script)])
        .open()
        .await;
    let late = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(late.result().unwrap_err().code, ToolErrorCode::Timeout);
    // The late answer arrives, and the connection continues.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let again = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(again.result().unwrap_err().code, ToolErrorCode::Timeout);
    assert_eq!(script.started.load(std::sync::atomic::Ordering::SeqCst), 1);

    let upstream = Upstream::one(&Script::new(CallReaction::Twice))
        .open()
        .await;
    for _ in 0..3 {
        assert_eq!(
            outcome_text(&upstream.call("mcp_s_go", json!({})).await),
            "first"
        );
    }
}

#[tokio::test]
async fn server_notification_flood_is_dropped() {
    let script = Script::new(CallReaction::Floods(50_000));
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(outcome_text(&outcome), "after the flood");
}

#[tokio::test]
async fn server_request_flood_stops_only_that_server() {
    for method in ["ping", "roots/list", "nobody/knows"] {
        let script = Script::new(CallReaction::Demands(method));
        let upstream = Upstream::one(&script).open().await;
        let begun = std::time::Instant::now();
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(
            error.code,
            ToolErrorCode::LimitExceeded,
            "{method}: {error}"
        );
        assert!(
            error.message.contains("too many requests"),
            "{method}: {error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(30), "{method}");
    }
}

#[tokio::test]
async fn server_restarts_after_a_crash() {
    let script = Script::new(CallReaction::Crashes);
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError, "{error}");
    assert!(error.message.contains("exited"), "{error}");
    // The server ended right after its start, so the backoff applies.
    let at_once = upstream.call("mcp_s_go", json!({})).await;
    let error = at_once.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.message.contains("not be restarted"), "{error}");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(script.started.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn server_start_failure_is_explained_and_isolated() {
    let dead = Script::new(CallReaction::Answers(text("never")));
    dead.exits_at_start
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let slow = Script {
        slow_start: Duration::from_secs(60),
        ..Script::new(CallReaction::Answers(text("never")))
    };
    let good = Script::new(CallReaction::Answers(text("hello")));
    let servers = json!({
        "dead": {"command": "dead"},
        "slow": {"command": "slow", "startTimeoutMs": 200},
        "good": {"command": "good"},
    });
    let scripts = [("dead", &dead), ("slow", &slow), ("good", &good)];
    let upstream = Upstream::on(Default::default(), servers, &scripts);
    let found = upstream.servers.load().await;
    let left_out: Vec<_> = found.quarantined.iter().collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out[0].reason.contains("left-pad"), "{left_out:?}");
    assert!(!left_out[0].reason.contains('\u{1b}'), "{left_out:?}");
    assert_eq!(left_out[1].code, ToolErrorCode::Timeout, "{left_out:?}");
    assert_eq!(found.tools.len(), 1);
    let upstream = upstream.open().await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_good_go", json!({})).await),
        "hello"
    );
}

#[tokio::test]
async fn server_that_hangs_on_shutdown_is_killed() {
    let script = Script {
        stubborn: true,
        ..Script::new(CallReaction::Answers(text("hello")))
    };
    let servers = json!({"s": {"command": "s", "idleMs": 50}});
    let upstream = Upstream::on(Default::default(), servers, &[("s", &script)])
        .open()
        .await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "hello"
    );
    for _ in 0..300 {
        if script.killed.load(std::sync::atomic::Ordering::SeqCst) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server was not killed");
}

#[tokio::test]
async fn server_results_are_cut_or_rejected_by_size() {
    let upstream = Upstream::one(&Script::new(CallReaction::Huge(100 << 20)))
        .open()
        .await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    let upstream = Upstream::one(&Script::new(CallReaction::Huge(2 << 20)))
        .open()
        .await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert!(outcome.result().is_ok() && outcome.truncated());
    assert!(outcome_text(&outcome).len() < 110_000);
}

#[tokio::test]
async fn server_invalid_lines_are_ignored() {
    let upstream = Upstream::one(&Script::new(CallReaction::Prints))
        .open()
        .await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "said"
    );
}

#[tokio::test]
async fn server_error_messages_are_sanitized() {
    let upstream = Upstream::one(&Script::new(CallReaction::Fails(
        json!({"code": -32602, "message": "no \u{1b}[8mway"}),
    )))
    .open()
    .await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError);
    assert!(error.message.contains("way (-32602)"), "{error}");
    assert!(!error.message.contains('\u{1b}'), "{error}");
}

#[tokio::test]
async fn server_broken_tools_are_left_out_alone() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let mut bad = tool("bad");
    bad["inputSchema"] = json!({"type": "nonsense"});
    let mut list = tool("list");
    list["inputSchema"] = json!([1]);
    let mut out = tool("out");
    out["outputSchema"] = json!({"type": "object", "properties": 5});
    *script.tools.lock() = vec![
        tool("go"),
        tool("go"),
        tool("re-read"),
        tool("re_read"),
        bad,
        list,
        out,
        json!({"description": "no name"}),
        json!(5),
    ];
    let upstream = Upstream::one(&script);
    let found = upstream.servers.load().await;
    let names: Vec<_> = found
        .tools
        .iter()
        .map(|tool| tool.name().to_string())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"mcp_s_go".to_owned()) && names.contains(&"mcp_s_re_read".to_owned()));
    let reasons: Vec<_> = found
        .quarantined
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert_eq!(reasons.len(), 6, "{reasons:#?}");
    let upstream = upstream.open().await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "hello"
    );
}

#[tokio::test]
async fn server_results_must_match_the_output_schema() {
    let script = Script::new(CallReaction::Answers(json!({
        "content": [], "structuredContent": {"sum": "three"},
    })));
    script.tools.lock()[0]["outputSchema"] =
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}});
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError);
    assert!(error.message.contains("/sum"), "{error}");
}

#[tokio::test]
async fn server_output_has_secrets_masked() {
    const VALUE: &str = "s3cr3t-value-of-the-key";
    let script = Script::new(CallReaction::Answers(text("hello")));
    script
        .exits_at_start
        .store(true, std::sync::atomic::Ordering::SeqCst);
    *script.exit_stderr.lock() = format!("bad token {VALUE}\n");
    let descriptions = std::sync::Arc::<super::MemoryDescriptions>::default();
    let servers = json!({"s": {"command": "s"}});
    let upstream = Upstream::on(descriptions.clone(), servers.clone(), &[("s", &script)]);
    let found = upstream.servers.load().await;
    let reason = &found.quarantined[0].reason;
    assert!(
        reason.contains("bad token [REDACTED:secret:KEY]"),
        "{reason}"
    );
    let error = upstream.servers.test("s").await.unwrap().unwrap_err();
    assert!(!error.message.contains(VALUE), "{error}");
    assert!(
        !descriptions.all().contains(VALUE),
        "{}",
        descriptions.all()
    );

    script
        .exits_at_start
        .store(false, std::sync::atomic::Ordering::SeqCst);
    script.tools.lock()[0]["description"] = json!(format!("uses {VALUE}"));
    script.tools.lock()[0]["inputSchema"] =
        json!({"type": "object", "properties": {"password": {"type": "string", "default": VALUE}}});
    let descriptions = std::sync::Arc::<super::MemoryDescriptions>::default();
    let upstream = Upstream::on(descriptions.clone(), servers, &[("s", &script)]);
    let found = upstream.servers.load().await;
    let definition = &found.tools[0].definition;
    assert_eq!(definition.description, "uses [REDACTED:secret:KEY]");
    let schema = definition.input_schema.as_str();
    assert!(
        schema.contains("password") && !schema.contains(VALUE),
        "{schema}"
    );
    assert!(
        !descriptions.all().contains(VALUE),
        "{}",
        descriptions.all()
    );
}

#[tokio::test]
async fn server_tool_pages_are_limited() {
    let script = Script {
        pages: 3 << 20,
        ..Script::new(CallReaction::Answers(text("hello")))
    };
    let descriptions = std::sync::Arc::<super::MemoryDescriptions>::default();
    let servers = json!({"s": {"command": "s"}});
    let upstream = Upstream::on(descriptions.clone(), servers, &[("s", &script)]);
    let found = upstream.servers.load().await;
    assert_eq!(found.tools.len(), 2, "{:?}", found.quarantined);
    let reason = &found.quarantined[0].reason;
    assert!(
        reason.contains("the remaining tools of the server"),
        "{reason}"
    );
    assert_eq!(script.received("tools/list").len(), 3);
    assert!(descriptions.all().len() < 9 << 20);
}

#[tokio::test]
async fn server_messages_with_too_many_values_are_rejected() {
    let many = vec![json!([]); 300_000];
    let script = Script::new(CallReaction::Answers(json!({
        "content": [], "structuredContent": {"many": many},
    })));
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    // Brackets inside a string do not count.
    let words = "[],".repeat(300_000);
    let upstream = Upstream::one(&Script::new(CallReaction::Answers(text(&words))))
        .open()
        .await;
    assert!(upstream.call("mcp_s_go", json!({})).await.result().is_ok());
}

#[tokio::test]
async fn server_with_an_unknown_version_is_rejected() {
    for version in ["2031-01-01", "1.0", ""] {
        let mut script = Script::new(CallReaction::Answers(text("never")));
        script.protocol_version = Some(json!(version));
        let upstream = Upstream::one(&script);
        let error = upstream.servers.test("s").await.unwrap().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
        for part in [format!("`{version}`"), "`2025-11-25`".to_owned()] {
            assert!(error.message.contains(&part), "{error}");
        }
        assert!(
            error.remedies[0].contains("a version of the server `s`"),
            "{error}"
        );
        assert!(
            script.received("tools/list").is_empty(),
            "more requests were sent"
        );
    }
    let mut old = Script::new(CallReaction::Answers(text("still there")));
    old.protocol_version = Some(json!("2024-11-05"));
    let upstream = Upstream::one(&old).open().await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "still there"
    );
}

#[tokio::test]
async fn server_error_with_an_invalid_code_is_an_answer() {
    let error = json!({"code": 4_294_967_296_i64, "message": "no way"});
    let script = Script::new(CallReaction::Fails(error));
    let upstream = Upstream::one(&script).open().await;
    let begun = Instant::now();
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError, "{error}");
    assert!(
        error.message.contains("no way") && error.message.contains("4294967296"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn call_starts_only_the_server_that_may_have_the_tool() {
    let [one, two] = [(); 2].map(|()| Script::new(CallReaction::Answers(text("yes"))));
    let started = |script: &Script| script.started.load(std::sync::atomic::Ordering::SeqCst);
    let both = json!({"one": {"command": "one"}, "two": {"command": "two", "prefix": "second_"}});
    let upstream = Upstream::on(Default::default(), both, &[("one", &one), ("two", &two)]);
    let found = upstream.servers.load_for("read_flie").await;
    assert_eq!((found.tools.len(), found.unseen), (0, 2));
    assert_eq!((started(&one), started(&two)), (0, 0));
    let found = upstream.servers.load_for("mcp_one_go").await;
    assert_eq!((found.tools.len(), found.unseen), (1, 1));
    assert_eq!((started(&one), started(&two)), (1, 0));
    // The name of its resource reader does not depend on the prefix.
    let found = upstream.servers.load_for("mcp_two_resources_read").await;
    assert_eq!((found.tools.len(), found.unseen), (2, 0));
    // A server without a prefix may have any tool.
    let bare = Script::new(CallReaction::Answers(text("yes")));
    let servers = json!({"bare": {"command": "bare", "prefix": ""}, "one": {"command": "one"}});
    let upstream = Upstream::on(
        Default::default(),
        servers,
        &[("bare", &bare), ("one", &one)],
    );
    assert_eq!(upstream.servers.load_for("anything").await.tools.len(), 1);
    assert_eq!((started(&bare), started(&one)), (1, 1));
}

/// Starts a server with these settings that exits with this output. Returns the error.
async fn start_error(server: serde_json::Value, words: String) -> mimir_core::ToolError {
    let dead = Script::new(CallReaction::Answers(text("never")));
    let sure = std::sync::atomic::Ordering::SeqCst;
    dead.exits_at_start.store(true, sure);
    *dead.exit_stderr.lock() = words;
    let upstream = Upstream::on(Default::default(), json!({"s": server}), &[("s", &dead)]);
    upstream.servers.test("s").await.unwrap().unwrap_err()
}

#[tokio::test]
async fn sandbox_hint_names_the_hidden_file_and_the_setting() {
    // A file that exists on every machine that runs this test.
    let file = std::env::current_exe().unwrap();
    let folder = file.parent().unwrap().display().to_string();
    let file = file.display().to_string();
    // As printed by Node, followed by more lines than are stored as last output.
    let words = |file: &str| {
        format!(
            "node:internal\n  throw err;\nError: Cannot find module '{file}'\n    at one\n    at two\n    at three\n    at four\n"
        )
    };
    let server = json!({"command": "s", "args": [file]});
    let error = start_error(server, words(&file)).await;
    assert!(
        error.message.contains(&format!("`{file}`, which exists")),
        "{error}"
    );
    let behavior = error.remedies.join("\n");
    assert!(
        behavior.contains(&format!("`bindMounts: [{folder}]` in mcp.servers.s")),
        "{behavior}"
    );
    for (server, words) in [
        // No hint: the file does not exist, is visible, is not an argument, or is not the cause.
        (
            json!({"command": "s", "args": ["/nowhere/at/all.js"]}),
            words("/nowhere/at/all.js"),
        ),
        (
            json!({"command": "s", "args": [file], "bindMounts": [folder]}),
            words(&file),
        ),
        (
            json!({"command": "s", "args": [file], "sandbox": "none"}),
            words(&file),
        ),
        (json!({"command": "s"}), words(&file)),
        (
            json!({"command": "s", "args": [file]}),
            format!("{file}: syntax error\n"),
        ),
    ] {
        let error = start_error(server.clone(), words).await;
        assert!(!error.message.contains("which exists"), "{server}: {error}");
        assert!(error.remedies.is_empty(), "{server}: {error:?}");
    }
}

#[tokio::test]
async fn sandbox_hint_names_a_program_that_is_hidden() {
    // A program that exists on every machine that runs this test.
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().display().to_string();
    let program = program.display().to_string();
    let dead = Script::new(CallReaction::Answers(text("never")));
    dead.exits_at_start
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let error = async |block: serde_json::Value| {
        let servers = json!({"s": block});
        let scripts = [(program.as_str(), &dead), ("/usr/bin/env", &dead)];
        let upstream = Upstream::on(Default::default(), servers, &scripts);
        upstream.servers.test("s").await.unwrap().unwrap_err()
    };
    let hidden = error(json!({"command": program})).await;
    let remedies = hidden.remedies.join("\n");
    assert!(
        hidden.message.contains("exists, but the sandbox hides"),
        "{hidden}"
    );
    assert!(
        remedies.contains(&format!("mcp.servers.s.bindMounts '[{folder}]'")),
        "{remedies}"
    );
    for shown in [
        json!({"command": program, "bindMounts": [folder]}),
        json!({"command": program, "sandbox": "none"}),
        json!({"command": "/usr/bin/env"}),
    ] {
        let error = error(shown).await;
        assert!(!error.message.contains("exists, but"), "{error}");
    }
}

#[tokio::test]
async fn server_that_fails_in_a_row_gets_no_calls_until_a_restart() {
    let script = Script::new(CallReaction::Nothing);
    let servers = json!({"s": {"command": "s", "timeoutMs": 50}});
    let statuses = Arc::new(Recorder::default());
    let upstream = Upstream::observed(servers.clone(), &[("s", &script)], Arc::clone(&statuses))
        .open()
        .await;
    for _ in 0..5 {
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        assert_eq!(outcome.result().unwrap_err().code, ToolErrorCode::Timeout);
    }
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(
        error.message.contains("5 calls") && error.message.contains("within 50 ms"),
        "{error}"
    );
    assert!(
        error
            .remedies
            .iter()
            .any(|it| it.contains("mimir mcp restart s")),
        "{error:?}"
    );
    assert_eq!(script.received("tools/call").len(), 5);
    let status = statuses.last("s");
    assert_eq!(
        (status.state, status.failed_calls),
        (ServerState::Running, 5)
    );
    assert!(status.paused_until.is_some() && status.last_error.is_some());
    // A restart by the user sends calls to it again.
    let config = serde_json::from_value(json!({"mcp": {"servers": servers}})).unwrap();
    let requested = |starts, restarts| {
        let requests = RunRequests { starts, restarts };
        let requests = BTreeMap::from([("s".to_owned(), requests)]);
        upstream.servers.set_with_restarts(&config, &requests)
    };
    assert_eq!(requested(0, 1), ["s"]);
    // It is not running now, so that another restart has nothing to do, but a start has.
    assert!(requested(0, 2).is_empty());
    assert_eq!(requested(1, 2), ["s"]);
    let upstream = upstream.open().await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(outcome.result().unwrap_err().code, ToolErrorCode::Timeout);
    assert_eq!(script.received("tools/call").len(), 6);
    assert_eq!(statuses.last("s").failed_calls, 1);
}

#[tokio::test]
async fn server_errors_that_it_returns_do_not_stop_calls() {
    let script = Script::new(CallReaction::Fails(
        json!({"code": -32603, "message": "no"}),
    ));
    let upstream = Upstream::one(&script).open().await;
    for _ in 0..8 {
        upstream.call("mcp_s_go", json!({})).await;
    }
    assert_eq!(script.received("tools/call").len(), 8);
}

#[tokio::test]
async fn server_status_and_log_follow_its_life() {
    let script = Script::new(CallReaction::Crashes);
    let statuses = Arc::new(Recorder::default());
    let servers = json!({"s": {"command": "s"}});
    let upstream = Upstream::observed(servers, &[("s", &script)], Arc::clone(&statuses))
        .open()
        .await;
    let status = statuses.last("s");
    assert_eq!(
        (status.state, status.starts, status.tools),
        (ServerState::Running, 1, Some(1))
    );
    upstream.call("mcp_s_go", json!({})).await;
    for _ in 0..500 {
        if statuses.last("s").state == ServerState::Failed {
            break;
        }
        // The next call notices the end of the server.
        upstream.call("mcp_s_go", json!({})).await;
    }
    let status = statuses.last("s");
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.last_error.is_some());
    let lines = statuses.lines();
    assert!(
        lines.iter().any(|line| line.starts_with("s: started: ")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("a call failed: ")),
        "{lines:?}"
    );
}
