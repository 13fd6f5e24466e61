//! Guests that try to learn the trace context of their call, or to send it to hosts that the settings do not name.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::call::{Call, CallContext, CallObserver, CallProgress, LogLine, RequestId};
use mimir_core::tool::ToolTrust;
use mimir_core::trace_context::TraceContext;
use mimir_kit::change;
use mimir_testkit::{Approve, Outcome, Testkit, Value, json};

use crate::guests;
use crate::net::site::{ReceivedRequest, Site, reply};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

/// A client that sends a trace context.
struct TracedClient(TraceContext);

impl CallObserver for TracedClient {
    fn progress(&self, _: CallProgress) {}

    fn log(&self, _: LogLine) {}

    fn trace_context(&self) -> Option<&TraceContext> {
        Some(&self.0)
    }
}

fn call_traced(kit: &Testkit, tool: &str, arguments: Value) -> Outcome {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: "traced".to_owned(),
        conversation_id: None,
        user: None,
    };
    let mut call = Call::new(tool, arguments, context);
    let sent = format!("00-{TRACE_ID}-b7ad6b7169203331-01");
    let context = TraceContext::parse(&sent, Some("vendor=secret-state")).unwrap();
    call.observer = Arc::new(TracedClient(context));
    kit.block_on(kit.pipeline().call(call))
}

fn carries_trace(request: &ReceivedRequest) -> bool {
    request.head.contains(TRACE_ID) || request.head.contains("secret-state")
}

#[test]
fn trace_context_reaches_named_hosts_only_whatever_the_guest_sends() {
    let other = Site::says("other");
    let target = other.url("/from-redirect");
    let named = Site::new(move |request, stream| {
        if request.path() == "/redirect" {
            reply(
                stream,
                "302 Found",
                &format!("location: {target}\r\n"),
                "moved",
            );
        } else {
            reply(stream, "200 OK", "", "named");
        }
    });
    let kit = Testkit::new(guests::FETCH.path).unwrap();
    let settings = json!({
        "telemetry": {
            "endpoint": "http://127.0.0.1:4318",
            "propagateTo": [named.address.to_string()],
        },
        "tools": {"fetch": {"labels": {"acceptsUntrusted": true}}},
    });
    let kit = kit.approve(Approve::Always).settings(settings).unwrap();
    change(&kit, |tool| {
        tool.trust = ToolTrust::Trusted;
        tool.granted = tool.definition.needs.clone();
    });
    let (port, own) = (
        named.address.port(),
        "00-ffffffffffffffffffffffffffffffff-1111111111111111-01",
    );
    let steps = json!([
        {"url": named.url("/direct")},
        {"url": named.url("/redirect")},
        {"url": other.url("/direct")},
        {"url": other.url(&format!("/?http://127.0.0.1:{port}/"))},
        {"url": other.url("/forged"), "headers": {"x-forwarded-host": format!("127.0.0.1:{port}")}},
        {"url": other.url("/host"), "headers": {"host": format!("127.0.0.1:{port}")}},
        {"url": other.url("/own"), "headers": {"traceparent": own}},
        {"url": named.url("/own"), "headers": {"traceparent": own}},
        {"url": format!("http://127.0.0.1:{port}@{}/user", other.address)},
    ]);
    let outcome = call_traced(&kit, "fetch", json!({ "steps": steps }));
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    let results = output.structured.as_ref().unwrap().to_string();
    for secret in [TRACE_ID, "secret-state"] {
        assert!(!results.contains(secret), "{results}");
    }
    let received = named.received();
    let carrying = received.iter().filter(|request| carries_trace(request));
    let carrying: Vec<&str> = carrying.map(ReceivedRequest::path).collect();
    assert_eq!(carrying, ["/direct", "/redirect"], "{received:?}");
    let received = other.received();
    assert!(received.len() >= 4, "{received:?}");
    assert!(
        received.iter().all(|request| !carries_trace(request)),
        "{received:?}"
    );
    // A header of the guest's own is sent as it is: it does not contain the trace of the call.
    let own_headers = received
        .iter()
        .filter_map(|request| request.header("traceparent"));
    assert_eq!(own_headers.collect::<Vec<_>>(), [own]);
}

#[test]
fn trace_context_is_not_in_the_environment_of_a_guest() {
    let kit = Testkit::new(guests::ENVIRONMENT.path).unwrap();
    let settings = json!({"telemetry": {
        "endpoint": "http://127.0.0.1:4318",
        "propagateTo": ["127.0.0.1"],
    }});
    let kit = kit.approve(Approve::Always).settings(settings).unwrap();
    let name = kit.tools()[0].name().to_string();
    let outcome = call_traced(&kit, &name, json!({}));
    assert!(outcome.is_ok(), "{}", outcome.text());
    let text = outcome.text().to_ascii_lowercase();
    for secret in [TRACE_ID, "secret-state", "traceparent"] {
        assert!(!text.contains(secret), "{text}");
    }
}
