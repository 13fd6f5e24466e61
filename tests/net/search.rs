//! `web_search`: approval, requests, and results.

use std::sync::Arc;

use mimir_core::outcome::TrustLevel;
use mimir_kit::builtins;
use mimir_testkit::{Approve, Testkit, ToolErrorCode, Value, json};

use super::site::{ReceivedRequest, Site, reply};

/// A kit with the bundled tools, without a person.
fn kit(mut settings: Value) -> Testkit {
    // Each response is untrusted content, which these tests are not about.
    settings["tools"] = json!({"web_search": {"labels": {"acceptsUntrusted": true}}});
    let kit = Testkit::with_bundled(builtins()).unwrap();
    kit.approve(Approve::Nobody).settings(settings).unwrap()
}

/// A server that responds to every search with this value.
fn answers(answer: Value) -> Site {
    Site::new(move |_, stream| {
        let headers = "content-type: application/json\r\n";
        reply(stream, "200 OK", headers, &answer.to_string());
    })
}

fn search(kit: &Testkit, query: &str, count: usize) -> Value {
    let outcome = kit.call("web_search", json!({"query": query, "numResults": count}));
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    output.structured.as_ref().unwrap()["results"].clone()
}

#[test]
fn web_search_without_a_provider_names_the_setting() {
    let outcome = kit(json!({})).call("web_search", json!({"query": "x"}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("`webSearch.provider`"), "{error}");
}

#[test]
fn web_search_with_searxng_returns_hits() {
    let found = json!({"title": "<b>One</b> &amp; two", "url": "https://one.example/a b", "content": "Some\n words"});
    let odd = json!({"title": "x", "url": "javascript:alert(1)", "content": ""});
    let site = answers(json!({"results": [found, odd, found, found]}));
    let kit = kit(json!({"webSearch": {"provider": "searxng", "url": site.url("")}}));
    let hit =
        json!({"title": "One & two", "url": "https://one.example/a%20b", "snippet": "Some words"});
    assert_eq!(search(&kit, "a&b=c ü", 2), json!([hit, hit]));
    let received = &site.received()[0];
    assert_eq!(received.path(), "/search?q=a%26b%3Dc+%C3%BC&format=json");
    assert_eq!(received.header("authorization"), None);

    let outcome = kit.call("web_search", json!({"query": "x", "numResults": 1}));
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
    assert_eq!(
        outcome.text(),
        "1. One & two\n   https://one.example/a%20b\n   Some words\n"
    );
    assert!(kit.cards().is_empty(), "a person has named it");
}

#[test]
fn web_search_key_is_sent_only_in_the_header() {
    const VALUE: &str = "value-0123456789abcdef";
    let echoes = Site::new(|received: &ReceivedRequest, stream| {
        let output = received.header("x-key").unwrap_or_default();
        let hit = json!({"title": "t", "url": "https://a.example/", "snippet": output});
        reply(stream, "200 OK", "", &json!({"results": [hit]}).to_string());
    });
    let block = json!({"provider": "template", "url": echoes.url("/?q={query}"), "key": "SEARCH_KEY",
        "header": "X-Key: Token {key}", "results": "results"});
    let kit = kit(json!({ "webSearch": block }));
    let outcome = kit.call("web_search", json!({"query": "x"}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.message.contains("`SEARCH_KEY` is not set"), "{error}");
    assert!(echoes.received().is_empty());

    let kit = kit.secret("SEARCH_KEY", VALUE);
    let outcome = kit.call("web_search", json!({"query": "x"}));
    let received = &echoes.received()[0];
    assert_eq!(received.header("x-key"), Some(&*format!("Token {VALUE}")));
    assert!(!outcome.text().contains(VALUE), "{}", outcome.text());
    assert!(outcome.text().contains("REDACTED"), "{}", outcome.text());
}

#[test]
fn web_search_template_sends_a_custom_request() {
    let site = answers(
        json!({"data": {"items": [{"name": "T", "link": {"href": "https://a.example/"}, "text": "S"}]}}),
    );
    let block = json!({
        "provider": "template", "url": site.url("/find/{count}?q={query}"),
        "body": "{\"q\": \"about {query}\", \"n\": \"{count}\", \"deep\": [\"{query}\"]}",
        "results": "data.items",
        "fields": {"title": "name", "url": "link.href", "snippet": "text"},
    });
    let kit = kit(json!({ "webSearch": block }));
    let results = search(&kit, "a\" {count}", 3);
    assert_eq!(
        results,
        json!([{"title": "T", "url": "https://a.example/", "snippet": "S"}])
    );
    let received = &site.received()[0];
    assert!(
        received
            .head
            .starts_with("POST /find/3?q=a%22+%7Bcount%7D ")
    );
    let body: Value = serde_json::from_str(&received.body).unwrap();
    assert_eq!(
        body,
        json!({"q": "about a\" {count}", "n": 3, "deep": ["a\" {count}"]})
    );
}

#[test]
fn web_search_providers_use_their_own_host() {
    // Providers on the internet are not contacted here; the plugin's tests check the requests.
    for (provider, host) in [
        ("brave", "https://api.search.brave.com"),
        ("tavily", "https://api.tavily.com"),
    ] {
        let block = json!({"provider": provider, "key": "SEARCH_KEY"});
        // The network is switched off, so the error shows the host.
        let settings = json!({"webSearch": block, "network": {"mode": "none"}});
        let kit = kit(settings).secret("SEARCH_KEY", "value-0123456789abcdef");
        let outcome = kit.call("web_search", json!({"query": "x"}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
        assert!(error.message.contains(host), "{error}");
        let tools = kit.tools();
        let tool = tools
            .iter()
            .find(|tool| tool.name().as_str() == "web_search");
        let needs = &tool.unwrap().granted;
        assert_eq!((needs.hosts.len(), &*needs.hosts[0].host), (1, host));
        assert_eq!((needs.secrets.len(), &*needs.secrets[0].host), (1, host));
    }
}

#[test]
fn web_search_provider_errors_have_matching_codes() {
    for (status, body, code, part) in [
        (
            "401 Unauthorized",
            "who?",
            ToolErrorCode::Unavailable,
            "check the secret",
        ),
        (
            "429 Too Many Requests",
            "{}",
            ToolErrorCode::LimitExceeded,
            "rate limit",
        ),
        ("500 Oops", "<h1>", ToolErrorCode::Network, "answered 500"),
        (
            "200 OK",
            "<html>",
            ToolErrorCode::Network,
            "did not return JSON",
        ),
    ] {
        let site = Site::new(move |_, stream| reply(stream, status, "", body));
        let kit = kit(json!({"webSearch": {"provider": "searxng", "url": site.url("/s")}}));
        let outcome = kit.call("web_search", json!({"query": "x"}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(part), "{error}");
    }
    let empty = answers(json!({"results": []}));
    let kit = kit(json!({"webSearch": {"provider": "searxng", "url": empty.url("/s")}}));
    let outcome = kit.call("web_search", json!({"query": "x"}));
    assert_eq!(outcome.text(), "nothing was found");
    let outcome = kit.call("web_search", json!({"query": " "}));
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::InvalidInput
    );
}

#[test]
fn web_search_reaches_only_the_provider() {
    let other = Arc::new(Site::says("{\"results\": []}"));
    let to = other.url("/");
    let site = Site::new(move |_, stream| {
        reply(stream, "302 Found", &format!("location: {to}\r\n"), "");
    });
    let block = json!({"provider": "searxng", "url": site.url("/s")});
    // A list of allowed hosts does not exclude the provider, and does not include the host of another one.
    let settings = json!({"webSearch": block, "network": {"allowedHosts": ["api.example", other.address.to_string()]}});
    let outcome = kit(settings).call("web_search", json!({"query": "x"}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
    assert_eq!((site.received().len(), other.received().len()), (1, 0));
}
