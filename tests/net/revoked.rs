//! A grant that is revoked in the middle of a call: later requests are refused, and running ones end.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::tool::ToolTrust;
use mimir_core::{Pipeline, Registry};
use mimir_testkit::{ToolErrorCode, json};
use parking_lot::Mutex;

use super::granted;
use super::site::{Site, reply};

/// Revokes every grant, as a new listing after `mimir tools trust --revoke` does.
fn revoke(pipeline: &Pipeline) {
    let world = pipeline.snapshot();
    let tools = world.registry.tools().iter().map(|tool| {
        let mut tool = (**tool).clone();
        tool.trust = ToolTrust::Untrusted;
        tool.granted = Default::default();
        tool
    });
    pipeline.replace(PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: world.policy.clone(),
    });
}

/// A pipeline that the site can use once it is created.
type Later = Arc<Mutex<Option<Pipeline>>>;

fn now(later: &Later) {
    if let Some(pipeline) = &*later.lock() {
        revoke(pipeline);
    }
}

#[test]
fn revoked_grant_refuses_the_next_request() {
    let later = Later::default();
    let inner = Arc::clone(&later);
    let site = Site::new(move |_, stream| {
        now(&inner);
        reply(stream, "200 OK", "", "");
    });
    let kit = granted(json!({}));
    *later.lock() = Some(kit.pipeline().clone());
    let steps = json!([{"url": site.url("/1")}, {"url": site.url("/2")}]);
    let strict = kit.call("fetch", json!({"strict": true, "steps": steps}));
    let error = strict.result().unwrap_err();
    assert!(error.message.contains("was revoked"), "{error}");
    assert!(
        error.remedies[0].contains("mimir tools trust fetch"),
        "{:?}",
        error.remedies
    );
    assert_eq!(site.received().len(), 1);
}

#[test]
fn revoked_grant_cuts_off_a_running_response() {
    let later = Later::default();
    let inner = Arc::clone(&later);
    let site = Site::new(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nabcd");
        std::thread::sleep(Duration::from_millis(1500));
        now(&inner);
        let _ = stream.write_all(b"efgh");
    });
    let kit = granted(json!({}));
    *later.lock() = Some(kit.pipeline().clone());
    let steps = json!([{"url": site.url("/")}]);
    let outcome = kit.call("fetch", json!({"strict": true, "steps": steps}));
    let error = outcome.result().unwrap_err();
    // The call is stopped, unless the tool has noticed first that its response was cut off.
    let is_stopped = error.code == ToolErrorCode::PermissionDenied
        && error
            .message
            .contains("its grant was revoked during the call");
    let is_cut_off = error.code == ToolErrorCode::PolicyDenied
        && error.message.contains("HttpRequestDenied")
        && error.message.contains("was cut off");
    assert!(is_stopped || is_cut_off, "{error}");
}
