//! Attacks by hostile servers and authorization servers, each of which is rejected.

use mimir_core::ToolErrorCode;
use serde_json::{Value, json};

use super::fixture::{LoginFixture, servers};
use super::site::{Answer, Site};
use super::{outcome_text, upstream};

/// Returns the error of a login that fails during preparation, because of this metadata.
async fn refused(resource: Value, issuer: Value) -> String {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| (behavior.resource, behavior.issuer) = (resource, issuer));
    let error = fixture.begin().await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied, "{error}");
    assert!(fixture.issuer.requests_to("/register").is_empty());
    error.message
}

#[tokio::test]
async fn login_rejects_bad_metadata_before_the_browser_opens() {
    for (resource, issuer, part) in [
        (
            json!({"resource": "https://bank.example/mcp"}),
            json!({}),
            "resource mismatch",
        ),
        (
            json!({"resource": null}),
            json!({}),
            "does not name an authorization server",
        ),
        (
            json!({"authorization_servers": []}),
            json!({}),
            "names no authorization server",
        ),
        (
            json!({"authorization_servers": ["http://as.example"]}),
            json!({}),
            "https",
        ),
        (
            json!({"authorization_servers": ["https://10.0.0.1"]}),
            json!({}),
            "private network",
        ),
        (
            json!({"authorization_servers": ["https://[fd00::1]"]}),
            json!({}),
            "private network",
        ),
        (
            json!({"authorization_servers": ["file:///etc/passwd"]}),
            json!({}),
            "not allowed",
        ),
        (
            json!({}),
            json!({"issuer": "https://honest.example"}),
            "issuer mismatch",
        ),
        (
            json!({}),
            json!({"code_challenge_methods_supported": null}),
            "PKCE",
        ),
        (
            json!({}),
            json!({"code_challenge_methods_supported": ["plain"]}),
            "PKCE",
        ),
        (
            json!({}),
            json!({"response_types_supported": ["token"]}),
            "does not support the authorization code flow",
        ),
        (
            json!({}),
            json!({"token_endpoint": "http://as.example/token"}),
            "https",
        ),
        (
            json!({}),
            json!({"token_endpoint": "https://192.168.1.1/token"}),
            "private network",
        ),
        (
            json!({}),
            json!({"authorization_endpoint": "javascript:alert(1)"}),
            "not allowed",
        ),
        (
            json!({}),
            json!({"registration_endpoint": null}),
            "oauth.clientId",
        ),
    ] {
        let message = refused(resource, issuer).await;
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[tokio::test]
async fn login_rejects_a_page_url_with_reserved_parameters() {
    let fixture = LoginFixture::new().await;
    let page = format!(
        "{}/authorize?redirect_uri=https://evil.example",
        fixture.issuer.url
    );
    fixture.set(|behavior| behavior.issuer = json!({ "authorization_endpoint": page }));
    let error = fixture.begin().await.unwrap_err();
    assert!(
        error.message.contains("contains query parameters"),
        "{error}"
    );
}

#[tokio::test]
async fn login_rejects_metadata_on_another_origin() {
    let fixture = LoginFixture::new().await;
    let evil = Site::open(|_, _| Answer::json(200, &json!({}))).await;
    fixture.set(|behavior| behavior.described = Some(format!("{}/x", evil.url)));
    let error = fixture.begin().await.unwrap_err();
    assert!(error.message.contains("origin mismatch"), "{error}");
    assert_eq!(evil.all(), "[]");
}

#[tokio::test]
async fn login_limits_documents_and_redirects() {
    // 5 MB.
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| behavior.issuer = json!({"x": "x".repeat(5 << 20)}));
    let error = fixture.begin().await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    // Endless redirects within the same origin.
    let fixture = LoginFixture::new().await;
    let away = format!("{}/away", fixture.server.url);
    fixture.set(|behavior| {
        behavior.described = Some(away.clone());
        behavior.away = Some(away.clone());
    });
    let error = fixture.begin().await.unwrap_err();
    assert!(fixture.server.requests_to("/away").len() <= 4, "{error}");
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    // A redirect to another origin.
    let fixture = LoginFixture::new().await;
    let evil = Site::open(|_, _| Answer::json(200, &json!({}))).await;
    let token = Answer::empty(307).with("location", format!("{}/token", evil.url));
    fixture.set(|behavior| behavior.token = Some(token));
    assert!(fixture.log_in().await.is_err());
    assert_eq!(evil.all(), "[]");
}

#[tokio::test]
async fn token_is_not_sent_after_a_redirect() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
    let evil = Site::open(|_, _| Answer::empty(401)).await;
    let away = format!("{}/mcp", evil.url);
    fixture.set(|behavior| behavior.away = Some(away));
    assert!(upstream.call("mcp_s_go", json!({})).await.result().is_err());
    assert_eq!(evil.all(), "[]");
    let sent = fixture.issuer.all();
    let token = fixture.logins.only()["access"].as_str().unwrap().to_owned();
    assert!(!sent.contains(&token), "{sent}");
}

#[tokio::test]
async fn token_is_not_sent_to_another_server_of_the_same_name() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let login = fixture.logins.only();
    let evil = Site::open(|own_url, request| match request.path.as_str() {
        "/mcp" => Answer::empty(401).with(
            "www-authenticate",
            format!("Bearer resource_metadata=\"{own_url}/.well-known/oauth-protected-resource\""),
        ),
        _ => Answer::empty(404),
    })
    .await;
    // The name at another address, the address under another name, and a reference to the login as a secret.
    let settings = json!({
        "s": {"url": format!("{}/mcp", evil.url)},
        "t": {"url": format!("{}/mcp", evil.url), "headers": {"X-Got": "${s}"}},
    });
    let others = servers(&settings, &fixture.logins, &fixture.notes);
    for name in ["s", "t"] {
        assert!(others.test(name).await.unwrap().is_err(), "{name}");
        assert_eq!(others.login(name).unwrap(), None, "{name}");
        let _ = others.log_out(name).await;
    }
    let sent = evil.all();
    for value in ["access", "refresh"] {
        let value = login[value].as_str().unwrap();
        assert!(!sent.contains(value), "{sent}");
    }
    assert!(sent.contains("/mcp"), "{sent}");
    // The other server has no metadata, so that no login at it can be prepared.
    let plan = others.plan("s").await.unwrap();
    assert!(plan.is_err());
    assert_eq!(fixture.logins.only(), login);
}

#[tokio::test]
async fn login_with_a_changed_address_is_ignored() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    fixture
        .logins
        .change(|login| login["url"] = json!("https://evil.example/mcp"));
    assert_eq!(fixture.servers.login("s").unwrap(), None);
    let request_count = fixture.server.requests_to("/mcp").len();
    assert!(fixture.servers.test("s").await.unwrap().is_err());
    let sent = fixture.server.requests_to("/mcp");
    assert!(
        sent[request_count..]
            .iter()
            .all(|one| one.token().is_none()),
        "{sent:?}"
    );
}

#[tokio::test]
async fn token_echoed_by_the_server_is_masked() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| (behavior.echoes, behavior.lasts) = (true, Some(3600)));
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    let first = fixture.logins.only()["access"].as_str().unwrap().to_owned();
    // The token is renewed during the call, so that the call does not know it from the start.
    fixture.logins.change(|login| login["until"] = json!(1));
    let text = outcome_text(&upstream.call("mcp_s_go", json!({})).await);
    let second = fixture.logins.only()["access"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert!(text.contains("[REDACTED:"), "{text}");
    assert!(!text.contains(&first) && !text.contains(&second), "{text}");
    assert!(!fixture.notes.all().contains("access-token"));
}

#[tokio::test]
async fn token_endpoint_errors_are_masked() {
    let fixture = LoginFixture::new().await;
    let pending = fixture.begin().await.unwrap();
    let code = pending.code(&fixture.approve_login(pending.url())).unwrap();
    let words = format!("no {code} \u{1b}[2J here");
    let answer = Answer::json(
        400,
        &json!({"error": "invalid_grant", "error_description": words}),
    );
    fixture.set(|behavior| behavior.token = Some(answer));
    let error = pending.finish(&code).await.unwrap_err();
    assert!(error.message.contains("invalid_grant"), "{error}");
    assert!(
        !error.message.contains(&code) && !error.message.contains('\u{1b}'),
        "{error}"
    );
}

#[tokio::test]
async fn token_that_is_invalid_is_not_stored() {
    let good = json!({"access_token": "access-token-1", "token_type": "Bearer"});
    for (key, value) in [
        ("access_token", json!("short")),
        ("access_token", json!("with\r\nInjected: header")),
        ("access_token", json!("x".repeat(20_000))),
        ("access_token", json!(7)),
        ("token_type", json!("DPoP")),
        ("refresh_token", json!("tiny")),
    ] {
        let fixture = LoginFixture::new().await;
        let mut token = good.clone();
        token[key] = value.clone();
        fixture.set(|behavior| behavior.token = Some(Answer::json(200, &token)));
        let error = fixture.log_in().await.unwrap_err();
        assert!(
            error.message.contains("issued no token"),
            "{key} {value}: {error}"
        );
        assert!(fixture.logins.all.lock().is_empty());
    }
}

#[tokio::test]
async fn token_rejected_repeatedly_stops_requests() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    fixture.set(|behavior| behavior.rejects_all = true);
    let error = fixture.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    let request_count = fixture.server.requests_to("/mcp").len();
    assert!(request_count <= 4, "{request_count}");
    // Repeated calls of a model cause no further requests.
    for _ in 0..20 {
        assert!(fixture.servers.test("s").await.unwrap().is_err());
    }
    assert!(fixture.server.requests_to("/mcp").len() <= 2 * request_count);
    assert!(fixture.issuer.requests_to("/token").len() <= 2);
    assert!(fixture.issuer.requests_to("/authorize").is_empty());
}

#[tokio::test]
async fn login_values_do_not_go_to_a_new_authorization_server() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let before = fixture.logins.only();
    // The server has moved to another authorization server.
    let next = LoginFixture::new().await;
    fixture.invalidate_tokens(true);
    let (named, its) = (
        next.issuer.url.clone(),
        json!({"authorization_servers": [next.issuer.url]}),
    );
    fixture.set(|behavior| behavior.resource = its);
    let plan = fixture.servers.plan("s").await.unwrap().unwrap();
    assert_eq!(
        plan.facts().before.as_deref(),
        Some(fixture.issuer.url.as_str())
    );
    assert_eq!(plan.facts().issuer, named);
    let pending = plan.begin("http://127.0.0.1:4/callback").await.unwrap();
    let code = pending.code(&next.approve_login(pending.url())).unwrap();
    pending.finish(&code).await.unwrap();
    let sent = next.issuer.all();
    for value in ["access", "refresh"] {
        assert!(!sent.contains(before[value].as_str().unwrap()), "{sent}");
    }
    assert_ne!(fixture.logins.only()["client"]["id"], "");
    assert_eq!(next.issuer.requests_to("/register").len(), 1);
    assert_eq!(fixture.logins.only()["issuer"], named);
}

#[tokio::test]
async fn settings_header_takes_precedence_over_a_login() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let settings = json!({"s": {"url": format!("{}/mcp", fixture.server.url),
        "headers": {"authorization": "Bearer ${KEY}"}}});
    let others = servers(&settings, &fixture.logins, &fixture.notes);
    let error = others.test("s").await.unwrap().unwrap_err();
    assert!(
        error
            .message
            .contains("`Authorization` header of its settings"),
        "{error}"
    );
    let error = others.plan("s").await.unwrap().err().unwrap();
    assert_eq!(error.code, ToolErrorCode::InvalidInput, "{error}");
    let sent = fixture.server.requests_to("/mcp");
    let token = fixture.logins.only()["access"].as_str().unwrap().to_owned();
    assert!(sent.iter().all(|one| one.token() != Some(&token)));
}

#[tokio::test]
async fn login_without_pkce_fails_with_hints() {
    let fixture = LoginFixture::new().await;
    fixture.set(|remedies| remedies.issuer = json!({"code_challenge_methods_supported": null}));
    let error = fixture.log_in().await.unwrap_err();
    let remedies = error.remedies.join("\n");
    for part in [
        "code_challenge_methods_supported",
        "--issuer",
        "--header 'Authorization=",
    ] {
        assert!(remedies.contains(part), "{remedies}");
    }
}
