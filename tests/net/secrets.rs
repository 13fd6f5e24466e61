//! Secrets at the boundary: a placeholder becomes the value in one header for one host, and nowhere else.

use mimir_core::audit::Kind;
use mimir_testkit::{Code, Testkit, Value, json};

use super::site::{Site, reply};
use super::{change, fetch, granted};

const VALUE: &str = "Xq7-tR2mVb9-LpW4";

fn kit(settings: Value) -> Testkit {
    let kit = granted(settings).secret("SITE_KEY", VALUE);
    kit.secret("OTHER_KEY", "Zk3-uJ8nYc5-HdE1")
}

/// All that anybody gets to see of the calls of a kit.
fn seen(kit: &Testkit) -> String {
    let log: Vec<_> = kit.log().into_iter().map(|line| line.text).collect();
    format!("{:?} {:?} {:?}", kit.events(), kit.cards(), log)
}

#[test]
fn the_value_goes_into_the_declared_header_for_the_declared_host() {
    let site = Site::says("ok");
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/"), "headers": {"Authorization": "Bearer $SITE_KEY"}});
    assert_eq!(fetch(&kit, json!([step]))[0]["status"], 200);
    let sent = format!("Bearer {VALUE}");
    assert_eq!(site.got()[0].header("authorization"), Some(sent.as_str()));
    let events = kit.events();
    let mut effects = events.iter().filter(|event| event.event == Kind::Effect);
    let named = format!("secret SITE_KEY for http://{}", site.address);
    assert!(effects.any(|event| event.subject.as_ref() == Some(&named) && event.ok));
    assert!(!seen(&kit).contains(VALUE));
}

#[test]
fn anywhere_else_it_is_a_useless_string() {
    let site = Site::says("ok");
    let other = format!("http://inside.example:{}/", site.address.port());
    let kit = kit(json!({"network": {"hosts": {"inside.example": "127.0.0.1"}}}));
    let steps = json!([
        {"url": site.url("/?key=$SITE_KEY")},
        {"url": site.url("/"), "headers": {"x-key": "$SITE_KEY"}},
        {"url": site.url("/"), "headers": {"authorization": "$OTHER_KEY"}},
        {"url": other, "headers": {"authorization": "$SITE_KEY"}},
    ]);
    let results = fetch(&kit, steps);
    assert!(
        results.iter().all(|result| result["status"] == 200),
        "{results:?}"
    );
    let got = site.got();
    let all = format!("{got:?}");
    assert!(
        !all.contains(VALUE) && !all.contains("Zk3-uJ8nYc5-HdE1"),
        "{all}"
    );
    assert_eq!(all.matches("mimir-secret-").count(), 4, "{all}");
}

#[test]
fn each_call_has_placeholders_of_its_own() {
    let site = Site::says("ok");
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/$SITE_KEY")});
    fetch(&kit, json!([step]));
    fetch(&kit, json!([step]));
    let got = site.got();
    assert_ne!(got[0].path(), got[1].path());
    assert_eq!(got[0].path().len(), "/mimir-secret-".len() + 32);
}

#[test]
fn what_a_server_sends_back_is_masked() {
    let site = Site::new(|got, stream| {
        let key = got.header("authorization").unwrap_or_default().to_owned();
        reply(stream, "200 OK", &format!("x-echo: {key}\r\n"), &key);
    });
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/"), "headers": {"authorization": "$SITE_KEY"}});
    let outcome = kit.call("fetch", json!({"steps": [step]}));
    let shown = serde_json::to_string(&outcome).unwrap();
    assert!(!shown.contains(VALUE), "{shown}");
    assert!(shown.contains("[REDACTED:secret:SITE_KEY]"), "{shown}");
    assert_eq!(site.got()[0].header("authorization"), Some(VALUE));
}

#[test]
fn a_secret_that_is_not_there_or_was_not_granted_is_not_sent() {
    let site = Site::says("ok");
    let step = json!({"url": site.url("/"), "headers": {"authorization": "$SITE_KEY"}});
    let unset = granted(json!({}));
    let outcome = unset.call("fetch", json!({"strict": true, "steps": [step]}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, Code::Unavailable, "{error}");
    assert!(error.way_out[0].contains("mimir secrets set SITE_KEY"));
    assert!(site.got().is_empty());

    let withheld = kit(json!({}));
    change(&withheld, |tool| tool.granted.secrets.clear());
    fetch(&withheld, json!([step]));
    assert_eq!(
        site.got()[0].header("authorization"),
        Some("$SITE_KEY"),
        "it has not even a placeholder"
    );
}

#[test]
fn nothing_secret_goes_in_the_clear() {
    let site = Site::says("ok");
    let url = format!("http://site.example:{}/", site.address.port());
    let kit = kit(json!({"network": {"hosts": {"site.example": "127.0.0.1"}}}));
    let step = json!({"url": url, "headers": {"x-key": "$OTHER_KEY"}});
    let outcome = kit.call("fetch", json!({"strict": true, "steps": [step]}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, Code::PolicyDenied, "{error}");
    assert!(error.message.contains("in the clear"), "{error}");
    assert!(site.got().is_empty());
}
