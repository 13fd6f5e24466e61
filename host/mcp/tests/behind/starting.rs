//! How servers begin, and fail to: what is asked of them, who tries them again, and who waits for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mimir_core::Code;
use serde_json::json;

use super::{Behind, Does, Script, Shelf, said, text};

fn dead() -> Script {
    let script = Script::new(Does::Answers(text("hello")));
    script.stillborn.store(true, Ordering::SeqCst);
    script
}

#[tokio::test]
async fn a_call_by_its_name_tries_one_again_that_failed() {
    let script = dead();
    let shelf: Arc<Shelf> = Arc::default();
    let process = || {
        let servers = json!({"s": {"command": "s"}, "bare": {"command": "s", "prefix": ""}});
        Behind::on(Arc::clone(&shelf), servers, &[("s", &script)])
    };
    assert_eq!(process().servers.load().await.quarantined.len(), 2);
    let started = || script.started.load(Ordering::SeqCst);
    assert_eq!(started(), 2);
    let found = process().servers.load_for("mcp_s_go").await;
    assert!(found.quarantined[1].reason.contains("left-pad"));
    // A name that any server without a prefix may have starts none of them anew.
    assert_eq!(started(), 3);
    process().servers.load_for("read_flie").await;
    assert_eq!(started(), 3);
    script.stillborn.store(false, Ordering::SeqCst);
    let found = process().servers.load_for("mcp_s_go").await;
    assert_eq!(found.tools.len(), 1);
}

#[tokio::test]
async fn one_that_is_not_started_again_yet_says_why_it_failed() {
    let script = dead();
    let behind = Behind::one(&script);
    behind.servers.load().await;
    let error = behind.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    assert_eq!(error.code, Code::Unavailable, "{error}");
    for words in ["not started again for another", "left-pad"] {
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn those_that_failed_are_tried_again_after_a_while() {
    let script = dead();
    let shelf: Arc<Shelf> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    let behind = Behind::on(Arc::clone(&shelf), servers, &[("s", &script)]);
    let told = std::sync::Mutex::new(0);
    let mends = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let started = script.started.load(Ordering::SeqCst);
        // It is looked for, and left alone.
        assert_eq!((started, *told.lock().unwrap()), (1, 1));
        shelf.clear();
        script.stillborn.store(false, Ordering::SeqCst);
    };
    let again = Duration::from_millis(50);
    let asks = behind
        .servers
        .load_all(again, |_| *told.lock().unwrap() += 1);
    let both = async { tokio::join!(mends, asks) };
    let ended = tokio::time::timeout(Duration::from_secs(30), both).await;
    assert!(ended.is_ok(), "it is not asked again");
    assert_eq!(behind.servers.known().tools.len(), 1);
}

#[tokio::test]
async fn a_call_waits_for_the_server_that_may_have_its_tool() {
    let mut script = Script::new(Does::Answers(text("here")));
    script.slow_start = Duration::from_millis(300);
    let behind = Behind::one(&script);
    let keeps = async {
        loop {
            behind.servers.changed().await;
            behind.room.replace(behind.tools().await);
        }
    };
    let calls = async {
        let mut wire = behind.room.client(json!({})).await;
        let answer = wire.call("mcp_s_go", json!({})).await;
        assert!(answer.to_string().contains("here"), "{answer}");
        // What no server may have is not waited for.
        let begun = Instant::now();
        let other = json!({"name": "mcp_other_go", "arguments": {}});
        let id = wire.send("tools/call", other).await;
        let answer = wire.answered(id).await;
        assert_eq!(answer["error"]["data"]["code"], "NOT_FOUND", "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(3));
    };
    tokio::select! {
        () = keeps => {}
        () = calls => {}
    }
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_handshake_names_a_version_that_has_one() {
    let script = Script::new(Does::Answers(text("hello")));
    Behind::one(&script).open().await;
    let asked = &script.heard("initialize")[0]["params"]["protocolVersion"];
    assert_eq!(*asked, "2025-11-25");
    // One that answers with the version without a handshake is spoken with as that has it.
    let mut odd = Script::new(Does::Answers(text("hello")));
    odd.speaks = Some(json!("2026-07-28"));
    let behind = Behind::one(&odd).open().await;
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "hello");
    assert_eq!(odd.heard("server/discover").len(), 1);
}

#[tokio::test]
async fn an_answer_to_the_handshake_that_is_none_is_told_in_plain_words() {
    let mut script = Script::new(Does::Answers(text("never")));
    script.speaks = Some(json!(7));
    script.can = json!({"tools": 5});
    let error = Behind::one(&script).servers.test("s").await.unwrap();
    let error = error.unwrap_err();
    // The other era is tried, where its answer is none, either.
    for words in ["initialize", "integer `7`"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert!(!error.message.contains("CustomResult"), "{error}");
}

#[tokio::test]
async fn an_answer_to_a_call_that_is_none_is_a_failure_at_once() {
    for (line, words) in [
        (
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1e400,"message":"no"}}"#,
            "number out of range",
        ),
        (r#"{"jsonrpc":"2.0","id":ID}"#, "neither a `result`"),
        (r#"{"id":ID,"result":{"content":[]}}"#, "no `jsonrpc"),
        (
            r#"{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}"#,
            "\"1.0\"",
        ),
    ] {
        let script = Script::new(Does::Raw(line.to_owned()));
        let behind = Behind::one(&script).open().await;
        let begun = Instant::now();
        let outcome = behind.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, Code::ExecutionError, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{words}");
    }
}
