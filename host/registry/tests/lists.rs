//! Lists of tags and referrers: pages, limits, and lies.

use axum::body::Body;
use axum::response::Response;
use http::header;
use mimir_core::ToolErrorCode;
use mimir_registry::{Descriptor, IMAGE_INDEX, IMAGE_MANIFEST, OciDigest, RegistryError};
use serde_json::{Value, json};

use crate::kit::{self, TestRegistry, artifact, client, status};

#[tokio::test]
async fn tags_are_read_page_by_page() {
    let registry = TestRegistry::start().await;
    for tag in ["a", "b", "c", "d", "e", "f", "g"] {
        registry.put_manifest("acme/weather", tag, IMAGE_MANIFEST, b"{}");
    }
    let reference = registry.reference("acme/weather");
    let tags = client().tags(&reference).await.unwrap();
    assert_eq!(tags, ["a", "b", "c", "d", "e", "f", "g"]);
    let error = client()
        .tags(&registry.reference("acme/other"))
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    registry.replace("/tags/", || kit::json(&json!({"name": "x", "tags": null})));
    assert!(client().tags(&reference).await.unwrap().is_empty());
}

#[tokio::test]
async fn tags_without_an_end_are_limited() {
    let registry = TestRegistry::start().await;
    registry.replace("/tags/", || {
        let response =
            Response::builder().header(header::LINK, "</v2/a/tags/list?last=x>; rel=\"next\"");
        response.body(Body::from("{\"tags\": [\"x\"]}")).unwrap()
    });
    let error = client().tags(&registry.reference("a")).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::LimitExceeded, "{error}");
    assert_eq!(registry.take_requests().len(), 100);
}

#[tokio::test]
async fn pages_at_another_host_are_refused() {
    let registry = TestRegistry::start().await;
    let other = TestRegistry::start().await;
    let link = format!("<http://{}/v2/a/tags/list>; rel=next", other.host());
    registry.replace("/v2/", move || {
        let response = Response::builder()
            .header(header::LINK, link.clone())
            .header(header::CONTENT_TYPE, IMAGE_INDEX);
        let body = json!({"schemaVersion": 2, "manifests": [], "tags": []});
        response.body(Body::from(body.to_string())).unwrap()
    });
    let reference = registry.reference("a");
    let error = client().tags(&reference).await.unwrap_err();
    assert!(error.to_string().contains("another host"), "{error}");
    let subject = OciDigest::of_bytes(b"");
    let error = client().referrers(&reference, &subject).await.unwrap_err();
    assert!(error.to_string().contains("another host"), "{error}");
    assert!(other.take_requests().is_empty());
}

fn index(count: usize) -> Value {
    let entries: Vec<Value> = (0..count)
        .map(|number| {
            let digest = OciDigest::of_bytes(&number.to_be_bytes());
            json!({"mediaType": IMAGE_MANIFEST, "digest": digest, "size": 1, "artifactType": "a/b"})
        })
        .collect();
    json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": entries})
}

fn index_response(body: &Value, link: Option<&str>) -> Response {
    let mut response = Response::builder().header(header::CONTENT_TYPE, IMAGE_INDEX);
    if let Some(link) = link {
        response = response.header(header::LINK, link);
    }
    response.body(Body::from(body.to_string())).unwrap()
}

#[tokio::test]
async fn referrers_are_read_page_by_page_and_filtered_here() {
    let registry = TestRegistry::start().await;
    registry.hook(|_, path, _| {
        let page = path.contains("page=2");
        let link = (!page).then_some("</v2/a/referrers/x?page=2>; rel=\"next\"");
        path.contains("/referrers/")
            .then(|| index_response(&index(if page { 3 } else { 2 }), link))
    });
    let reference = registry.reference("a");
    let subject = OciDigest::of_bytes(b"");
    assert_eq!(
        client()
            .referrers(&reference, &subject)
            .await
            .unwrap()
            .len(),
        5
    );
    let filtered = client()
        .referrers_of_type(&reference, &subject, "c/d")
        .await
        .unwrap();
    assert_eq!(filtered, []);
}

#[tokio::test]
async fn referrers_beyond_the_limits_are_refused() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("a");
    let subject = OciDigest::of_bytes(b"");
    registry.replace("/referrers/", || {
        index_response(&index(1), Some("</v2/a/referrers/x>; rel=\"next\""))
    });
    let error = client().referrers(&reference, &subject).await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::LimitExceeded, "{error}");
    registry.clear_hooks();
    registry.replace("/referrers/", || index_response(&index(1001), None));
    assert!(client().referrers(&reference, &subject).await.is_err());
    for (code, is_denied) in [(401, true), (403, true), (429, false), (500, false)] {
        registry.clear_hooks();
        registry.replace("/referrers/", move || status(code));
        // An error must not look like an artifact without signatures.
        let error = client().referrers(&reference, &subject).await.unwrap_err();
        if code != 401 {
            assert_eq!(
                error.code() == ToolErrorCode::PermissionDenied,
                is_denied,
                "{error}"
            );
        }
    }
    registry.clear_hooks();
    registry.replace("/referrers/", || kit::json(&json!({})));
    let error = client().referrers(&reference, &subject).await.unwrap_err();
    assert!(matches!(error, RegistryError::MediaType { .. }), "{error}");
}

#[tokio::test]
async fn fallback_tag_that_is_not_an_index_is_refused() {
    let registry = TestRegistry::without_referrers().await;
    let client = client();
    let reference = registry.reference("a:1");
    let subject = client.push(&reference, &artifact(b"x")).await.unwrap();
    let tag = format!("sha256-{}", subject.hex());
    let decoy = registry.reference(&format!("a:{tag}"));
    client.push(&decoy, &artifact(b"y")).await.unwrap();
    let error = client.referrers(&reference, &subject).await.unwrap_err();
    assert!(matches!(error, RegistryError::MediaType { .. }), "{error}");
    let error = client
        .push_referrer(&reference, &subject, &artifact(b"z"))
        .await;
    assert!(error.is_err());
}

#[tokio::test]
async fn fallback_index_keeps_entries_that_another_client_adds() {
    let registry = std::sync::Arc::new(TestRegistry::without_referrers().await);
    let client = client();
    let reference = registry.reference("a:1");
    let subject = client.push(&reference, &artifact(b"x")).await.unwrap();
    let tag = format!("sha256-{}", subject.hex());
    // The other client replaces the list right after ours was written.
    let theirs = Descriptor::of_bytes(IMAGE_MANIFEST, b"theirs");
    let lost =
        json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": [theirs]}).to_string();
    let stored = std::sync::Arc::clone(&registry);
    let mut reads = 0;
    let path = format!("/manifests/{tag}");
    registry.hook(move |method, uri, _| {
        if *method == http::Method::GET && uri.ends_with(&path) {
            reads += 1;
            if reads == 2 {
                stored.put_manifest("a", &tag, IMAGE_INDEX, lost.as_bytes());
            }
        }
        None
    });
    let ours = client
        .push_referrer(&reference, &subject, &artifact(b"z"))
        .await
        .unwrap();
    let found = client.referrers(&reference, &subject).await.unwrap();
    let digests: Vec<OciDigest> = found.iter().map(|entry| entry.digest).collect();
    assert_eq!(digests, [theirs.digest, ours]);
}
