//! Logins of the users of a shared mimir: each user's calls carry only the own token.

use mimir_core::ToolErrorCode;
use serde_json::{Value, json};

use super::fixture::LoginFixture;
use super::upstream;
use crate::upstream::{Upstream, call, outcome_text};

const ALICE: &str = "oauth-alice";
const BOB: &str = "oauth-bob";

/// Logs this user in, and returns the token.
async fn log_in(fixture: &LoginFixture, user: Option<&str>) -> String {
    let before = tokens(fixture);
    let plan = fixture.servers.plan_for_user("s", user).await.unwrap();
    let plan = plan.unwrap();
    let pending = plan.begin("http://127.0.0.1:4/callback").await.unwrap();
    let answer = fixture.approve_login(pending.url());
    let code = pending.code(&answer).unwrap();
    pending.finish(&code).await.unwrap();
    let mut added = tokens(fixture);
    added.retain(|token| !before.contains(token));
    assert_eq!(added.len(), 1, "{added:?}");
    added.remove(0)
}

/// Returns the access tokens of all stored logins.
fn tokens(fixture: &LoginFixture) -> Vec<String> {
    let all = fixture.logins.all.lock();
    let logins = all.values().map(|text| serde_json::from_str(text).unwrap());
    logins
        .map(|login: Value| login["access"].as_str().unwrap().to_owned())
        .collect()
}

/// Calls the tool for this user.
async fn call_for(upstream: &Upstream, user: Option<&str>) -> mimir_core::Outcome {
    let mut call = call("mcp_s_go", json!({}));
    call.caller = user.map(Into::into);
    upstream.test_server.pipeline.call(call).await
}

/// Returns the tokens of the tool calls that the server has received since the last time.
fn sent(fixture: &LoginFixture, from: &mut usize) -> Vec<String> {
    let requests = fixture.server.requests_to("/mcp");
    let calls = requests.iter().skip(*from);
    let calls = calls.filter(|request| request.body.contains("tools/call"));
    let tokens = calls.map(|request| request.token().unwrap_or_default().to_owned());
    let tokens = tokens.collect();
    *from = requests.len();
    tokens
}

#[tokio::test]
async fn login_of_each_user_is_its_own() {
    let fixture = LoginFixture::new().await;
    let owner = log_in(&fixture, None).await;
    let upstream = upstream(&fixture).await;
    let mut seen = 0;
    assert_eq!(outcome_text(&call_for(&upstream, None).await), "done");
    assert_eq!(sent(&fixture, &mut seen), [owner.as_str()]);

    // A user without a login gets an error with the command, and the owner's token is not used.
    let outcome = call_for(&upstream, Some(ALICE)).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    let command = format!("mimir mcp login s --for-user {ALICE}");
    assert!(error.message.contains(&command), "{error}");
    assert!(error.message.contains("a login of your own"), "{error}");
    assert_eq!(sent(&fixture, &mut seen), [""; 0]);

    let alice = log_in(&fixture, Some(ALICE)).await;
    assert_eq!(
        outcome_text(&call_for(&upstream, Some(ALICE)).await),
        "done"
    );
    assert_eq!(sent(&fixture, &mut seen), [alice.as_str()]);
    // Another user has nothing of it, before and after an own login.
    let outcome = call_for(&upstream, Some(BOB)).await;
    assert!(outcome.result().is_err(), "{}", outcome_text(&outcome));
    let bob = log_in(&fixture, Some(BOB)).await;
    for (user, token) in [(Some(BOB), &bob), (Some(ALICE), &alice), (None, &owner)] {
        assert_eq!(outcome_text(&call_for(&upstream, user).await), "done");
        assert_eq!(sent(&fixture, &mut seen), [token.as_str()], "{user:?}");
    }
    // Ending one login leaves the others.
    fixture
        .servers
        .log_out_user("s", Some(ALICE))
        .await
        .unwrap()
        .unwrap();
    assert!(call_for(&upstream, Some(ALICE)).await.result().is_err());
    assert_eq!(outcome_text(&call_for(&upstream, Some(BOB)).await), "done");
    assert_eq!(outcome_text(&call_for(&upstream, None).await), "done");
    let mut left = tokens(&fixture);
    left.sort();
    let mut expected = [owner, bob];
    expected.sort();
    assert_eq!(left, expected);
}

/// Returns the scopes that the login of this user would request.
async fn requested_scopes(fixture: &LoginFixture, user: &str) -> Vec<String> {
    let plan = fixture.servers.plan_for_user("s", Some(user)).await;
    plan.unwrap().unwrap().facts().scopes.clone()
}

/// The scopes that one user's call needs are not requested by the logins of others, and calls of others do not discard
/// them.
#[tokio::test]
async fn missing_scopes_of_a_user_are_those_of_this_user() {
    let fixture = LoginFixture::new().await;
    log_in(&fixture, None).await;
    let upstream = upstream(&fixture).await;
    log_in(&fixture, Some(ALICE)).await;
    fixture.set(|behavior| behavior.needs = Some("admin:all"));
    let outcome = call_for(&upstream, Some(ALICE)).await;
    let error = outcome.result().unwrap_err();
    assert!(error.message.contains("admin:all"), "{error}");
    assert_eq!(requested_scopes(&fixture, ALICE).await, ["admin:all"]);
    assert_eq!(requested_scopes(&fixture, BOB).await, [""; 0]);
    // A call of a user without a login is rejected with another challenge.
    assert!(call_for(&upstream, Some(BOB)).await.result().is_err());
    assert_eq!(requested_scopes(&fixture, ALICE).await, ["admin:all"]);
    // The login with the scopes discards only the own challenge.
    log_in(&fixture, Some(BOB)).await;
    assert_eq!(requested_scopes(&fixture, ALICE).await, ["admin:all"]);
}

/// The token of each user is renewed and masked like that of the owner.
#[tokio::test]
async fn login_of_a_user_is_renewed_and_masked() {
    let fixture = LoginFixture::new().await;
    log_in(&fixture, None).await;
    let upstream = upstream(&fixture).await;
    let first = log_in(&fixture, Some(ALICE)).await;
    fixture.invalidate_tokens(false);
    fixture.set(|behavior| behavior.echoes = true);
    let text = outcome_text(&call_for(&upstream, Some(ALICE)).await);
    assert!(text.starts_with("done by"), "{text}");
    let renewed = tokens(&fixture);
    assert!(!renewed.contains(&first), "{renewed:?}");
    for token in renewed.iter().chain([&first]) {
        assert!(!text.contains(token.as_str()), "{text}");
    }
}

/// A server whose settings have the credentials is shared, as the settings say.
#[tokio::test]
async fn credentials_of_the_settings_are_those_of_all_users() {
    let fixture = LoginFixture::new().await;
    let token = log_in(&fixture, None).await;
    let settings = json!({"s": {
        "url": format!("{}/mcp", fixture.server.url),
        "headers": {"Authorization": format!("Bearer {token}")},
    }});
    let servers = super::fixture::servers(&settings, &fixture.logins, &fixture.notes);
    let upstream = Upstream::over(servers).open().await;
    for user in [None, Some(ALICE)] {
        assert_eq!(outcome_text(&call_for(&upstream, user).await), "done");
    }
}
