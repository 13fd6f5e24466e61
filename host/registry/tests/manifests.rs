//! Manifests: wrong digests, types and sizes, tags that move, and indexes.

use axum::body::Body;
use axum::response::Response;
use http::{Method, header};
use mimir_core::ToolErrorCode;
use mimir_registry::wasm_artifact::find_component;
use mimir_registry::{IMAGE_INDEX, IMAGE_MANIFEST, OciDigest, OciReference, RegistryError};
use serde_json::json;

use crate::kit::{TestRegistry, artifact, client, component, endless, stalled, status};

async fn published() -> (TestRegistry, OciReference, OciDigest) {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("acme/weather:1");
    let digest = client()
        .push(&reference, &artifact(&component(10)))
        .await
        .unwrap();
    (registry, reference, digest)
}

fn respond(media_type: &'static str, body: &'static str) -> impl Fn() -> Response + Send {
    move || {
        let response = Response::builder().header(header::CONTENT_TYPE, media_type);
        response.body(Body::from(body)).unwrap()
    }
}

#[tokio::test]
async fn manifest_with_another_digest_is_refused() {
    let (registry, reference, digest) = published().await;
    let moved = client()
        .push(&reference, &artifact(&component(11)))
        .await
        .unwrap();
    assert_ne!(moved, digest);
    // The tag has moved, and a pinned reference has not.
    assert_eq!(client().resolve(&reference).await.unwrap(), moved);
    let pinned = reference.with_digest(digest);
    assert_eq!(client().manifest(&pinned).await.unwrap().digest, digest);
    // The registry answers the pinned reference with the newer manifest.
    let newer = registry.manifest("acme/weather", "1").unwrap().to_string();
    registry.replace("/manifests/", move || {
        let response = Response::builder().header(header::CONTENT_TYPE, IMAGE_MANIFEST);
        response.body(Body::from(newer.clone())).unwrap()
    });
    let error = client().manifest(&pinned).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::DigestMismatch { .. }),
        "{error}"
    );
    let shown = error.to_string();
    assert!(
        shown.contains(&digest.to_string()) && shown.contains(&registry.host()),
        "{shown}"
    );
}

#[tokio::test]
async fn manifest_that_differs_from_the_claimed_digest_is_refused() {
    let (registry, reference, digest) = published().await;
    registry.hook(|method, path, _| {
        (*method == Method::GET && path.contains("/manifests/")).then(|| {
            let response = Response::builder()
                .header(header::CONTENT_TYPE, IMAGE_MANIFEST)
                .header(
                    "docker-content-digest",
                    OciDigest::of_bytes(b"lie").to_string(),
                );
            response.body(Body::from("{}")).unwrap()
        })
    });
    let error = client().manifest(&reference).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::DigestMismatch { .. }),
        "{error}"
    );
    // The answer to HEAD is a claim, too.
    registry.clear_hooks();
    registry.hook(|method, _, _| {
        (*method == Method::HEAD).then(|| {
            let response = Response::builder().header("docker-content-digest", "sha256:short");
            response.body(Body::empty()).unwrap()
        })
    });
    let error = client().resolve(&reference).await.unwrap_err();
    assert!(matches!(error, RegistryError::Malformed { .. }), "{error}");
    registry.clear_hooks();
    registry.hook(|method, _, _| (*method == Method::HEAD).then(|| status(405)));
    assert_eq!(client().resolve(&reference).await.unwrap(), digest);
}

#[tokio::test]
async fn manifest_with_a_wrong_type_or_content_is_refused() {
    let (registry, reference, _) = published().await;
    for (media_type, body, expected) in [
        ("text/html", "<html>", "media type `text/html`"),
        (
            "text/html",
            "{\"schemaVersion\": 2}",
            "media type `text/html`",
        ),
        (
            IMAGE_INDEX,
            "{\"schemaVersion\": 2, \"manifests\": [], \"layers\": []}",
            "must not have",
        ),
        (IMAGE_MANIFEST, "{\"schemaVersion\": 1}", "expected 2"),
        (
            IMAGE_MANIFEST,
            "{\"schemaVersion\": 2, \"mediaType\": \"application/x\"}",
            "`application/x`",
        ),
        (IMAGE_MANIFEST, "", "cannot be used"),
    ] {
        registry.clear_hooks();
        registry.replace("/manifests/", respond(media_type, body));
        let error = client().manifest(&reference).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{body}: {error}");
        assert_eq!(error.code(), ToolErrorCode::Network, "{error}");
    }
}

#[tokio::test]
async fn manifest_without_an_end_is_limited() {
    let (registry, reference, _) = published().await;
    registry.replace("/manifests/", endless);
    let error = client().manifest(&reference).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::LimitExceeded, "{error}");
    registry.clear_hooks();
    registry.replace("/manifests/", || stalled(b"{".to_vec()));
    let error = crate::kit::impatient_client()
        .manifest(&reference)
        .await
        .unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::Timeout, "{error}");
}

#[tokio::test]
async fn manifest_errors_name_the_registry_and_the_remedy() {
    let (registry, reference, _) = published().await;
    for (code, kind, text) in [
        (403, ToolErrorCode::PermissionDenied, "the right to pull"),
        (404, ToolErrorCode::NotFound, "check the name"),
        (429, ToolErrorCode::Unavailable, "try again later"),
        (500, ToolErrorCode::Network, "try again later"),
    ] {
        registry.clear_hooks();
        registry.replace("/manifests/", move || status(code));
        let error = client().manifest(&reference).await.unwrap_err();
        let shown = error.to_string();
        assert_eq!(error.code(), kind, "{shown}");
        assert!(
            shown.contains(text) && shown.contains(&registry.host()),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    let missing = registry.reference("acme/other:1");
    registry.clear_hooks();
    assert!(
        client()
            .manifest(&missing)
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(client().resolve(&missing).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn manifest_of_an_unreachable_registry_is_a_network_error() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let reference: OciReference = format!("{address}/a/b:1").parse().unwrap();
    let error = client().manifest(&reference).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::Network, "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn manifest_of_an_index_is_that_for_wasm() {
    let (registry, reference, digest) = published().await;
    let size = registry
        .manifest("acme/weather", "1")
        .unwrap()
        .to_string()
        .len();
    let entry = |digest: &OciDigest, size: usize, architecture: &str, os: &str| {
        json!({"mediaType": IMAGE_MANIFEST, "digest": digest, "size": size,
               "platform": {"architecture": architecture, "os": os}})
    };
    let other = OciDigest::of_bytes(b"other");
    let index = |entries: serde_json::Value| {
        json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": entries}).to_string()
    };
    let good = index(json!([
        entry(&other, 1, "amd64", "linux"),
        entry(&digest, size, "wasm", "wasip2")
    ]));
    registry.put_manifest("acme/weather", "many", IMAGE_INDEX, good.as_bytes());
    let many = registry.reference("acme/weather:many");
    let found = client().manifest(&many).await.unwrap();
    assert_eq!(found.digest, digest);
    assert_eq!(found.named_digest(), client().resolve(&many).await.unwrap());
    assert_eq!(found.named_digest(), OciDigest::of_bytes(good.as_bytes()));
    assert_eq!(find_component(&found).unwrap().component.size, 10);

    let wrong_size = index(json!([entry(&digest, size + 1, "wasm", "wasip2")]));
    registry.put_manifest("acme/weather", "many", IMAGE_INDEX, wrong_size.as_bytes());
    let error = client().manifest(&many).await.unwrap_err();
    assert!(matches!(error, RegistryError::Size { .. }), "{error}");

    let without = index(json!([entry(&other, 1, "amd64", "linux")]));
    registry.put_manifest("acme/weather", "many", IMAGE_INDEX, without.as_bytes());
    let found = client().manifest(&many).await.unwrap();
    let error = find_component(&found).unwrap_err().to_string();
    assert!(error.contains("`linux/amd64`"), "{error}");
    assert!(reference.is_loopback());
}
