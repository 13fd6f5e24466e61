//! Approval and refusal of fetches.

use mimir_testkit::{Approve, Testkit, ToolErrorCode, Value, json};

use super::{Site, fetched, kit, named, reply};

fn refused(kit: &Testkit, arguments: Value) -> mimir_core::ToolError {
    let outcome = kit.call("web_fetch", arguments);
    outcome.result().unwrap_err().clone()
}

#[test]
fn web_fetch_asks_once_about_an_unlisted_host() {
    let site = Site::says("ok");
    let url = named(&site, "other", "/");
    let kit = kit(json!({})).approve(Approve::Always);
    let outcome = kit.call("web_fetch", json!({ "url": url }));
    assert_eq!(fetched(&outcome)["body"], "ok");
    let cards = kit.cards();
    assert_eq!(
        cards.len(),
        1,
        "the request is the one that was asked about"
    );
    assert_eq!(cards[0].summary, format!("GET {url}"));
    assert!(
        cards[0]
            .reasons
            .iter()
            .any(|reason| reason.text.contains("is not among the allowed hosts")),
        "{:?}",
        cards[0].reasons
    );

    let nobody = super::kit(json!({}));
    let error = refused(&nobody, json!({ "url": url }));
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    assert!(
        error
            .remedies
            .iter()
            .any(|way| way.contains("below `network.allowedHosts:`")),
        "{:?}",
        error.remedies
    );
    assert_eq!(site.received().len(), 1);
}

#[test]
fn web_fetch_approval_covers_redirects_with_the_same_method() {
    let site = Site::new(|received, stream| match received.path() {
        "/" => reply(stream, "302 Found", "location: /home\r\n", ""),
        _ => reply(stream, "200 OK", "", "home"),
    });
    let url = named(&site, "other", "/");
    for (method, cards) in [("GET", 1), ("POST", 2)] {
        let kit = kit(json!({})).approve(Approve::Always);
        let outcome = kit.call("web_fetch", json!({"url": url, "method": method}));
        assert_eq!(fetched(&outcome)["url"], named(&site, "other", "/home"));
        assert_eq!(kit.cards().len(), cards, "{method}");
    }
}

/// Settings under which untrusted content matters.
fn careful() -> Value {
    json!({"tools": {"web_fetch": {"labels": {"acceptsUntrusted": null}}}})
}

#[test]
fn web_fetch_of_listed_hosts_needs_no_approval() {
    let site = super::serves("text/plain", "a line of a long page\n".repeat(100));
    let both = json!({"network": {"allowedHosts": ["site.example", "other.example"]}});
    let mut settings = careful();
    super::merge(&mut settings, both);
    let kit = kit(settings);
    for page in 0..10 {
        let url = named(
            &site,
            ["site", "other"][page % 2],
            &format!("/page/{page}?lang=en"),
        );
        assert_eq!(
            fetched(&kit.call("web_fetch", json!({ "url": url })))["status"],
            200
        );
    }
    assert!(kit.cards().is_empty());
    let digits = "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a";
    let output = format!("/?note={}", "word+".repeat(60));
    for (path, headers) in [
        (format!("/{digits}"), json!({})),
        (output, json!({})),
        ("/".to_owned(), json!({"x-note": digits})),
    ] {
        let arguments = json!({"url": named(&site, "site", &path), "headers": headers});
        let error = refused(&kit, arguments);
        assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{path}");
        let ways = error.remedies.join(" ");
        assert!(
            ways.contains("tools.web_fetch.labels.acceptsUntrusted: true"),
            "{ways}"
        );
    }
    assert_eq!(site.received().len(), 10);
}

#[test]
fn web_fetch_session_approval_covers_pages_of_the_host() {
    let site = super::serves("text/plain", "a line of a long page\n".repeat(100));
    let kit = kit(careful()).approve(Approve::Session);
    let part = |method: &str, path: &str, offset| {
        let url = named(&site, "other", path);
        let part = json!({"url": url, "method": method, "offset": offset, "maxLength": 200});
        assert!(kit.call("web_fetch", part).is_ok());
        kit.cards().len()
    };
    assert_eq!(part("GET", "/", 0), 1, "it is on no list");
    assert_eq!(part("GET", "/", 198), 1, "the next part of the page");
    assert_eq!(part("GET", "/another?page=2", 0), 1, "another page");
    assert_eq!(part("HEAD", "/", 0), 2, "another method");
    let always = kit.cards()[0].always.clone().unwrap().text;
    assert!(
        always.contains("GET requests to any URL of http://other.example"),
        "{always}"
    );
    let ways = kit.cards()[0].remedies.join(" ");
    assert!(ways.contains("below `network.allowedHosts:`"), "{ways}");
}

#[test]
fn web_fetch_asks_about_changing_methods_on_any_host() {
    let site = Site::says("ok");
    for name in ["site", "other"] {
        let url = named(&site, name, "/");
        let arguments = json!({"url": url, "method": "DELETE"});
        let asking = kit(json!({})).approve(Approve::Always);
        assert!(asking.call("web_fetch", arguments.clone()).is_ok());
        let cards = asking.cards();
        assert_eq!(cards.len(), 1, "{name}");
        assert_eq!(cards[0].summary, format!("send DELETE to {url}"));
        let error = refused(&kit(json!({})), arguments);
        assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    }
    let head = json!({"url": named(&site, "site", "/"), "method": "HEAD"});
    assert!(kit(json!({})).call("web_fetch", head).is_ok());
}

#[test]
fn web_fetch_mode_any_refuses_local_addresses() {
    let site = Site::says("secret");
    let port = site.address.port();
    let open =
        kit(json!({"network": {"mode": "any", "allowedHosts": null}})).approve(Approve::Always);
    for host in [
        "127.0.0.1",
        "localhost",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
        "metadata.google.internal",
    ] {
        let error = refused(&open, json!({"url": format!("http://{host}:{port}/")}));
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{host}: {error}");
        assert!(!error.remedies.is_empty(), "{host}");
    }
    assert!(open.cards().is_empty(), "these need no approval");
    assert!(site.received().is_empty());
    // The host is allowed by its address, which is the person's own decision.
    let named = kit(json!({"network": {"allowedHosts": ["127.0.0.1"]}}));
    let outcome = named.call("web_fetch", json!({"url": site.url("/")}));
    assert_eq!(fetched(&outcome)["body"], "secret");
}

#[test]
fn web_fetch_with_network_mode_none_is_refused() {
    let site = Site::says("ok");
    let none = kit(json!({"network": {"mode": "none"}})).approve(Approve::Always);
    let error = refused(&none, json!({"url": named(&site, "site", "/")}));
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert!(error.message.contains("network access is off"), "{error}");
    assert!(none.cards().is_empty() && site.received().is_empty());
}

#[test]
fn web_fetch_checks_every_redirect_hop() {
    let inner = Site::says("secret");
    let port = inner.address.port();
    let site = Site::new(move |received, stream| {
        let to = match received.path() {
            "/private" => format!("http://127.0.0.1:{port}/"),
            "/metadata" => "http://169.254.169.254/latest/meta-data/".to_owned(),
            _ => format!("http://other.example:{port}/next"),
        };
        reply(stream, "302 Found", &format!("location: {to}\r\n"), "");
    });
    let asking = kit(json!({})).approve(Approve::Always);
    for path in ["/private", "/metadata"] {
        let error = refused(&asking, json!({"url": named(&site, "site", path)}));
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
    }
    assert!(asking.cards().is_empty() && inner.received().is_empty());
    let headers = json!({"X-Api-Key": "k", "Cookie": "c", "X-Mine": "m", "Accept": "a/b"});
    let url = named(&site, "site", "/other");
    let arguments = json!({"url": url, "headers": headers});
    let outcome = asking.call("web_fetch", arguments.clone());
    assert_eq!(fetched(&outcome)["body"], "secret");
    let cards = asking.cards();
    assert_eq!(cards.len(), 1);
    assert!(cards[0].summary.contains("/next"), "{}", cards[0].summary);
    let received = &inner.received()[0];
    assert_eq!(received.header("accept"), Some("a/b"));
    for name in ["x-api-key", "cookie", "x-mine"] {
        assert_eq!(received.header(name), None, "{name} went to another origin");
    }
    let error = refused(&kit(json!({})), arguments);
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{error}");
}

#[test]
fn web_fetch_invalid_url_is_refused_with_its_kind() {
    let kit = kit(json!({})).approve(Approve::Always);
    for (url, kind) in [
        ("file:///etc/passwd", "unsupported-scheme"),
        ("example.com", "invalid-url"),
        ("http://a..b/", "invalid-url"),
        ("http://site.example\\@evil.example/", "invalid-url"),
        ("http://site.example@evil.example/", "url-credentials"),
    ] {
        let error = refused(&kit, json!({ "url": url }));
        assert_eq!(error.code, ToolErrorCode::InvalidInput, "{url}: {error}");
        assert_eq!(error.details.unwrap()["kind"], kind, "{url}");
    }
    let site = Site::says("ok");
    let url = named(&site, "site", "/");
    for (arguments, words) in [
        (
            json!({"url": url, "body": "x"}),
            "GET requests have no body",
        ),
        (json!({"url": url, "method": "TRACE"}), "method"),
        (
            json!({"url": url, "headers": {"A": "b\r\nHost: evil"}}),
            "headers",
        ),
        (
            json!({"url": url, "headers": {"Host": "evil.example"}}),
            "host",
        ),
        (json!({"url": url, "timeout": 0}), "timeout"),
    ] {
        let error = refused(&kit, arguments.clone());
        let output = error.to_string().to_lowercase();
        assert!(
            output.contains(&words.to_lowercase()),
            "{arguments}: {error}"
        );
    }
    assert!(site.received().is_empty());
}

#[test]
fn web_fetch_approval_conditions_and_url_rules_apply() {
    let site = Site::says("ok");
    let conditions =
        json!({"unknownHostRequiresApproval": true, "methodRequiresApproval": ["GET"]});
    let get = json!({"tools": {"web_fetch": {"approval": {"conditions": {"methodRequiresApproval": ["GET"]}}}}});
    let url = json!({"url": named(&site, "site", "/")});
    let asking = kit(get).approve(Approve::Always);
    assert!(asking.call("web_fetch", url.clone()).is_ok());
    assert_eq!(
        asking.cards().len(),
        1,
        "the default of the argument counts"
    );
    let listed = kit(
        json!({"tools": {"web_fetch": {"approval": {"conditions": {"unknownHostRequiresApproval": conditions["unknownHostRequiresApproval"]}}}}}),
    );
    assert!(listed.call("web_fetch", url).is_ok());
    let rule = json!([{"when": {"url": {"regex": "/admin"}}, "decision": "deny"}]);
    let denied = kit(json!({"tools": {"web_fetch": {"rules": rule}}}));
    let error = refused(&denied, json!({"url": named(&site, "site", "/admin")}));
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
}

#[test]
fn web_fetch_redirect_of_a_changing_method_asks_again() {
    let listed = Site::says("done");
    let elsewhere = named(&listed, "site", "/second");
    let site = Site::new(move |received, stream| {
        let (status, to) = match received.path() {
            "/307" => ("307 Temporary Redirect", elsewhere.as_str()),
            "/308" => ("308 Permanent Redirect", "/delete-everything"),
            _ => return reply(stream, "200 OK", "", "done"),
        };
        reply(stream, status, &format!("location: {to}\r\n"), "");
    });
    for (method, path) in [("DELETE", "/307"), ("POST", "/307"), ("PUT", "/308")] {
        let asking = kit(json!({})).approve(Approve::Always);
        let arguments = json!({"url": named(&site, "site", path), "method": method, "body": "x"});
        assert!(asking.call("web_fetch", arguments).is_ok(), "{method}");
        let cards = asking.cards();
        assert_eq!(cards.len(), 2, "{method}");
        let told = &cards[1].reasons;
        assert!(
            told.iter()
                .any(|reason| reason.text.contains("was called for")),
            "{told:?}"
        );
    }
    // Requests that only read may be redirected to any allowed host.
    let reading = kit(json!({}));
    let arguments = json!({"url": named(&site, "site", "/307"), "method": "GET"});
    assert!(reading.call("web_fetch", arguments).is_ok());
}

#[test]
fn web_fetch_refuses_known_secrets_in_a_request() {
    const VALUE: &str = "Xq7 tR2mVb9/LpW4";
    let site = Site::says("ok");
    let url = |rest: &str| named(&site, "site", rest);
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for arguments in [
        json!({"url": url("/?k=Xq7%20tR2mVb9/LpW4")}),
        json!({"url": url("/?k=Xq7+tR2mVb9%2fLpW4")}),
        json!({"url": url("/%58q7%20tR2mVb9/LpW4")}),
        json!({"url": url(&format!("/{hex}"))}),
        json!({"url": url("/"), "headers": {"x-key": VALUE}}),
        json!({"url": url("/"), "headers": {"x-key": "WHE3IHRSMm1WYjkvTHBXNA=="}}),
        json!({"url": url("/"), "method": "POST", "body": format!("key={VALUE}")}),
    ] {
        let kit = kit(json!({}))
            .secret("SITE_KEY", VALUE)
            .approve(Approve::Always);
        let error = refused(&kit, arguments.clone());
        assert_eq!(
            error.code,
            ToolErrorCode::PolicyDenied,
            "{arguments}: {error}"
        );
        let details = error.details.unwrap();
        assert_eq!(details["kind"], "secret-in-request", "{arguments}");
        assert_eq!(details["secret"], "SITE_KEY");
        assert!(!error.remedies.is_empty());
        let received = site.received();
        let all = format!("{received:?}");
        assert!(
            !all.contains("LpW4") && !all.contains(&hex),
            "{arguments}: {all}"
        );
    }
}
