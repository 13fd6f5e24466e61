//! Many tools, found one by one.

use mimir_core::{Decision, Tool};
use serde_json::{Value, json};

use crate::kit::{Room, Wire, fake, said, tool};

/// Tools that say what they were called with.
fn tools() -> Vec<Tool> {
    let says = || fake(|call| async move { said(&call.arguments().to_string()) });
    let mut send = tool("send_mail", says());
    send.definition.description = "Sends a letter.".to_owned();
    let mut hidden = tool("off_limits", says());
    hidden.definition.description = "Sends all of it.".to_owned();
    let many = (0..100).map(|at| tool(&format!("many_{at}"), says()));
    many.chain([send, hidden]).collect()
}

async fn names(wire: &mut Wire) -> Vec<String> {
    let listed = wire.request("tools/list", json!({})).await["result"].take();
    let tools = listed["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn tools_are_found_where_that_is_set_or_they_are_many() {
    let room = Room::new(vec![]);
    for (settings, found) in [
        (json!({}), false),
        (json!({"toolDiscoveryTokens": 100}), true),
        (json!({"toolDiscoveryTokens": 100_000}), false),
        (json!({"toolDiscovery": "on"}), true),
        (
            json!({"toolDiscovery": "off", "toolDiscoveryTokens": 100}),
            false,
        ),
    ] {
        room.replace_under(tools(), settings.clone());
        let mut wire = room.client(json!({})).await;
        let names = names(&mut wire).await;
        let three = [
            "mimir_call_tool",
            "mimir_describe_tool",
            "mimir_search_tools",
        ];
        assert_eq!(names == three, found, "{settings}: {names:?}");
        assert_eq!(names.len() > 100, !found, "{settings}");
        // Where all are listed there is nothing that finds them.
        let found_it = wire
            .call("mimir_search_tools", json!({"query": "mail"}))
            .await;
        assert_eq!(found_it.is_null(), !found, "{settings}: {found_it}");
    }
}

#[tokio::test]
async fn a_tool_is_found_described_and_called_at_the_same_gates() {
    let room = Room::new(vec![]);
    let settings = json!({"toolDiscovery": "on", "policy": {"deny": ["off_limits"]}});
    let mut all = tools();
    all.iter_mut()
        .filter(|tool| tool.name().as_str() == "many_7")
        .for_each(|tool| tool.definition.approval = Decision::Ask);
    room.replace_under(all, settings);
    let mut wire = room.client(json!({})).await;
    let found = wire
        .call("mimir_search_tools", json!({"query": "send a letter"}))
        .await;
    let found: Value = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(found["tools"][0]["name"], "send_mail", "{found}");
    assert!(!found.to_string().contains("off_limits"), "{found}");
    let many = wire.call("mimir_search_tools", json!({"query": ""})).await;
    let many: Value = serde_json::from_str(text(&many)).unwrap();
    assert_eq!(
        many["tools"].as_array().unwrap().len(),
        20,
        "no more than is read"
    );
    let described = wire
        .call("mimir_describe_tool", json!({"name": "send_mail"}))
        .await;
    assert!(text(&described).contains("inputSchema"), "{described}");
    let described = wire
        .call("mimir_describe_tool", json!({"name": "off_limits"}))
        .await;
    assert_eq!(described["isError"], true, "{described}");
    assert!(room.audit.codes().is_empty(), "nothing was called yet");

    let call = |name: &str| json!({"name": name, "arguments": {"n": 1}});
    let called = wire.call("mimir_call_tool", call("send_mail")).await;
    assert_eq!(text(&called), r#"{"n":1}"#);
    let refused = wire.call("mimir_call_tool", call("off_limits")).await;
    assert_eq!(
        refused["_meta"]["mimir/outcome"]["code"], "POLICY_DENIED",
        "{refused}"
    );
    let asked = wire.call("mimir_call_tool", call("many_7")).await;
    assert_eq!(
        asked["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED",
        "{asked}"
    );
    assert_eq!(
        room.audit.codes(),
        [
            Value::Null,
            json!("POLICY_DENIED"),
            json!("APPROVAL_DENIED")
        ]
    );
}

#[tokio::test]
async fn what_is_no_call_is_refused() {
    let room = Room::new(vec![]);
    room.replace_under(tools(), json!({"toolDiscovery": "on"}));
    let mut wire = room.client(json!({})).await;
    for (name, arguments) in [
        ("mimir_search_tools", json!({})),
        ("mimir_describe_tool", json!({"name": 7})),
        ("mimir_call_tool", json!({})),
        (
            "mimir_call_tool",
            json!({"name": "mimir_call_tool", "arguments": {}}),
        ),
        (
            "mimir_call_tool",
            json!({"name": "send_mail", "arguments": [1]}),
        ),
    ] {
        let refused = wire.call(name, arguments).await;
        assert_eq!(refused["isError"], true, "{name}: {refused}");
        assert!(text(&refused).contains("INVALID_INPUT"), "{refused}");
    }
    assert!(room.audit.codes().is_empty());
}
