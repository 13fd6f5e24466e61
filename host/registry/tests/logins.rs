//! Logins: basic and bearer authentication, with passwords and identity tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, header};
use mimir_core::ToolErrorCode;
use mimir_registry::{Credentials, Mirrors, RegistryClient};
use parking_lot::Mutex;
use serde_json::json;

use crate::kit::{self, TestRegistry, artifact, client, client_with, status};
use crate::redirects::login_file;

fn challenge(text: &str) -> Response {
    let response = Response::builder().status(401);
    let response = response.header(header::WWW_AUTHENTICATE, text);
    response.body(Body::empty()).unwrap()
}

fn logged_in(registry: &TestRegistry) -> (RegistryClient, tempfile::NamedTempFile) {
    let file = login_file(&registry.host());
    let credentials = Credentials::from_files(vec![file.path().to_owned()], None);
    (client_with(credentials, Mirrors::new()), file)
}

/// Lets the registry demand the token that its token server issues. Returns the queries of the token server, with the
/// Authorization header.
fn demand_tokens(
    registry: &TestRegistry,
    tokens: &'static [&'static str],
) -> Arc<Mutex<Vec<String>>> {
    let queries: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&queries);
    let realm = format!(
        "Bearer realm=\"http://{}/token\",service=\"the registry\"",
        registry.host()
    );
    let mut issued = tokens.iter();
    let mut current = "";
    registry.hook(move |method, path, headers| {
        let authorization = headers.get(header::AUTHORIZATION);
        let authorization = authorization.map_or("", |value| value.to_str().unwrap());
        if let Some(query) = path.strip_prefix("/token") {
            seen.lock()
                .push(format!("{method} {query} {authorization}"));
            current = issued.next().unwrap_or(&"last");
            return Some(kit::json(&json!({"token": current, "expires_in": 300})));
        }
        // A token named `once` is accepted once only.
        let is_accepted = !current.is_empty() && authorization == format!("Bearer {current}");
        if current == "once" {
            current = "";
        }
        (!is_accepted).then(|| challenge(&realm))
    });
    queries
}

#[tokio::test]
async fn login_by_bearer_token_is_anonymous_without_credentials() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("acme/weather:1");
    client().push(&reference, &artifact(b"x")).await.unwrap();
    let queries = demand_tokens(&registry, &["first", "second"]);
    let client = client();
    client.manifest(&reference).await.unwrap();
    client.tags(&reference).await.unwrap();
    // One token is enough for both, and a push needs another one.
    let pull = "GET ?scope=repository%3Aacme%2Fweather%3Apull&service=the+registry ";
    assert_eq!(*queries.lock(), [pull]);
    client.push(&reference, &artifact(b"y")).await.unwrap();
    let push = "GET ?scope=repository%3Aacme%2Fweather%3Apull%2Cpush&service=the+registry ";
    assert_eq!(*queries.lock(), [pull, push]);
}

#[tokio::test]
async fn login_by_bearer_token_sends_the_password_to_the_token_server() {
    let registry = TestRegistry::start().await;
    let queries = demand_tokens(&registry, &["first"]);
    let (client, _file) = logged_in(&registry);
    client
        .push(&registry.reference("a:1"), &artifact(b"x"))
        .await
        .unwrap();
    let basic = format!("Basic {}", STANDARD.encode("alice:pw"));
    assert!(queries.lock()[0].ends_with(&basic), "{queries:?}");
    for (line, headers) in registry.take_requests() {
        let is_basic = headers
            .get(header::AUTHORIZATION)
            .is_some_and(|value| value == &*basic);
        assert_eq!(is_basic, line.starts_with("GET /token"), "{line}");
    }
}

#[tokio::test]
async fn login_by_bearer_token_is_renewed_after_it_expired() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("a:1");
    client().push(&reference, &artifact(b"x")).await.unwrap();
    let queries = demand_tokens(&registry, &["once", "second"]);
    let client = client();
    client.manifest(&reference).await.unwrap();
    client.manifest(&reference).await.unwrap();
    assert_eq!(queries.lock().len(), 2);
}

#[tokio::test]
async fn login_by_identity_token_posts_it() {
    let registry = TestRegistry::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let content = json!({"auths": {registry.host(): {"identitytoken": "idt&x"}}});
    std::fs::write(file.path(), content.to_string()).unwrap();
    let credentials = Credentials::from_files(vec![file.path().to_owned()], None);
    let client = client_with(credentials, Mirrors::new());
    let queries = demand_tokens(&registry, &["first"]);
    client
        .push(&registry.reference("a:1"), &artifact(b"x"))
        .await
        .unwrap();
    // The token is in the body, not in the URL.
    assert_eq!(*queries.lock(), ["POST  "]);
}

#[tokio::test]
async fn login_by_basic_authentication_sends_the_password() {
    let registry = TestRegistry::start().await;
    let basic = format!("Basic {}", STANDARD.encode("alice:pw"));
    registry.hook(move |_, _, headers| {
        let authorization = headers.get(header::AUTHORIZATION);
        let is_accepted = authorization.is_some_and(|value| value == &*basic);
        (!is_accepted).then(|| challenge("Basic realm=\"x\""))
    });
    let (client, _file) = logged_in(&registry);
    let reference = registry.reference("a:1");
    client.push(&reference, &artifact(b"x")).await.unwrap();
    client.manifest(&reference).await.unwrap();
    let error = kit::client().manifest(&reference).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::PermissionDenied);
    assert!(
        error
            .to_string()
            .contains("without a login: run `docker login`"),
        "{error}"
    );
}

#[tokio::test]
async fn login_that_is_refused_is_tried_once_and_not_shown() {
    for text in ["Basic realm=\"x\"", "token"] {
        let registry = TestRegistry::start().await;
        let realm = format!("Bearer realm=\"http://{}/token\"", registry.host());
        registry.hook(move |_, path, _| {
            Some(match text {
                "token" if path.starts_with("/token") => {
                    kit::json(&json!({"access_token": "secret-token"}))
                }
                "token" => challenge(&realm),
                text => challenge(text),
            })
        });
        let (client, _file) = logged_in(&registry);
        let error = client
            .manifest(&registry.reference("a:1"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ToolErrorCode::PermissionDenied, "{error}");
        let shown = format!("{error} {error:?} {client:?}");
        assert!(shown.contains("stored login"), "{shown}");
        for secret in ["pw", "secret-token", &STANDARD.encode("alice:pw")] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(registry.take_requests().len() <= 3);
    }
}

#[tokio::test]
async fn login_for_another_registry_is_not_sent() {
    let registry = TestRegistry::start().await;
    let other = TestRegistry::start().await;
    registry.hook(|_, _, _| Some(challenge("Basic realm=\"x\"")));
    let (client, _file) = logged_in(&other);
    let error = client
        .manifest(&registry.reference("a:1"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("without a login"), "{error}");
    let requests = registry.take_requests();
    assert!(
        requests
            .iter()
            .all(|(_, headers)| !headers.contains_key(header::AUTHORIZATION))
    );
}

#[tokio::test]
async fn token_server_that_fails_or_lies_is_an_error() {
    let registry = TestRegistry::start().await;
    let (client, _file) = logged_in(&registry);
    let host = registry.host();
    let own = format!("Bearer realm=\"http://{host}/token\"");
    type Answer = fn() -> Response;
    let cases: [(&str, Answer, &str); 11] = [
        (&own, || status(401), "stored login"),
        (&own, || status(429), "too many requests"),
        (&own, || status(500), "status 500"),
        (&own, || kit::json(&json!({})), "no token"),
        (
            &own,
            || kit::json(&json!({"token": ["secret-token"]})),
            "not valid JSON",
        ),
        (
            &own,
            || kit::json(&json!({"token": "a\nb"})),
            "invalid characters",
        ),
        (&own, kit::endless, "exceeds the limit"),
        ("Bearer service=\"x\"", || status(500), "is missing"),
        (
            "Bearer realm=\"http://auth.example.com/token\"",
            || status(500),
            "has no TLS",
        ),
        (
            "Bearer realm=\"https://169.254.169.254/token\"",
            || status(500),
            "metadata",
        ),
        ("Digest realm=\"x\"", || status(500), "`basic` or `bearer`"),
    ];
    for (text, answer, expected) in cases {
        registry.clear_hooks();
        let text = text.to_owned();
        registry.hook(move |method, path, _| {
            assert_eq!(*method, Method::GET);
            Some(if path.starts_with("/token") {
                answer()
            } else {
                challenge(&text)
            })
        });
        let error = client
            .manifest(&registry.reference("a:1"))
            .await
            .unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(expected), "{expected}: {shown}");
        assert!(
            !shown.contains("secret-token") && !shown.contains("pw"),
            "{shown}"
        );
    }
}
