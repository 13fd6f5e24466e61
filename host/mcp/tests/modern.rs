//! The protocol since 2026-07-28: no handshake, and questions in responses.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::approvals::careful;
use crate::kit::{TestServer, Wire, fake, text_result, tool};

const VERSION: &str = "2026-07-28";

/// Returns the params of a request that declares this protocol version.
pub fn modern(mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// Calls the tool as a client that can show forms.
async fn call(wire: &mut Wire, more: Value) -> Value {
    let mut params = json!({"name": "careful", "arguments": {"n": 1}});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    wire.request("tools/call", modern(params, forms())).await
}

fn with(state: &Value, answer: &str) -> Value {
    let content = json!({"action": "accept", "content": {"answer": answer}});
    json!({"requestState": state, "inputResponses": {"approval": content}})
}

#[tokio::test]
async fn modern_client_discovers_lists_and_calls() {
    let test_server = TestServer::new(vec![tool("one", fake(|_| async { text_result("done") }))]);
    let (mut wire, _) = test_server.connect();
    let found = wire
        .request("server/discover", modern(json!({}), json!({})))
        .await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(VERSION)), "{found}");
    assert!(
        versions.contains(&json!("2025-11-25")),
        "both generations: {found}"
    );
    let listed = wire
        .request("tools/list", modern(json!({}), json!({})))
        .await;
    assert_eq!(listed["result"]["tools"][0]["name"], "one");
    let params = modern(json!({"name": "one"}), json!({}));
    let called = wire.request("tools/call", params).await["result"].take();
    assert_eq!(called["content"][0]["text"], "done");
    assert_eq!(called["resultType"], "complete");
    let bare = wire.request("tools/call", json!({"name": "one"})).await;
    assert_eq!(
        bare["error"]["code"], -32602,
        "it must declare its version: {bare}"
    );
}

#[tokio::test]
async fn modern_question_is_a_response_and_the_call_resumes() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let pending = call(&mut wire, json!({})).await["result"].take();
    assert_eq!(pending["resultType"], "input_required");
    let question = &pending["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("may `careful` run?"), "{message}");
    let state = &pending["requestState"];
    assert_eq!(runs.load(Ordering::SeqCst), 0);

    let done = call(&mut wire, with(state, "once")).await["result"].take();
    assert_eq!(done["content"][0]["text"], "{\"n\":1}", "{done}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // One call, and one entry in the audit log.
    assert_eq!(test_server.recorded(1).await, [Value::Null]);

    let again = call(&mut wire, with(state, "once")).await;
    assert_eq!(again["error"]["code"], -32602, "a yes counts once: {again}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn modern_repeated_call_has_its_own_question() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let first = call(&mut wire, json!({})).await["result"].take();
    let second = call(&mut wire, json!({})).await["result"].take();
    assert_eq!(second["resultType"], "input_required", "{second}");
    assert_ne!(first["requestState"], second["requestState"]);
    let no = call(&mut wire, with(&second["requestState"], "no")).await["result"].take();
    assert_eq!(no["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // Each answer belongs to its own call.
    let done = call(&mut wire, with(&first["requestState"], "once")).await["result"].take();
    assert_eq!(done["isError"], false, "{done}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn modern_no_denies_and_invalid_answers_ask_again() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let pending = call(&mut wire, json!({})).await["result"].take();
    let again = call(&mut wire, with(&pending["requestState"], "perhaps")).await["result"].take();
    assert_eq!(again["resultType"], "input_required");
    let message = again["inputRequests"]["approval"]["params"]["message"].as_str();
    assert!(
        message
            .unwrap()
            .starts_with("This is not one of the possible answers.")
    );
    assert_ne!(pending["requestState"], again["requestState"]);
    let silent = json!({"requestState": again["requestState"], "inputResponses": {}});
    let again = call(&mut wire, silent).await["result"].take();
    assert_eq!(again["resultType"], "input_required");
    let no = call(&mut wire, with(&again["requestState"], "no")).await["result"].take();
    assert_eq!(
        no["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED",
        "{no}"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn modern_edited_arguments_are_asked_in_the_next_round() {
    let (careful, _) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let pending = call(&mut wire, json!({})).await["result"].take();
    let mut edit = with(&pending["requestState"], "edit");
    edit["inputResponses"]["approval"]["content"]["arguments"] = json!("{\"n\": 5}");
    let second = call(&mut wire, edit).await["result"].take();
    let message = second["inputRequests"]["approval"]["params"]["message"].as_str();
    assert!(message.unwrap().contains("\"n\": 5"), "{second}");
    let done = call(&mut wire, with(&second["requestState"], "once")).await["result"].take();
    assert_eq!(done["content"][0]["text"], "{\"n\":5}");
}

#[tokio::test]
async fn modern_answer_is_bound_to_call_and_connection() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let pending = call(&mut wire, json!({})).await["result"].take();
    let state = &pending["requestState"];
    let mut other = with(state, "once");
    other["arguments"] = json!({"n": 1000});
    let forged = call(&mut wire, other).await;
    assert_eq!(forged["error"]["code"], -32602, "other arguments: {forged}");
    let (mut stranger, _) = test_server.connect();
    let stolen = call(&mut stranger, with(state, "once")).await;
    assert_eq!(
        stolen["error"]["code"], -32602,
        "another connection: {stolen}"
    );
    let invented = call(&mut wire, with(&json!("00".repeat(16)), "once")).await;
    assert_eq!(invented["error"]["code"], -32602, "{invented}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // None of these attempts has removed the pending call.
    let done = call(&mut wire, with(state, "once")).await["result"].take();
    assert_eq!(done["isError"], false, "{done}");
}

#[tokio::test]
async fn modern_late_answer_is_a_denial() {
    let (careful, runs) = careful();
    let test_server = TestServer::with_timeout(vec![careful], Duration::from_millis(30));
    let (mut wire, _) = test_server.connect();
    let pending = call(&mut wire, json!({})).await["result"].take();
    assert_eq!(
        test_server.recorded(1).await,
        ["APPROVAL_DENIED"],
        "without the client"
    );
    let late = call(&mut wire, with(&pending["requestState"], "once")).await["result"].take();
    assert_eq!(late["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn modern_disconnect_stops_the_pending_call() {
    let (careful, _) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, served) = test_server.connect();
    call(&mut wire, json!({})).await;
    drop(wire);
    served.await.unwrap().unwrap();
    assert_eq!(test_server.recorded(1).await, ["CANCELLED"]);
}

#[tokio::test]
async fn modern_client_without_forms_is_denied() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let (mut wire, _) = test_server.connect();
    let params = modern(json!({"name": "careful"}), json!({}));
    let result = wire.request("tools/call", params).await["result"].take();
    assert_eq!(result["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    assert!(
        wire.received.is_empty(),
        "no logs were requested: {:?}",
        wire.received
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn modern_subscription_notifies_of_changed_lists() {
    let one = || tool("one", fake(|_| async { text_result("done") }));
    let test_server = TestServer::new(vec![one()]);
    let (mut wire, _) = test_server.connect();
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let id = wire
        .send("subscriptions/listen", modern(wanted, json!({})))
        .await;
    let begun = wire
        .next_with_method("notifications/subscriptions/acknowledged")
        .await;
    assert_eq!(
        begun["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    test_server.replace(vec![]);
    let notification = wire
        .next_with_method("notifications/tools/list_changed")
        .await;
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(notification["params"]["_meta"][key], id, "{notification}");
}
