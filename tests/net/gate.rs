//! The policy check of effects: a request is checked when it is sent, and the prompt shows the actual request.

use std::time::Duration;

use mimir_core::Decision;
use mimir_core::audit::EventKind;
use mimir_core::tool::ToolTrust;
use mimir_testkit::{Approve, ToolErrorCode, json};

use super::site::Site;
use super::{change, fetch, grant, granted};

#[test]
fn http_method_condition_asks_at_the_real_request() {
    let site = Site::says("ok");
    let settings = json!({"tools": {"fetch": {"approval": {"conditions": {"methodRequiresApproval": ["post"]}}}}});
    let url = site.url("/path?q=1");
    let steps = json!([{"url": url}, {"url": url, "method": "POST"}]);
    let kit = granted(settings.clone()).approve(Approve::Always);
    let results = fetch(&kit, steps.clone());
    assert_eq!(results[1]["status"], 200);
    let cards = kit.cards();
    assert_eq!(cards.len(), 1);
    assert_eq!(cards[0].tool, "fetch");
    assert_eq!(cards[0].summary, format!("send POST {url}"));
    assert!(cards[0].arguments.contains(&url) && cards[0].arguments.contains("POST"));
    assert_eq!(cards[0].caller.as_deref(), Some("fetch"));
    let effects: Vec<_> = kit
        .events()
        .into_iter()
        .filter(|event| event.event == EventKind::Effect)
        .collect();
    assert_eq!(effects.len(), 2);
    assert_eq!(effects[0].decision, Some(Decision::Allow));
    assert_eq!(
        (effects[1].decision, effects[1].answer),
        (Some(Decision::Ask), Some("once"))
    );
    assert_eq!(
        effects[1].subject,
        Some(format!("POST http://{}", site.address))
    );
    assert!(!format!("{effects:?}").contains("q=1"), "no content");

    let kit = granted(settings);
    let results = fetch(&kit, steps);
    assert_eq!(results[0]["status"], 200);
    assert_eq!(results[1]["error"], "HttpRequestDenied");
    assert_eq!(site.received().len(), 3);
}

#[test]
fn http_denial_without_a_person_names_the_setting() {
    let settings = json!({"tools": {"fetch": {"approval": {"conditions": {"methodRequiresApproval": ["GET"]}}}}});
    let site = Site::says("ok");
    let kit = granted(settings);
    let outcome = kit.call(
        "fetch",
        json!({"strict": true, "steps": [{"url": site.url("/")}]}),
    );
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{error}");
    assert!(
        error
            .remedies
            .iter()
            .any(|way| way.contains("methodRequiresApproval")),
        "{:?}",
        error.remedies
    );
    assert!(site.received().is_empty());
}

#[test]
fn http_unknown_host_condition_asks_for_approval() {
    let site = Site::says("ok");
    let url = format!("http://other.example:{}/", site.address.port());
    let settings = json!({
        "network": {"hosts": {"other.example": "127.0.0.1"}},
        "tools": {"fetch": {"approval": {"conditions": {"unknownHostRequiresApproval": true}}}},
    });
    let kit = granted(settings.clone()).approve(Approve::Always);
    let results = fetch(&kit, json!([{ "url": url }]));
    assert_eq!(results[0]["status"], 200, "{results:?}");
    assert_eq!(kit.cards().len(), 1);
    let kit = granted(settings).approve(Approve::Never);
    assert_eq!(
        fetch(&kit, json!([{ "url": url }]))[0]["error"],
        "HttpRequestDenied"
    );
    // A person's approval is for the host, and does not allow its internal addresses.
    let open = json!({"tools": {"fetch": {"approval": {"conditions": {"unknownHostRequiresApproval": true}}}}});
    let kit = granted(open).approve(Approve::Always);
    assert_eq!(
        fetch(&kit, json!([{"url": "http://127.0.0.2/"}]))[0]["error"],
        "HttpRequestDenied"
    );
}

#[test]
fn http_url_rules_apply_to_the_real_request() {
    let site = Site::says("ok");
    let deny = json!({"when": {"url": {"regex": "/admin"}}, "decision": "deny", "reason": "not the admin pages"});
    let other = json!({"when": {"path": {"not": {"glob": "a"}}}, "decision": "deny"});
    let kit = granted(json!({"tools": {"fetch": {"rules": [deny]}}}));
    let results = fetch(
        &kit,
        json!([{"url": site.url("/admin/x")}, {"url": site.url("/")}]),
    );
    assert_eq!(results[0]["error"], "HttpRequestDenied");
    assert_eq!(results[1]["status"], 200);
    // A rule about other arguments applies before the call, and not again.
    let kit = granted(json!({"tools": {"fetch_nothing": {"rules": [other]}}}));
    assert_eq!(
        fetch(&kit, json!([{"url": site.url("/")}]))[0]["status"],
        200
    );
}

#[test]
fn http_granted_host_off_the_allowlist_asks_for_approval() {
    let site = Site::says("ok");
    let settings = json!({"network": {"allowedHosts": ["api.example"], "hosts": {"site.example": "127.0.0.1"}}});
    let url = format!("http://site.example:{}/", site.address.port());
    let kit = granted(settings.clone()).approve(Approve::Always);
    assert_eq!(fetch(&kit, json!([{ "url": url }]))[0]["status"], 200);
    assert_eq!(kit.cards().len(), 1);
    let kit = granted(settings);
    assert_eq!(
        fetch(&kit, json!([{ "url": url }]))[0]["error"],
        "HttpRequestDenied"
    );
}

#[test]
fn http_time_limits_exclude_waiting_for_a_person() {
    let site = Site::says("ok");
    let settings = json!({
        "limits": {"timeMs": 2000, "httpTimeMs": 1000},
        "tools": {"fetch": {"approval": {"conditions": {"methodRequiresApproval": ["GET"]}}}},
    });
    let slow = Approve::by(|_| {
        std::thread::sleep(Duration::from_millis(2500));
        true
    });
    let kit = granted(settings).approve(slow);
    let results = fetch(&kit, json!([{"url": site.url("/")}]));
    assert_eq!(results[0]["status"], 200);
}

#[test]
fn http_approval_of_ungranted_call_covers_only_its_needs() {
    let site = Site::says("ok");
    let kit = granted(json!({})).approve(Approve::Always);
    change(&kit, |tool| {
        grant(tool);
        tool.trust = ToolTrust::Untrusted;
        tool.granted = Default::default();
    });
    let results = fetch(
        &kit,
        json!([{"url": site.url("/")}, {"url": "http://other.example/"}]),
    );
    assert_eq!(results[0]["status"], 200);
    assert_eq!(results[1]["error"], "HttpRequestDenied");
    assert_eq!(kit.cards().len(), 1, "the call, with its needs");
}
