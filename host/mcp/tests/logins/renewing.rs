//! Expiry and renewal of tokens.

use std::sync::Arc;

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::world::World;
use super::{behind, said};

#[tokio::test]
async fn token_expired_is_renewed_once_for_all_calls() {
    let world = World::new().await;
    world.set(|ways| ways.lasts = Some(3600));
    world.log_in().await.unwrap();
    let behind = Arc::new(behind(&world).await);
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
    let before = world.logins.only();
    world.logins.change(|login| login["until"] = json!(1));
    let calls = (0..8).map(|_| {
        let behind = Arc::clone(&behind);
        tokio::spawn(async move { said(&behind.call("mcp_s_go", json!({})).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), "done");
    }
    let renewed: Vec<_> = world.issuer.asked("/token");
    let renewed: Vec<_> = renewed.iter().map(|one| one.form()).collect();
    let grants: Vec<_> = renewed.iter().map(|form| &form["grant_type"]).collect();
    assert_eq!(grants, ["authorization_code", "refresh_token"]);
    assert_eq!(
        renewed[1]["refresh_token"],
        before["refresh"].as_str().unwrap()
    );
    assert_eq!(renewed[1]["resource"], format!("{}/mcp", world.server.url));
    // The refresh token is replaced each time.
    let after = world.logins.only();
    assert_ne!(before["refresh"], after["refresh"]);
    assert_ne!(before["access"], after["access"]);
}

#[tokio::test]
async fn token_rejected_is_renewed_or_needs_a_login() {
    let world = World::new().await;
    world.log_in().await.unwrap();
    let behind = behind(&world).await;
    world.forget(false);
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
    // Not again that soon: a server that rejects all tokens would cause a renewal for each request.
    world.forget(true);
    for _ in 0..3 {
        let outcome = behind.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
        assert!(error.remedies[0].contains("mimir mcp login s"), "{error:?}");
    }
    assert_eq!(world.issuer.asked("/token").len(), 2);
    // A new login takes effect at once.
    world.log_in().await.unwrap();
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
}

#[tokio::test]
async fn login_expired_is_not_renewed_twice() {
    let world = World::new().await;
    world.set(|ways| ways.lasts = Some(3600));
    world.log_in().await.unwrap();
    let behind = behind(&world).await;
    world.logins.change(|login| login["until"] = json!(1));
    world.forget(true);
    for _ in 0..3 {
        let outcome = behind.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert!(error.message.contains("has expired"), "{error}");
    }
    assert_eq!(world.issuer.asked("/token").len(), 2);
    assert!(world.servers.login("s").unwrap().unwrap().ended);
}

#[tokio::test]
async fn login_survives_an_unavailable_authorization_server() {
    let world = World::new().await;
    world.set(|ways| ways.lasts = Some(3600));
    world.log_in().await.unwrap();
    let behind = behind(&world).await;
    world.logins.change(|login| login["until"] = json!(1));
    world.set(|ways| ways.token = Some(super::site::Answer::empty(503)));
    let outcome = behind.call("mcp_s_go", json!({})).await;
    let error = outcome.result().unwrap_err();
    assert!(error.message.contains("cannot be renewed now"), "{error}");
    world.set(|ways| ways.token = None);
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
}

#[tokio::test]
async fn token_without_a_refresh_token_expires() {
    let world = World::new().await;
    world.set(|ways| (ways.lasts, ways.renews) = (Some(3600), false));
    world.log_in().await.unwrap();
    let behind = behind(&world).await;
    assert_eq!(said(&behind.call("mcp_s_go", json!({})).await), "done");
    let asked = world.server.asked("/mcp").len();
    world.logins.change(|login| login["until"] = json!(1));
    let outcome = behind.call("mcp_s_go", json!({})).await;
    assert!(
        outcome
            .result()
            .unwrap_err()
            .message
            .contains("has expired")
    );
    assert_eq!(
        world.server.asked("/mcp").len(),
        asked,
        "the expired token is not sent"
    );
}
