//! Logins at servers, successful and failing ones. The server and its authorization server are sites of the test on
//! this machine, and the test acts as the person.

mod hostile;
mod renewing;
mod site;
mod world;

use std::sync::Arc;

use mimir_core::ToolErrorCode;
use mimir_mcp::client::CallbackError;
use serde_json::json;

pub use site::{Answer, Site};
pub use world::{Memory, reach};
use world::{SECRET, World, fields};

use crate::behind::{Behind, said};

/// Returns the server behind a pipeline without secrets of logins: their values must be masked before they reach it.
async fn behind(world: &World) -> Behind {
    Behind::over(Arc::clone(&world.servers)).open().await
}

#[tokio::test]
async fn login_succeeds_and_calls_carry_the_token() {
    let world = World::new().await;
    world.set(|ways| {
        ways.resource = json!({"scopes_supported": ["read"]});
        ways.issuer = json!({"scopes_supported": ["read", "offline_access"]});
    });
    let error = world.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    assert_eq!(world.issuer.all(), "[]", "a call does not start a login");

    let plan = world.servers.plan("s").await.unwrap().unwrap();
    let facts = plan.facts();
    assert_eq!(facts.issuer, world.issuer.url);
    assert_eq!(facts.url, format!("{}/mcp", world.server.url));
    assert_eq!(facts.scopes, ["read", "offline_access"]);
    let pending = plan.begin("http://127.0.0.1:4/callback").await.unwrap();
    let page = fields(pending.url());
    assert!(pending.url().starts_with(&world.issuer.url));
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("redirect_uri", "http://127.0.0.1:4/callback"),
        ("code_challenge_method", "S256"),
        ("resource", &format!("{}/mcp", world.server.url)),
        ("scope", "read offline_access"),
        ("prompt", "consent"),
    ] {
        assert_eq!(page[name], value);
    }
    assert!(page["state"].len() >= 32 && page["code_challenge"].len() == 43);
    let registered = &world.issuer.asked("/register")[0].body;
    for words in ["\"native\"", "\"refresh_token\"", "127.0.0.1:4/callback"] {
        assert!(registered.contains(words), "{registered}");
    }

    let answer = world.says_yes(pending.url());
    let code = pending.code(&answer).unwrap();
    let login = pending.finish(&code).await;
    let login = login.unwrap();
    assert_eq!(login.issuer, world.issuer.url);
    let sent = world.issuer.asked("/token")[0].form();
    assert_eq!(sent["resource"], page["resource"]);
    assert_eq!(sent["client_id"], page["client_id"]);

    let behind = behind(&world).await;
    let outcome = behind.call("mcp_s_go", json!({})).await;
    assert_eq!(said(&outcome), "done");
    let login = world.servers.login("s").unwrap().unwrap();
    assert!(login.renews && !login.ended);
    // Another login requests another code, and reuses no values of the first.
    let again = world.begin().await.unwrap();
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
    let world = World::with(oauth).await;
    world.set(|ways| ways.resource = json!({"scopes_supported": ["theirs"]}));
    let plan = world.servers.plan("s").await.unwrap().unwrap();
    assert_eq!(plan.port(), Some(4711));
    assert_eq!(plan.facts().scopes, ["mine"]);
    drop(plan);
    world.log_in().await.unwrap();
    assert!(world.issuer.asked("/register").is_empty());
    let sent = &world.issuer.asked("/token")[0];
    use base64::Engine as _;
    let pair = format!("me%3A+%26+co:{SECRET}");
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    assert_eq!(sent.headers["authorization"], format!("Basic {pair}"));
    // The secret is stored only once, at the place chosen by the person.
    assert!(!world.logins.only().to_string().contains(SECRET));
    // As a form field, if the server requires that.
    world.set(|ways| {
        ways.issuer = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    });
    world.log_in().await.unwrap();
    let sent = world.issuer.asked("/token")[1].form();
    assert_eq!(sent["client_secret"], SECRET);
}

#[tokio::test]
async fn login_rejects_an_issuer_other_than_configured() {
    let oauth =
        json!({"issuer": "https://else.example", "clientId": "me", "clientSecret": "${KEY}"});
    let world = World::with(oauth).await;
    let error = world.begin().await.unwrap_err();
    assert!(error.message.contains("oauth.issuer"), "{error}");
    assert_eq!(world.issuer.all(), "[]");
}

#[tokio::test]
async fn login_uses_a_client_metadata_document() {
    let document = "https://me.example/client.json";
    let world = World::with(json!({ "clientMetadataUrl": document })).await;
    let pending = world.begin().await.unwrap();
    assert_ne!(fields(pending.url())["client_id"], document);
    world.set(|ways| ways.issuer = json!({"client_id_metadata_document_supported": true}));
    let pending = world.begin().await.unwrap();
    assert_eq!(fields(pending.url())["client_id"], document);
    assert_eq!(world.issuer.asked("/register").len(), 1);
}

#[tokio::test]
async fn callback_belongs_to_its_login_and_works_once() {
    let world = World::new().await;
    let pending = world.begin().await.unwrap();
    let answer = world.says_yes(pending.url());
    let other = world.begin().await.unwrap();
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
    assert!(world.issuer.asked("/token").is_empty());
    // The code of another login does not match this login's PKCE verifier.
    let theirs = other.code(&world.says_yes(other.url())).unwrap();
    let code = pending.code(&answer).unwrap();
    assert!(other.finish(&code).await.is_err());
    let pending = world.begin().await.unwrap();
    assert!(pending.finish(&theirs).await.is_err());
    assert!(world.logins.all.lock().is_empty());
    // A code that was already used yields no second token.
    let pending = world.begin().await.unwrap();
    let code = pending.code(&world.says_yes(pending.url())).unwrap();
    let form = {
        pending.finish(&code).await.unwrap();
        world.issuer.asked("/token").last().unwrap().form()
    };
    assert_eq!(form["code"], code);
    let late = world.begin().await.unwrap();
    let error = late.finish(&code).await.unwrap_err();
    assert!(error.message.contains("invalid_grant"), "{error}");
}

#[tokio::test]
async fn logout_revokes_the_token_and_removes_it() {
    let world = World::new().await;
    assert_eq!(world.servers.log_out("s").await.unwrap().unwrap(), None);
    world.log_in().await.unwrap();
    let login = world.logins.only();
    assert_eq!(
        world.servers.log_out("s").await.unwrap().unwrap(),
        Some(true)
    );
    assert!(world.logins.all.lock().is_empty());
    let ended: Vec<_> = world.issuer.asked("/revoke");
    let ended: Vec<String> = ended
        .iter()
        .map(|one| one.form()["token"].clone())
        .collect();
    let both = ["refresh", "access"].map(|value| login[value].as_str().unwrap());
    assert_eq!(ended, both);
    assert_eq!(world.servers.login("s").unwrap(), None);
    let error = world.servers.test("s").await.unwrap().unwrap_err();
    assert!(error.message.contains("requires a login"), "{error}");
}

#[tokio::test]
async fn login_adds_missing_scopes_once() {
    let world = World::new().await;
    world.set(|ways| {
        ways.resource = json!({"scopes_supported": ["read"]});
        ways.needs = Some("write");
    });
    world.log_in().await.unwrap();
    let behind = behind(&world).await;
    let outcome = behind.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("this requires `write`"), "{error}");
    assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    let pending = world.begin().await.unwrap();
    assert_eq!(fields(pending.url())["scope"], "read write");
    let answer = world.says_yes(pending.url());
    let code = pending.code(&answer).unwrap();
    pending.finish(&code).await.unwrap();
    // The existing connection uses the new token.
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
    assert_eq!(
        fields(world.begin().await.unwrap().url())["scope"],
        "read write"
    );
    // Scopes that were requested before, and did not suffice, are not requested again.
    world.set(|ways| ways.needs = Some("write "));
    world.forget(true);
    let _ = world.log_in().await.unwrap();
    let outcome = behind.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied, "{error}");
    assert!(error.remedies.is_empty(), "{error:?}");
}
