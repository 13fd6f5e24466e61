//! Redirects of blobs: judged hop by hop, and without credentials at another host.

use axum::body::Body;
use axum::response::Response;
use http::header;
use mimir_core::ToolErrorCode;
use mimir_registry::{Credentials, Mirrors};

use crate::kit::{Downloads, TestRegistry, artifact, client, client_with, layer};

fn redirect(location: &str) -> Response {
    let response = Response::builder().status(307);
    let response = response.header(header::LOCATION, location);
    response.body(Body::empty()).unwrap()
}

/// Returns a credential file with a login for a registry.
pub fn login_file(registry: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let login = serde_json::json!({"username": "alice", "password": "pw"});
    let content = serde_json::json!({"auths": {registry: login}});
    std::fs::write(file.path(), content.to_string()).unwrap();
    file
}

#[tokio::test]
async fn redirect_to_a_private_address_is_refused() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("a:1");
    client().push(&reference, &artifact(b"x")).await.unwrap();
    let blob = layer(&client(), &reference).await;
    for location in [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/blob",
        "http://[fd00::1]/blob",
        "http://[::ffff:169.254.169.254]/blob",
        "http://0xa9fea9fe/blob",
        "http://localhost:1/blob",
        "http://metadata.google.internal/blob",
    ] {
        registry.clear_hooks();
        registry.replace("/blobs/", move || redirect(location));
        let downloads = Downloads::new();
        let error = client()
            .pull_blob(&reference, &blob, &downloads.target(), 100)
            .await
            .unwrap_err();
        assert_eq!(
            error.code(),
            ToolErrorCode::PolicyDenied,
            "{location}: {error}"
        );
        assert!(downloads.names().is_empty());
    }
    for location in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://u:p@127.0.0.1/x",
        "//",
        "http://",
    ] {
        registry.clear_hooks();
        registry.replace("/blobs/", move || redirect(location));
        let error = client()
            .read_blob(&reference, &blob, 100)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ToolErrorCode::Network, "{location}: {error}");
    }
}

#[tokio::test]
async fn redirect_to_another_host_carries_no_login() {
    let registry = TestRegistry::start().await;
    let storage = TestRegistry::start().await;
    let reference = registry.reference("a:1");
    client()
        .push(&reference, &artifact(b"content"))
        .await
        .unwrap();
    storage.copy_from(&registry);
    let blob = layer(&client(), &reference).await;
    let location = format!("http://{}/v2/a/blobs/{}", storage.host(), blob.digest);
    registry.hook(move |_, path, headers| {
        if !headers.contains_key(header::AUTHORIZATION) {
            let response = Response::builder().status(401);
            let response = response.header(header::WWW_AUTHENTICATE, "Basic realm=\"x\"");
            return Some(response.body(Body::empty()).unwrap());
        }
        path.contains("/blobs/").then(|| redirect(&location))
    });
    let file = login_file(&registry.host());
    let credentials = Credentials::from_files(vec![file.path().to_owned()], None);
    let client = client_with(credentials, Mirrors::new());
    assert_eq!(
        client.read_blob(&reference, &blob, 100).await.unwrap(),
        b"content"
    );
    let requests = storage.take_requests();
    let [(_, headers)] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert!(!headers.contains_key(header::AUTHORIZATION), "{headers:?}");

    // The other host's challenge is not answered either.
    storage.replace("/blobs/", || {
        let response = Response::builder().status(401);
        let response = response.header(header::WWW_AUTHENTICATE, "Basic realm=\"x\"");
        response.body(Body::empty()).unwrap()
    });
    let error = client.read_blob(&reference, &blob, 100).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::PermissionDenied, "{error}");
    let requests = storage.take_requests();
    assert!(
        requests
            .iter()
            .all(|(_, headers)| !headers.contains_key(header::AUTHORIZATION))
    );
}

#[tokio::test]
async fn redirects_without_an_end_are_limited() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("a:1");
    registry.replace("/manifests/", || redirect("/v2/a/manifests/1"));
    let error = client().manifest(&reference).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::LimitExceeded, "{error}");
}

#[tokio::test]
async fn redirect_of_an_upload_is_refused() {
    let registry = TestRegistry::start().await;
    let other = TestRegistry::start().await;
    let location = format!("http://{}/v2/a/blobs/uploads/", other.host());
    registry.hook(move |method, _, _| (*method == http::Method::POST).then(|| redirect(&location)));
    let error = client()
        .push(&registry.reference("a:1"), &artifact(b"x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not redirected"), "{error}");
    assert!(other.take_requests().is_empty());
}

#[tokio::test]
async fn upload_location_at_another_host_carries_no_login() {
    let registry = TestRegistry::start().await;
    let storage = TestRegistry::start().await;
    let location = format!("http://{}/v2/a/uploads/1?state=%3Astate", storage.host());
    registry.hook(move |method, _, headers| {
        if !headers.contains_key(header::AUTHORIZATION) {
            let response = Response::builder().status(401);
            let response = response.header(header::WWW_AUTHENTICATE, "Basic realm=\"x\"");
            return Some(response.body(Body::empty()).unwrap());
        }
        (*method == http::Method::POST).then(|| {
            let response = Response::builder().status(202);
            let response = response.header(header::LOCATION, &location);
            response.body(Body::empty()).unwrap()
        })
    });
    let file = login_file(&registry.host());
    let credentials = Credentials::from_files(vec![file.path().to_owned()], None);
    let client = client_with(credentials, Mirrors::new());
    client
        .push(&registry.reference("a:1"), &artifact(b"x"))
        .await
        .unwrap();
    let requests = storage.take_requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(
        requests
            .iter()
            .all(|(_, headers)| !headers.contains_key(header::AUTHORIZATION))
    );
}
