//! Roles by the groups in tokens: lists, refusals, the audit log and budgets of each user.

use serde_json::{Value, json};

use super::provider::{Key, Provider};
use super::{ProtectedServer, list};
use crate::kit::{fake, text_result, tool};

/// A server with three tools and these settings.
async fn server(settings: Value) -> (ProtectedServer, Provider, Key) {
    let key = Key::ed();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = ProtectedServer::with(&provider, tools());
    gate.test_server.replace_under(tools(), settings);
    (gate, provider, key)
}

fn tools() -> Vec<mimir_core::Tool> {
    let named = |name: &str| tool(name, fake(|_| async { text_result("done") }));
    vec![named("read_file"), named("run"), named("write_file")]
}

fn roles() -> Value {
    json!({"toolDiscovery": "off", "roles": {
        "admin": {"groups": ["admins"]},
        "viewer": {"groups": ["viewers"], "tools": {"allow": ["read_file"]}},
        "default": {"tools": {"deny": ["*"]}},
    }})
}

fn call(name: &str) -> Value {
    let params = json!({"name": name, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})
}

/// A client of a user in these groups, in a session or without one.
pub(super) struct Member<'a> {
    gate: &'a ProtectedServer,
    token: String,
    session: Option<String>,
}

impl<'a> Member<'a> {
    fn token(provider: &Provider, key: &Key, sub: &str, groups: &Value) -> String {
        key.token(
            "k",
            &provider.claims(&json!({"sub": sub, "groups": groups})),
        )
    }

    pub(super) async fn connect(gate: &'a ProtectedServer, token: String) -> Self {
        let session = gate.handshake(&token).await.session.unwrap();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        gate.post(&token, Some(&session), ready).await;
        Self {
            gate,
            token,
            session: Some(session),
        }
    }

    async fn send(&self, message: Value) -> Value {
        let session = self.session.as_deref();
        let response = self.gate.post(&self.token, session, message).await;
        let events = response.body.lines();
        let mut messages =
            events.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
        messages
            .next()
            .unwrap_or_else(|| panic!("no message: {}", response.body))
    }

    async fn listed(&self) -> Vec<String> {
        let reply = self.send(list()).await;
        let tools = reply["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Calls a tool and returns the texts of the result or the error.
    pub(super) async fn call(&self, tool: &str) -> String {
        let texts = self.call_for_texts(tool).await;
        texts.join("\n")
    }

    /// Calls a tool and returns each text of the result or the error.
    pub(super) async fn call_for_texts(&self, tool: &str) -> Vec<String> {
        let reply = self.send(call(tool)).await;
        let content = reply["result"]["content"].as_array();
        let content = content.unwrap_or_else(|| panic!("{reply}")).iter();
        let texts = content.filter_map(|part| part["text"].as_str());
        texts.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn role_filters_the_list_and_refuses_other_calls() {
    let (gate, provider, key) = server(roles()).await;
    let all = ["read_file", "run", "write_file"];
    for (groups, expected) in [
        (json!(["admins", "viewers"]), &all[..]),
        (json!(["viewers"]), &all[..1]),
        (json!("viewers"), &all[..1]),
        (json!(["others"]), &[]),
        (json!(null), &[]),
    ] {
        let token = Member::token(&provider, &key, "alice", &groups);
        let member = Member::connect(&gate, token).await;
        assert_eq!(member.listed().await, expected, "{groups}");
        for name in all {
            let text = member.call(name).await;
            let is_allowed = expected.contains(&name);
            assert_eq!(text == "done", is_allowed, "{groups} {name}: {text}");
            assert_eq!(text.contains("POLICY_DENIED"), !is_allowed, "{text}");
        }
    }
    let events = gate.test_server.audit.calls();
    let refused = events.iter().filter(|event| event["ok"] == false);
    for event in refused {
        assert_eq!(event["user"], "alice");
        let role = event["role"].as_str().unwrap();
        let rule = event["rule"].as_str().unwrap();
        assert!(rule.starts_with(&format!("roles.{role}.tools.")), "{event}");
    }
    // The model reads which role refuses, and the server's user how to change it.
    let token = Member::token(&provider, &key, "bob", &json!(["viewers"]));
    let member = Member::connect(&gate, token).await;
    let text = member.call("run").await;
    assert!(text.contains("role `viewer`"), "{text}");
    let refused = gate.test_server.refused.lock();
    let remedies = refused.last().unwrap().remedies.join("; ");
    assert!(remedies.contains("roles.viewer.tools.allow"), "{remedies}");
}

/// Users of one server at the same time: each keeps the tools of the own role, in every generation of the protocol.
#[tokio::test]
async fn role_holds_for_each_request_of_each_generation() {
    let (gate, provider, key) = server(roles()).await;
    let admin = Member::token(&provider, &key, "root", &json!(["admins"]));
    let viewer = Member::token(&provider, &key, "eve", &json!(["viewers"]));
    let modern = async |token: &str, message| gate.post_modern(token, json!({}), message).await;
    for _ in 0..2 {
        let body = modern(&admin, call("run")).await;
        assert!(body.contains("done"), "{body}");
        let body = modern(&viewer, call("run")).await;
        assert!(body.contains("role `viewer`"), "{body}");
        let body = modern(&viewer, list()).await;
        assert!(
            body.contains("read_file") && !body.contains("write_file"),
            "{body}"
        );
    }
    // A session belongs to a user in one role: with other groups, the same user needs another one.
    let member = Member::connect(&gate, admin).await;
    assert_eq!(member.call("run").await, "done");
    let lowered = Member::token(&provider, &key, "root", &json!(["viewers"]));
    let session = member.session.as_deref();
    assert_eq!(gate.post(&lowered, session, call("run")).await.status, 404);
    assert_eq!(gate.post(&viewer, session, call("run")).await.status, 404);
}

/// Changed settings apply to connected clients.
#[tokio::test]
async fn role_follows_the_settings() {
    let (gate, provider, key) = server(json!({"toolDiscovery": "off"})).await;
    let token = Member::token(&provider, &key, "alice", &json!(["viewers"]));
    let member = Member::connect(&gate, token.clone()).await;
    assert_eq!(member.listed().await.len(), 3);
    gate.test_server.replace_under(tools(), roles());
    // The session had no role.
    assert_eq!(
        gate.post(&token, member.session.as_deref(), list())
            .await
            .status,
        404
    );
    let member = Member::connect(&gate, token).await;
    assert_eq!(member.listed().await, ["read_file"]);
    let mut wider = roles();
    wider["roles"]["viewer"]["tools"]["allow"] = json!(["read_file", "run"]);
    gate.test_server.replace_under(tools(), wider);
    assert_eq!(member.listed().await, ["read_file", "run"]);
    assert_eq!(member.call("run").await, "done");
}

#[tokio::test]
async fn role_budget_is_that_of_each_user_over_all_sessions() {
    let settings = json!({"roles": {"default": {"budget": {"callsPerMinute": 2}}}});
    let (gate, provider, key) = server(settings).await;
    let alice = Member::token(&provider, &key, "alice", &json!([]));
    let first = Member::connect(&gate, alice.clone()).await;
    let second = Member::connect(&gate, alice).await;
    assert_eq!(first.call("run").await, "done");
    assert_eq!(second.call("read_file").await, "done");
    let text = first.call("run").await;
    assert!(
        text.contains("LIMIT_EXCEEDED") && text.contains("roles.default.budget"),
        "{text}"
    );
    let bob = Member::token(&provider, &key, "bob", &json!([]));
    assert_eq!(Member::connect(&gate, bob).await.call("run").await, "done");
    let last = gate.test_server.audit.calls().pop().unwrap();
    assert_eq!(
        (&last["user"], &last["role"]),
        (&json!("bob"), &json!("default"))
    );
}

/// A user in two groups has the role that comes first in the file, whatever the order in the token.
#[tokio::test]
async fn role_of_a_user_in_two_groups_is_the_first_of_the_file() {
    let (gate, provider, key) = server(json!({"toolDiscovery": "off"})).await;
    let role = |groups: &str, tool: &str| json!({"groups": [groups], "tools": {"allow": [tool]}});
    for (first, second, expected) in [("one", "two", "read_file"), ("two", "one", "run")] {
        let tool = |group: &str| if group == "one" { "read_file" } else { "run" };
        let mut settings = String::from("{\"toolDiscovery\": \"off\", \"roles\": {");
        settings.push_str(&format!(
            "\"z{first}\": {}, \"a{second}\": {}}}}}",
            role(first, tool(first)),
            role(second, tool(second))
        ));
        let settings = serde_json::from_str(&settings).unwrap();
        gate.test_server.replace_under(tools(), settings);
        for groups in [json!(["one", "two"]), json!(["two", "one"])] {
            let token = Member::token(&provider, &key, "alice", &groups);
            let member = Member::connect(&gate, token).await;
            assert_eq!(member.listed().await, [expected], "{first} first, {groups}");
        }
    }
}

/// Without a role `default`, users without a role are not restricted, as users of a server without roles.
#[tokio::test]
async fn role_is_not_needed_without_a_default() {
    let mut settings = roles();
    settings["roles"].as_object_mut().unwrap().remove("default");
    let (gate, provider, key) = server(settings).await;
    // Names of groups are compared exactly.
    for groups in [
        json!(null),
        json!([]),
        json!(["Viewers"]),
        json!([["viewers"]]),
        json!(""),
    ] {
        let token = Member::token(&provider, &key, "alice", &groups);
        let member = Member::connect(&gate, token).await;
        assert_eq!(member.listed().await.len(), 3, "{groups}");
        assert_eq!(member.call("write_file").await, "done", "{groups}");
    }
}

/// The rules of a role apply to the arguments of its users, and to no others.
#[tokio::test]
async fn role_rules_apply_to_its_users_only() {
    let settings = json!({"toolDiscovery": "off", "roles": {
        "developer": {"groups": ["dev"], "rules": [
            {"tools": ["run"], "when": {"command": {"regex": "^kubectl"}}, "decision": "deny", "reason": "use the pipeline"},
        ]},
        "admin": {"groups": ["admins"]},
    }});
    let (gate, provider, key) = server(settings).await;
    let call = |command: &str| {
        let params = json!({"name": "run", "arguments": {"command": command}});
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})
    };
    for (group, command, is_denied) in [
        ("dev", "kubectl delete", true),
        ("dev", "ls", false),
        ("admins", "kubectl delete", false),
    ] {
        let token = Member::token(&provider, &key, "alice", &json!([group]));
        let reply = Member::connect(&gate, token)
            .await
            .send(call(command))
            .await;
        let text = reply.to_string();
        assert_eq!(text.contains("POLICY_DENIED"), is_denied, "{group}: {text}");
        assert_eq!(
            text.contains("use the pipeline"),
            is_denied,
            "{group}: {text}"
        );
    }
}

/// A user whose groups change keeps nothing of the session before, and the budget is not renewed.
#[tokio::test]
async fn role_change_ends_the_session_and_keeps_the_budget() {
    let settings = json!({"toolDiscovery": "off", "roles": {
        "admin": {"groups": ["admins"], "budget": {"callsPerMinute": 3}},
        "viewer": {"groups": ["viewers"], "tools": {"allow": ["read_file"]}, "budget": {"callsPerMinute": 2}},
    }});
    let (gate, provider, key) = server(settings.clone()).await;
    let admin = Member::token(&provider, &key, "alice", &json!(["admins", "viewers"]));
    let lowered = Member::token(&provider, &key, "alice", &json!(["viewers"]));
    let before = Member::connect(&gate, admin).await;
    assert_eq!(before.call("write_file").await, "done");
    let session = before.session.as_deref();
    for message in [list(), call("write_file"), call("read_file")] {
        assert_eq!(gate.post(&lowered, session, message).await.status, 404);
    }
    let after = Member::connect(&gate, lowered.clone()).await;
    assert_eq!(after.listed().await, ["read_file"]);
    assert!(after.call("write_file").await.contains("role `viewer`"));
    // One call as an admin, and one now; neither a new session nor new settings give more.
    assert_eq!(after.call("read_file").await, "done");
    assert!(after.call("read_file").await.contains("LIMIT_EXCEEDED"));
    gate.test_server.replace_under(tools(), settings);
    let again = Member::connect(&gate, lowered).await;
    assert!(again.call("read_file").await.contains("LIMIT_EXCEEDED"));
}
