//! Logins at servers. The server and its authorization server are web sites of the test on this machine, and the test
//! acts as the user.

mod fixture;
mod hostile;
mod renewal;
mod site;
mod users;

use std::sync::Arc;

use mimir_core::ToolErrorCode;
use mimir_mcp::client::CallbackError;
use serde_json::json;

pub use fixture::{LoginFixture, Memory, SECRET, fields, reach};
pub use site::{Answer, Site};

use crate::upstream::{Upstream, outcome_text};

/// Returns the server behind a pipeline without secrets of logins: their values must be masked before they reach it.
async fn upstream(fixture: &LoginFixture) -> Upstream {
    Upstream::over(Arc::clone(&fixture.servers)).open().await
}

#[tokio::test]
async fn server_http_error_is_reported_with_its_status() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    fixture.set(|behavior| behavior.fails = true);
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let message = &outcome.result().unwrap_err().message;
    assert!(message.contains("HTTP 500"), "{message}");
    assert!(message.contains("out of order"), "{message}");
    assert!(!message.contains("ended"), "{message}");
}

#[tokio::test]
async fn login_succeeds_and_calls_carry_the_token() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| {
        behavior.resource = json!({"scopes_supported": ["read"]});
        behavior.issuer = json!({"scopes_supported": ["read", "offline_access"]});
    });
    let error = fixture.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    assert_eq!(fixture.issuer.all(), "[]", "a call does not start a login");

    let plan = fixture.servers.plan("s").await.unwrap().unwrap();
    let facts = plan.facts();
    assert_eq!(facts.issuer, fixture.issuer.url);
    assert_eq!(facts.url, format!("{}/mcp", fixture.server.url));
    assert_eq!(facts.scopes, ["read", "offline_access"]);
    let pending = plan.begin("http://127.0.0.1:4/callback").await.unwrap();
    let page = fields(pending.url());
    assert!(pending.url().starts_with(&fixture.issuer.url));
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("redirect_uri", "http://127.0.0.1:4/callback"),
        ("code_challenge_method", "S256"),
        ("resource", &format!("{}/mcp", fixture.server.url)),
        ("scope", "read offline_access"),
        ("prompt", "consent"),
    ] {
        assert_eq!(page[name], value);
    }
    assert!(page["state"].len() >= 32 && page["code_challenge"].len() == 43);
    let registered = &fixture.issuer.requests_to("/register")[0].body;
    for part in ["\"native\"", "\"refresh_token\"", "127.0.0.1:4/callback"] {
        assert!(registered.contains(part), "{registered}");
    }

    let answer = fixture.approve_login(pending.url());
    let code = pending.code(&answer).unwrap();
    let login = pending.finish(&code).await;
    let login = login.unwrap();
    assert_eq!(login.issuer, fixture.issuer.url);
    let sent = fixture.issuer.requests_to("/token")[0].form();
    assert_eq!(sent["resource"], page["resource"]);
    assert_eq!(sent["client_id"], page["client_id"]);

    let upstream = upstream(&fixture).await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert_eq!(outcome_text(&outcome), "done");
    let login = fixture.servers.login("s").unwrap().unwrap();
    assert!(login.renews && !login.ended);
    // Another login requests another code, and reuses no values of the first.
    let again = fixture.begin().await.unwrap();
    assert_ne!(fields(again.url())["state"], page["state"]);
    assert_ne!(
        fields(again.url())["code_challenge"],
        page["code_challenge"]
    );
}

#[tokio::test]
async fn login_uses_the_client_of_the_settings() {
    let oauth = json!({"issuer": "ISSUER", "clientId": "me: & co", "clientSecret": "${KEY}",
        "scopes": ["mine"], "redirectPort": 4711});
    let fixture = LoginFixture::with(oauth).await;
    fixture.set(|behavior| behavior.resource = json!({"scopes_supported": ["theirs"]}));
    let plan = fixture.servers.plan("s").await.unwrap().unwrap();
    assert_eq!(plan.port(), Some(4711));
    assert_eq!(plan.facts().scopes, ["mine"]);
    drop(plan);
    fixture.log_in().await.unwrap();
    assert!(fixture.issuer.requests_to("/register").is_empty());
    let sent = &fixture.issuer.requests_to("/token")[0];
    use base64::Engine as _;
    let pair = format!("me%3A+%26+co:{SECRET}");
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    assert_eq!(sent.headers["authorization"], format!("Basic {pair}"));
    // The secret is stored only once, in the secret store of the user.
    assert!(!fixture.logins.only().to_string().contains(SECRET));
    // As a form field, if the server requires that.
    fixture.set(|behavior| {
        behavior.issuer = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    });
    fixture.log_in().await.unwrap();
    let sent = fixture.issuer.requests_to("/token")[1].form();
    assert_eq!(sent["client_secret"], SECRET);
}

#[tokio::test]
async fn login_rejects_an_issuer_other_than_configured() {
    let oauth =
        json!({"issuer": "https://else.example", "clientId": "me", "clientSecret": "${KEY}"});
    let fixture = LoginFixture::with(oauth).await;
    let error = fixture.begin().await.unwrap_err();
    assert!(error.message.contains("oauth.issuer"), "{error}");
    assert_eq!(fixture.issuer.all(), "[]");
}

#[tokio::test]
async fn login_uses_a_client_metadata_document() {
    let document = "https://me.example/client.json";
    let fixture = LoginFixture::with(json!({ "clientMetadataUrl": document })).await;
    let pending = fixture.begin().await.unwrap();
    assert_ne!(fields(pending.url())["client_id"], document);
    fixture
        .set(|behavior| behavior.issuer = json!({"client_id_metadata_document_supported": true}));
    let pending = fixture.begin().await.unwrap();
    assert_eq!(fields(pending.url())["client_id"], document);
    assert_eq!(fixture.issuer.requests_to("/register").len(), 1);
}

#[tokio::test]
async fn callback_belongs_to_its_login_and_works_once() {
    let fixture = LoginFixture::new().await;
    let pending = fixture.begin().await.unwrap();
    let answer = fixture.approve_login(pending.url());
    let other = fixture.begin().await.unwrap();
    let state = fields(pending.url())["state"].clone();
    let strange = answer.replace(&state, &fields(other.url())["state"]);
    assert!(matches!(pending.code(&strange), Err(CallbackError::Stray)));
    let mixed = answer.replace("&iss=", "&iss=https%3A%2F%2Fevil.example%2F&was=");
    assert!(matches!(
        pending.code(&mixed),
        Err(CallbackError::Refused(_))
    ));
    let silent = answer.replace("&iss=", "&was=");
    assert!(matches!(
        pending.code(&silent),
        Err(CallbackError::Refused(_))
    ));
    assert!(fixture.issuer.requests_to("/token").is_empty());
    // The code of another login does not match this login's PKCE verifier.
    let theirs = other.code(&fixture.approve_login(other.url())).unwrap();
    let code = pending.code(&answer).unwrap();
    assert!(other.finish(&code).await.is_err());
    let pending = fixture.begin().await.unwrap();
    assert!(pending.finish(&theirs).await.is_err());
    assert!(fixture.logins.all.lock().is_empty());
    // A code that was already used yields no second token.
    let pending = fixture.begin().await.unwrap();
    let code = pending.code(&fixture.approve_login(pending.url())).unwrap();
    let form = {
        pending.finish(&code).await.unwrap();
        fixture.issuer.requests_to("/token").last().unwrap().form()
    };
    assert_eq!(form["code"], code);
    let late = fixture.begin().await.unwrap();
    let error = late.finish(&code).await.unwrap_err();
    assert!(error.message.contains("invalid_grant"), "{error}");
}

#[tokio::test]
async fn logout_revokes_the_token_and_removes_it() {
    let fixture = LoginFixture::new().await;
    assert_eq!(fixture.servers.log_out("s").await.unwrap().unwrap(), None);
    fixture.log_in().await.unwrap();
    let login = fixture.logins.only();
    assert_eq!(
        fixture.servers.log_out("s").await.unwrap().unwrap(),
        Some(true)
    );
    assert!(fixture.logins.all.lock().is_empty());
    let ended: Vec<_> = fixture.issuer.requests_to("/revoke");
    let ended: Vec<String> = ended
        .iter()
        .map(|one| one.form()["token"].clone())
        .collect();
    let both = ["refresh", "access"].map(|value| login[value].as_str().unwrap());
    assert_eq!(ended, both);
    assert_eq!(fixture.servers.login("s").unwrap(), None);
    let error = fixture.servers.test("s").await.unwrap().unwrap_err();
    assert!(error.message.contains("requires a login"), "{error}");
}

#[tokio::test]
async fn login_adds_missing_scopes_once() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| {
        behavior.resource = json!({"scopes_supported": ["read"]});
        behavior.needs = Some("write");
    });
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("this requires `write`"), "{error}");
    assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    let pending = fixture.begin().await.unwrap();
    assert_eq!(fields(pending.url())["scope"], "read write");
    let answer = fixture.approve_login(pending.url());
    let code = pending.code(&answer).unwrap();
    pending.finish(&code).await.unwrap();
    // The existing connection uses the new token.
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
    assert_eq!(
        fields(fixture.begin().await.unwrap().url())["scope"],
        "read write"
    );
    // Scopes that were requested before, and did not suffice, are not requested again.
    fixture.set(|behavior| behavior.needs = Some("write "));
    fixture.invalidate_tokens(true);
    let _ = fixture.log_in().await.unwrap();
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied, "{error}");
    assert!(error.remedies.is_empty(), "{error:?}");
}
