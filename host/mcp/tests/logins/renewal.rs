//! Expiry and renewal of tokens.

use std::sync::Arc;

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::fixture::LoginFixture;
use super::{outcome_text, upstream};

#[tokio::test]
async fn token_expired_is_renewed_once_for_all_calls() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| behavior.lasts = Some(3600));
    fixture.log_in().await.unwrap();
    let upstream = Arc::new(upstream(&fixture).await);
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
    let before = fixture.logins.only();
    fixture.logins.change(|login| login["until"] = json!(1));
    let calls = (0..8).map(|_| {
        let upstream = Arc::clone(&upstream);
        tokio::spawn(async move { outcome_text(&upstream.call("mcp_s_go", json!({})).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), "done");
    }
    let renewed: Vec<_> = fixture.issuer.requests_to("/token");
    let renewed: Vec<_> = renewed.iter().map(|one| one.form()).collect();
    let grants: Vec<_> = renewed.iter().map(|form| &form["grant_type"]).collect();
    assert_eq!(grants, ["authorization_code", "refresh_token"]);
    assert_eq!(
        renewed[1]["refresh_token"],
        before["refresh"].as_str().unwrap()
    );
    assert_eq!(
        renewed[1]["resource"],
        format!("{}/mcp", fixture.server.url)
    );
    // The refresh token is replaced each time.
    let after = fixture.logins.only();
    assert_ne!(before["refresh"], after["refresh"]);
    assert_ne!(before["access"], after["access"]);
}

#[tokio::test]
async fn token_rejected_is_renewed_or_needs_a_login() {
    let fixture = LoginFixture::new().await;
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    fixture.invalidate_tokens(false);
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
    // Not again that soon: a server that rejects all tokens would cause a renewal for each request.
    fixture.invalidate_tokens(true);
    for _ in 0..3 {
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
        assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    }
    assert_eq!(fixture.issuer.requests_to("/token").len(), 2);
    // A new login takes effect at once.
    fixture.log_in().await.unwrap();
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
}

#[tokio::test]
async fn login_expired_is_not_renewed_twice() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| behavior.lasts = Some(3600));
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    fixture.logins.change(|login| login["until"] = json!(1));
    fixture.invalidate_tokens(true);
    for _ in 0..3 {
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert!(error.message.contains("has expired"), "{error}");
    }
    assert_eq!(fixture.issuer.requests_to("/token").len(), 2);
    assert!(fixture.servers.login("s").unwrap().unwrap().ended);
}

#[tokio::test]
async fn login_survives_an_unavailable_authorization_server() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| behavior.lasts = Some(3600));
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    fixture.logins.change(|login| login["until"] = json!(1));
    fixture.set(|behavior| behavior.token = Some(super::site::Answer::empty(503)));
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert!(error.message.contains("cannot be renewed now"), "{error}");
    fixture.set(|behavior| behavior.token = None);
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
}

#[tokio::test]
async fn token_without_a_refresh_token_expires() {
    let fixture = LoginFixture::new().await;
    fixture.set(|behavior| (behavior.lasts, behavior.renews) = (Some(3600), false));
    fixture.log_in().await.unwrap();
    let upstream = upstream(&fixture).await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "done"
    );
    let request_count = fixture.server.requests_to("/mcp").len();
    fixture.logins.change(|login| login["until"] = json!(1));
    let outcome = upstream.call("mcp_s_go", json!({})).await;
    assert!(
        outcome
            .result()
            .unwrap_err()
            .message
            .contains("has expired")
    );
    assert_eq!(
        fixture.server.requests_to("/mcp").len(),
        request_count,
        "the expired token is not sent"
    );
}
