//! Reuse of the results of servers' tools (`tools.NAME.cache`).

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::{Call, CallContext, RequestId};
use serde_json::json;

use super::{CallReaction, Script, Upstream, text, tool};

#[tokio::test]
async fn cached_results_of_servers_end_with_their_writes() {
    let script = |name: &str| {
        let script = Script::new(CallReaction::Answers(text("data")));
        let mut read = tool(name);
        read["annotations"] = json!({"readOnlyHint": true});
        *script.tools.lock() = vec![read, tool("write")];
        script
    };
    let (a, b) = (script("read"), script("look"));
    let servers = json!({"a": {"command": "a"}, "b": {"command": "b"}});
    let upstream = Upstream::on(Arc::default(), servers, &[("a", &a), ("b", &b)]);
    let labels = json!({"outputTrust": "verified", "acceptsUntrusted": true});
    let settings = json!({"tools": {
        "mcp_a_read": {"labels": labels, "cache": {"ttlMs": 600_000}},
        "mcp_b_look": {"labels": labels}, "mcp_b_write": {"labels": labels},
    }});
    let tools = upstream.tools().await;
    upstream.test_server.replace_under(tools, settings);
    let is_cached = async |name: &str| {
        let request_id = RequestId::new(SystemTime::now());
        let context = CallContext {
            request_id,
            session_id: "one".to_owned(),
            conversation_id: None,
            user: None,
        };
        let call = Call::new(name, json!({}), context);
        let outcome = upstream.test_server.pipeline.call(call).await;
        assert!(outcome.is_ok(), "{}", outcome.text());
        outcome.receipt().cached
    };
    assert!(!is_cached("mcp_a_read").await);
    assert!(is_cached("mcp_a_read").await);
    // A call that only reads removes nothing.
    assert!(!is_cached("mcp_b_look").await);
    assert!(is_cached("mcp_a_read").await);
    // One server may have changed what another one reads.
    assert!(!is_cached("mcp_b_write").await);
    assert!(!is_cached("mcp_a_read").await);
    assert!(is_cached("mcp_a_read").await);
    assert_eq!(a.received("tools/call").len(), 2);
}
