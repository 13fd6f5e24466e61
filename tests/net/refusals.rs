//! Denied requests: nothing is sent, the guest gets a code, and the outcome has the reason.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::audit::EventKind;
use mimir_core::backend::BoxFuture;
use mimir_kit::builtins;
use mimir_net::Resolver;
use mimir_testkit::{Approve, Testkit, ToolErrorCode, Value, json};
use mimir_wasm::HostOptions;
use parking_lot::Mutex;

use super::site::{Site, reply};
use super::{fetch, granted};

/// The error of a call with this one step, which must be refused.
fn refused(kit: &Testkit, tool: &str, step: Value) -> ToolError {
    let outcome = kit.call(tool, json!({"strict": true, "steps": [step]}));
    outcome.result().unwrap_err().clone()
}

#[test]
fn http_without_a_grant_sends_nothing() {
    let site = Site::says("ok");
    let kit = granted(json!({}));
    let error = refused(&kit, "fetch_nothing", json!({"url": site.url("/")}));
    assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
    assert!(
        error.message.contains("was not granted `127.0.0.1`"),
        "{error}"
    );
    assert!(error.message.contains("HttpRequestDenied"), "{error}");
    assert!(
        error.remedies[0].contains("among its needs"),
        "{:?}",
        error.remedies
    );
    assert!(site.received().is_empty());
}

#[test]
fn http_host_or_method_beyond_the_needs_is_refused() {
    let site = Site::says("ok");
    let kit = granted(json!({"network": {"mode": "any"}}));
    let error = refused(&kit, "fetch", json!({"url": "http://other.example/"}));
    assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
    assert!(
        error.message.contains("was not granted `other.example`"),
        "{error}"
    );
    let error = refused(
        &kit,
        "fetch",
        json!({"url": site.url("/"), "method": "DELETE"}),
    );
    assert!(error.message.contains("not granted DELETE"), "{error}");
    assert!(site.received().is_empty());
    let effects: Vec<_> = kit
        .events()
        .into_iter()
        .filter(|event| event.event == EventKind::Effect)
        .collect();
    assert_eq!(effects.len(), 2);
    assert!(
        effects
            .iter()
            .all(|event| !event.ok && event.code == Some(ToolErrorCode::PolicyDenied))
    );
    assert_eq!(
        effects[0].subject.as_deref(),
        Some("GET http://other.example")
    );
}

#[test]
fn http_grant_does_not_override_network_settings() {
    let site = Site::says("ok");
    let port = site.address.port();
    for (settings, part) in [
        (json!({"mode": "none"}), "network.mode: none"),
        (json!({"blockedPorts": [port]}), "network.blockedPorts"),
    ] {
        let kit = granted(json!({ "network": settings }));
        let error = refused(&kit, "fetch", json!({"url": site.url("/")}));
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
        assert!(error.message.contains(part), "{error}");
        let last = kit
            .events()
            .into_iter()
            .find(|event| event.event == EventKind::Effect);
        assert_eq!(
            last.and_then(|event| event.code),
            Some(ToolErrorCode::PolicyDenied)
        );
    }
    assert!(site.received().is_empty());
}

#[test]
fn http_pinned_name_reaches_a_private_address() {
    let site = Site::says("ok");
    let port = site.address.port();
    let url = format!("http://inside.example:{port}/");
    let fixed = json!({"network": {"hosts": {"inside.example": "127.0.0.1"}}});
    let results = fetch(&granted(fixed), json!([{ "url": url }]));
    assert_eq!(results[0]["status"], 200, "{results:?}");
    assert_eq!(
        site.received()[0].header("host"),
        Some(format!("inside.example:{port}").as_str())
    );
}

/// A resolver that returns the test's answers in turn, for every name; the last one is repeated.
struct Names(Mutex<Vec<&'static str>>);

impl Resolver for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock();
        let answer = match answers.len() {
            1 => answers[0],
            _ => answers.remove(0),
        };
        let all = answer.split(' ').map(|address| address.parse().unwrap());
        Box::pin(std::future::ready(Ok(all.collect())))
    }
}

#[test]
fn http_name_resolving_to_a_private_address_is_refused() {
    let site = Site::says("secret");
    let port = site.address.port();
    for answers in [
        vec!["127.0.0.1"],
        vec!["10.0.0.7"],
        vec!["169.254.169.254"],
        vec!["::ffff:127.0.0.1"],
        vec!["64:ff9b::7f00:1"],
        // Every address of a name is checked, also in a later answer.
        vec!["93.184.215.14 127.0.0.1"],
        vec!["127.0.0.1", "93.184.215.14"],
    ] {
        let shown = format!("{answers:?}");
        let folder = tempfile::tempdir().unwrap();
        let kit = Testkit::at(folder, builtins(), |options| HostOptions {
            resolver: Some(Arc::new(Names(Mutex::new(answers)))),
            ..options
        });
        let settings = json!({"network": {"mode": "any"}});
        let kit = kit.unwrap().approve(Approve::Always);
        let kit = kit.settings(settings).unwrap();
        let url = format!("http://rebind.example:{port}/");
        let outcome = kit.call("web_fetch", json!({ "url": url }));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{shown}: {error}");
        let details = error.details.as_ref().unwrap();
        assert_eq!(details["kind"], "blocked-address", "{shown}: {error}");
    }
    assert!(site.received().is_empty());
}

#[test]
fn http_address_that_was_not_named_is_refused() {
    let kit = granted(json!({}));
    for url in [
        "http://127.0.0.2/",
        "http://localhost/",
        "http://169.254.169.254/",
        "http://[::1]/",
        "http://10.0.0.1/",
    ] {
        let error = refused(&kit, "fetch", json!({ "url": url }));
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{url}: {error}");
        assert!(
            error.message.contains("HttpRequestDenied"),
            "{url}: {error}"
        );
    }
}

#[test]
fn http_redirect_is_returned_and_its_target_checked() {
    let inside = Site::says("secret");
    let target = format!("http://127.0.0.2:{}/", inside.address.port());
    let location = format!("location: {target}\r\n");
    let site = Site::new(move |_, stream| reply(stream, "302 Found", &location, ""));
    let results = fetch(
        &granted(json!({})),
        json!([{"url": site.url("/")}, {"url": target}]),
    );
    assert_eq!(results[0]["status"], 302);
    assert_eq!(results[1]["error"], "HttpRequestDenied");
    assert!(inside.received().is_empty());
}

#[test]
fn http_host_header_cannot_be_set_by_the_guest() {
    let site = Site::says("ok");
    let kit = granted(json!({}));
    let steps = json!([
        {"url": site.url("/"), "headers": {"Host": "other.example"}},
        {"url": site.url("/"), "headers": {"x-rewrite-url": "/admin"}},
        {"url": site.url("/"), "headers": {"x-a": "1\r\nhost: other.example"}},
        {"url": "http://user@127.0.0.1/"},
        {"url": "ftp://127.0.0.1/"},
        {"url": site.url("/"), "method": "TRACE"},
    ]);
    let results = fetch(&kit, steps);
    let errors: Vec<_> = results
        .iter()
        .map(|result| result["error"].as_str().unwrap_or("none"))
        .collect();
    assert!(errors[0].contains("Forbidden"), "{errors:?}");
    assert_eq!(errors[1], "HttpRequestHeaderSize");
    assert!(errors[2].contains("InvalidSyntax"), "{errors:?}");
    assert_eq!(
        &errors[3..],
        [
            "HttpRequestUriInvalid",
            "HttpProtocolError",
            "HttpRequestMethodInvalid"
        ]
    );
    assert!(site.received().is_empty());
}

#[test]
fn http_connection_refused_is_a_network_error() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = refused(
        &granted(json!({})),
        "fetch",
        json!({"url": format!("http://{closed}/")}),
    );
    assert_eq!(error.code, ToolErrorCode::Network);
    assert!(
        error.message.contains("ConnectionRefused")
            && error.message.contains("refused the connection"),
        "{error}"
    );
}
