//! Resources and prompts of servers as mimir's clients see and read them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{CallReaction, Script, Upstream, text};

/// A server with a resource, a template and a prompt.
pub fn script() -> Script {
    let mut script = Script::new(CallReaction::Answers(text("hello")));
    script.capabilities =
        json!({"resources": {"subscribe": true}, "prompts": {}, "completions": {}});
    let words = json!({"type": "text", "text": "words"});
    let mut responses = script.responses.lock();
    responses.insert(
        "resources/list",
        json!({"resources": [
            {"uri": "file:///a.txt", "name": "a", "description": "hid\u{1b}[8mden",
                "icons": [{"src": "https://tracker.example/i.png"}]},
            {"uri": 7, "name": "broken"},
        ]}),
    );
    let template = json!({"uriTemplate": "file:///{name}", "name": "all"});
    responses.insert(
        "resources/templates/list",
        json!({"resourceTemplates": [template]}),
    );
    responses.insert(
        "resources/read",
        json!({"contents": [
            {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "the text s3cr3t"},
            {"uri": "file:///a.bin", "mimeType": "x/y", "blob": "AAEC"},
        ]}),
    );
    responses.insert("resources/subscribe", json!({}));
    responses.insert("resources/unsubscribe", json!({}));
    responses.insert(
        "prompts/list",
        json!({"prompts": [{"name": "p", "description": "One."}]}),
    );
    responses.insert(
        "prompts/get",
        json!({"messages": [{"role": "user", "content": words}]}),
    );
    let values: Vec<String> = (0..200).map(|at| format!("v{at}")).collect();
    responses.insert(
        "completion/complete",
        json!({"completion": {"values": values}}),
    );
    drop(responses);
    script
}

pub fn on(script: &Script, settings: Value) -> Upstream {
    let mut server = json!({"command": "s"});
    for (key, value) in settings.as_object().unwrap() {
        server[key] = value.clone();
    }
    Upstream::on(Arc::default(), json!({"s": server}), &[("s", script)])
}

#[tokio::test]
async fn library_entries_are_prefixed_and_read_by_calls() {
    let script = script();
    let upstream = on(&script, json!({})).open().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    let listed = wire.request("resources/list", json!({})).await["result"].take();
    let resources = listed["resources"].as_array().unwrap();
    assert_eq!(
        resources.len(),
        1,
        "the broken entry does not affect others: {listed}"
    );
    assert_eq!(resources[0]["uri"], "mcp://s/file:///a.txt");
    assert_eq!(resources[0]["description"], r"hid\u{1b}[8mden");
    assert!(
        resources[0].get("icons").is_none(),
        "listing does not fetch icons"
    );
    let templates = wire.request("resources/templates/list", json!({})).await["result"].take();
    assert_eq!(
        templates["resourceTemplates"][0]["uriTemplate"],
        "mcp://s/file:///{name}"
    );
    let read = json!({"uri": "mcp://s/file:///a.txt"});
    let read = wire.request("resources/read", read).await["result"].take();
    let words = read["contents"][0]["text"].as_str().unwrap();
    let lines: Vec<&str> = words.lines().collect();
    assert!(lines[0].starts_with("[untrusted "), "{words}");
    assert_eq!(lines[1], "the text s3cr3t");
    assert_eq!(read["contents"][0]["uri"], "mcp://s/file:///a.txt");
    assert_eq!(read["contents"][1]["blob"], "AAEC");
    assert_eq!(
        read["_meta"]["mimir/outcome"]["label"]["trust"],
        "untrusted"
    );
    assert_eq!(
        script.received("resources/read")[0]["params"]["uri"],
        "file:///a.txt"
    );
    let prompts = wire.request("prompts/list", json!({})).await["result"].take();
    assert_eq!(prompts["prompts"][0]["name"], "mcp_s_p");
    // A call needs approval after untrusted text; this session has read none.
    let mut wire = upstream.test_server.client(json!({})).await;
    let got = wire
        .request("prompts/get", json!({"name": "mcp_s_p"}))
        .await["result"]
        .take();
    let words = got["messages"][0]["content"]["text"].as_str().unwrap();
    let lines: Vec<&str> = words.lines().collect();
    assert!(lines[0].starts_with("[untrusted "), "{words}");
    assert_eq!(lines[1], "words");
    assert!(lines[2].starts_with("[end of untrusted "), "{words}");
    assert_eq!(
        upstream.test_server.audit.codes(),
        [Value::Null, Value::Null],
        "both are recorded"
    );
    let tools = wire.request("tools/list", json!({})).await["result"].take();
    assert_eq!(
        tools["tools"].as_array().unwrap().len(),
        1,
        "models do not see reader tools"
    );
}

#[tokio::test]
async fn library_reads_need_approval_like_calls() {
    let script = script();
    let upstream = on(&script, json!({}));
    // The tools as loaded, without approvals.
    let tools = upstream.servers.load().await.tools;
    upstream.test_server.replace(tools);
    let mut wire = upstream.test_server.client(json!({})).await;
    let read = json!({"uri": "mcp://s/file:///a.txt"});
    let refused = wire.request("resources/read", read.clone()).await;
    assert_eq!(
        refused["error"]["data"]["code"], "APPROVAL_DENIED",
        "{refused}"
    );
    let mut wire = upstream
        .test_server
        .client(json!({"elicitation": {}}))
        .await;
    let id = wire.send("resources/read", read).await;
    let question = wire.next_with_method("elicitation/create").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("mimir: may `mcp_s_resources_read` run?"),
        "{message}"
    );
    let yes = json!({"action": "accept", "content": {"answer": "once"}});
    wire.answer(&question, yes).await;
    let read = wire.response_to(id).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    assert_eq!(
        script.received("resources/read").len(),
        1,
        "the denied read was not sent"
    );
}

#[tokio::test]
async fn library_settings_hide_resources_and_prompts() {
    let script = script();
    let off = json!({"resources": false, "prompts": false});
    let upstream = on(&script, off).open().await;
    let (mut wire, _) = upstream.test_server.connect();
    let hello = wire.handshake("2025-11-25", json!({})).await;
    assert!(hello["capabilities"].get("resources").is_none(), "{hello}");
    assert!(hello["capabilities"].get("prompts").is_none(), "{hello}");
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "mcp://s/file:///a.txt"})),
        ("prompts/get", json!({"name": "mcp_s_p"})),
    ] {
        let answer = wire.request(method, params).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    // Disabling one does not affect the other.
    for (off, here, gone) in [
        ("resources", "prompts/list", "resources/list"),
        ("prompts", "resources/list", "prompts/list"),
    ] {
        let upstream = on(&script, json!({ off: false })).open().await;
        let mut wire = upstream.test_server.client(json!({})).await;
        let key = |method: &str| method.split('/').next().unwrap().to_owned();
        let there = wire.request(here, json!({})).await;
        assert_eq!(
            there["result"][key(here)].as_array().unwrap().len(),
            1,
            "{there}"
        );
        let gone_now = wire.request(gone, json!({})).await;
        assert_eq!(gone_now["result"][key(gone)], json!([]), "{gone_now}");
    }
}

#[tokio::test]
async fn library_unknown_entries_reach_no_server() {
    let script = script();
    let upstream = on(&script, json!({})).open().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    for uri in ["file:///a.txt", "mcp://other/file:///a.txt", "mcp://s", ""] {
        let answer = wire.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
        assert_eq!(answer["error"]["data"]["uri"], uri);
    }
    let answer = wire.request("prompts/get", json!({"name": "p"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(
        script.received("resources/read").is_empty() && script.received("prompts/get").is_empty()
    );
}

#[tokio::test]
async fn completion_values_are_limited() {
    let script = script();
    let upstream = on(&script, json!({})).open().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    let params = json!({"ref": {"type": "ref/prompt", "name": "mcp_s_p"},
        "argument": {"name": "n", "value": "v"}});
    let answer = wire.request("completion/complete", params).await["result"].take();
    assert_eq!(
        answer["completion"]["values"].as_array().unwrap().len(),
        100
    );
    let reference = &script.received("completion/complete")[0]["params"]["ref"];
    assert_eq!(reference["name"], "p", "by the server's own name");
}

#[tokio::test]
async fn subscription_updates_reach_only_the_subscriber() {
    let script = script();
    *script.notification.lock() = json!({"jsonrpc": "2.0",
        "method": "notifications/resources/updated", "params": {"uri": "file:///a.txt"}});
    let upstream = on(&script, json!({})).open().await;
    let mut watches = upstream.test_server.client(json!({})).await;
    let mut other = upstream.test_server.client(json!({})).await;
    let uri = json!({"uri": "mcp://s/file:///a.txt"});
    let answer = watches.request("resources/subscribe", uri.clone()).await;
    assert!(answer["result"].is_object(), "{answer}");
    // The other client watches another resource.
    let another = json!({"uri": "mcp://s/file:///b.txt"});
    other.request("resources/subscribe", another).await;
    script.notify.notify_one();
    let notification = watches
        .next_with_method("notifications/resources/updated")
        .await;
    assert_eq!(notification["params"]["uri"], "mcp://s/file:///a.txt");
    other.request("ping", json!({})).await;
    assert!(other.received.is_empty(), "{:?}", other.received);
    watches.request("resources/unsubscribe", uri).await;
    let received = script.received("resources/unsubscribe");
    assert_eq!(received[0]["params"]["uri"], "file:///a.txt");
}

#[tokio::test]
async fn library_invalid_answer_is_an_error() {
    let script = script();
    let none = json!({"contents": [{"uri": "file:///a", "blob": "%%%"}]});
    script.responses.lock().insert("resources/read", none);
    let upstream = on(&script, json!({})).open().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    let answer = wire
        .request("resources/read", json!({"uri": "mcp://s/file:///a"}))
        .await;
    assert_eq!(
        answer["error"]["data"]["code"], "EXECUTION_ERROR",
        "{answer}"
    );
}

#[tokio::test]
async fn library_of_an_older_server_suits_both_generations() {
    let script = script();
    // The server declares the response cacheable for everyone, but each read is checked for its user.
    let cacheable = json!({"contents": [], "ttlMs": 60_000, "cacheScope": "public"});
    script.responses.lock().insert("resources/read", cacheable);
    let upstream = on(&script, json!({})).open().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (method, params) in [
        ("resources/read", json!({"uri": "mcp://s/file:///a.txt"})),
        ("prompts/get", json!({"name": "mcp_s_p"})),
    ] {
        // A call needs approval after untrusted text; these sessions have read none.
        let (mut modern, _) = upstream.test_server.connect();
        let mut legacy = upstream.test_server.client(json!({})).await;
        let old = legacy.request(method, params.clone()).await["result"].take();
        assert!(old.is_object() && old.get("resultType").is_none(), "{old}");
        assert!(old.get("ttlMs").is_none(), "{old}");
        let mut params = params;
        params["_meta"] = meta.clone();
        let new = modern.request(method, params).await["result"].take();
        assert_eq!(new["resultType"], "complete", "{method}: {new}");
        if method == "resources/read" {
            assert_eq!(
                (&new["ttlMs"], &new["cacheScope"]),
                (&json!(0), &json!("private"))
            );
        }
    }
}

#[tokio::test]
async fn tool_icons_reach_clients_if_they_are_images() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let mut tool = super::tool("go");
    tool["icons"] = json!([
        {"src": "data:image/png;base64,AAAA", "sizes": ["48x48"]}, {"src": "http://icons.example/a.png"},
    ]);
    *script.tools.lock() = vec![tool];
    let upstream = Upstream::one(&script).open().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    let listed = wire.request("tools/list", json!({})).await["result"].take();
    let icons = &listed["tools"][0]["icons"];
    let expected = json!([{"src": "data:image/png;base64,AAAA", "sizes": ["48x48"]}]);
    assert_eq!(*icons, expected, "{listed}");
}
