//! Pushes, and what they leave in the registry.

use mimir_core::ToolErrorCode;
use mimir_registry::{IMAGE_MANIFEST, NewArtifact, NewLayer, OciDigest, RegistryError};
use serde_json::json;

use crate::kit::{self, TestRegistry, artifact, client, component, status};

#[tokio::test]
async fn push_stores_the_cncf_layout() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("acme/weather:1.2");
    let content = component(1000);
    let digest = client()
        .push(&reference, &artifact(&content))
        .await
        .unwrap();
    let stored = registry.manifest("acme/weather", "1.2").unwrap();
    let config = &artifact(&content).config.1;
    assert_eq!(
        stored,
        json!({
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "config": {
                "mediaType": "application/vnd.wasm.config.v0+json",
                "digest": OciDigest::of_bytes(config),
                "size": config.len(),
            },
            "layers": [{
                "mediaType": "application/wasm",
                "digest": OciDigest::of_bytes(&content),
                "size": 1000,
            }],
            "annotations": {
                "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
                "org.opencontainers.image.title": "weather",
            },
        })
    );
    assert_eq!(client().resolve(&reference).await.unwrap(), digest);
    let pulled = client()
        .manifest(&reference.with_digest(digest))
        .await
        .unwrap();
    assert_eq!((pulled.digest, pulled.named_digest()), (digest, digest));
}

#[tokio::test]
async fn push_sends_each_blob_once() {
    let registry = TestRegistry::start().await;
    let client = client();
    let content = artifact(&component(10));
    client
        .push(&registry.reference("acme/weather:1"), &content)
        .await
        .unwrap();
    registry.take_requests();
    client
        .push(&registry.reference("acme/weather:2"), &content)
        .await
        .unwrap();
    let lines: Vec<String> = registry
        .take_requests()
        .into_iter()
        .map(|(line, _)| line)
        .collect();
    assert!(
        lines.iter().all(|line| !line.starts_with("POST")),
        "{lines:?}"
    );
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("PUT")).count(),
        1,
        "{lines:?}"
    );
}

#[tokio::test]
async fn push_errors_name_the_registry_and_the_remedy() {
    let registry = TestRegistry::start().await;
    let reference = registry.reference("acme/weather:1");
    for (code, kind, text) in [
        (403, ToolErrorCode::PermissionDenied, "the right to push"),
        (404, ToolErrorCode::NotFound, "acme/weather"),
        (429, ToolErrorCode::Unavailable, "too many requests"),
        (500, ToolErrorCode::Network, "try again later"),
        (418, ToolErrorCode::Network, "status 418"),
    ] {
        for method in ["POST", "PUT"] {
            registry.clear_hooks();
            registry.hook(move |found, _, _| (found == method).then(|| status(code)));
            let error = client()
                .push(&reference, &artifact(b"x"))
                .await
                .unwrap_err();
            let shown = error.to_string();
            assert_eq!(error.code(), kind, "{shown}");
            assert!(
                shown.contains(text) && shown.contains(&registry.host()),
                "{shown}"
            );
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }
    registry.clear_hooks();
    assert!(registry.manifest("acme/weather", "1").is_none());
}

#[tokio::test]
async fn push_to_a_wrong_digest_sends_nothing() {
    let registry = TestRegistry::start().await;
    let other = OciDigest::of_bytes(b"other");
    let reference = registry.reference("acme/weather:1").with_digest(other);
    let error = client()
        .push(&reference, &artifact(b"x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("push to a tag"), "{error}");
    assert!(registry.take_requests().is_empty());
}

#[tokio::test]
async fn push_of_an_oversized_manifest_sends_nothing() {
    let registry = TestRegistry::start().await;
    let mut large = artifact(b"x");
    large
        .annotations
        .insert("x".to_owned(), "y".repeat(5 << 20));
    let error = client()
        .push(&registry.reference("a/b:1"), &large)
        .await
        .unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::LimitExceeded);
    assert!(registry.take_requests().is_empty());
}

#[tokio::test]
async fn push_notices_another_digest_of_the_registry() {
    let registry = TestRegistry::start().await;
    registry.hook(|method, path, _| {
        let claimed = OciDigest::of_bytes(b"lie").to_string();
        (*method == http::Method::PUT && path.contains("/manifests/")).then(|| {
            let response = axum::response::Response::builder().status(201);
            let response = response.header("docker-content-digest", claimed);
            response.body(axum::body::Body::empty()).unwrap()
        })
    });
    let error = client()
        .push(&registry.reference("a/b:1"), &artifact(b"x"))
        .await;
    assert!(
        matches!(error, Err(RegistryError::DigestMismatch { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn push_of_a_referrer_uses_the_api_or_the_fallback_tag() {
    for has_api in [true, false] {
        let registry = if has_api {
            TestRegistry::start().await
        } else {
            TestRegistry::without_referrers().await
        };
        let client = client();
        let reference = registry.reference("acme/weather:1");
        let subject = client.push(&reference, &artifact(b"x")).await.unwrap();
        assert_eq!(client.referrers(&reference, &subject).await.unwrap(), []);
        let mut expected = vec![];
        for number in 0..3 {
            let referrer = referrer("application/vnd.example.note", number);
            let digest = client
                .push_referrer(&reference, &subject, &referrer)
                .await
                .unwrap();
            expected.push(digest);
        }
        let other = referrer("application/vnd.example.other+json", 9);
        let other = client
            .push_referrer(&reference, &subject, &other)
            .await
            .unwrap();
        // The same referrer twice is one entry.
        let again = referrer("application/vnd.example.note", 0);
        client
            .push_referrer(&reference, &subject, &again)
            .await
            .unwrap();

        let found = client.referrers(&reference, &subject).await.unwrap();
        assert_eq!(found.len(), 4, "{found:?}");
        let notes = client
            .referrers_of_type(&reference, &subject, "application/vnd.example.note")
            .await
            .unwrap();
        let mut digests: Vec<OciDigest> = notes.iter().map(|note| note.digest).collect();
        digests.sort();
        expected.sort();
        assert_eq!(digests, expected);
        let others = client
            .referrers_of_type(&reference, &subject, "application/vnd.example.other+json")
            .await
            .unwrap();
        assert_eq!(
            others.iter().map(|entry| entry.digest).collect::<Vec<_>>(),
            [other]
        );

        let tag = format!("sha256-{}", subject.hex());
        let index = registry.manifest("acme/weather", &tag);
        assert_eq!(index.is_none(), has_api, "{index:?}");
        // The referrer names its subject, and the tag of the subject is unchanged.
        let note = client
            .manifest(&reference.with_digest(other))
            .await
            .unwrap();
        assert_eq!(
            note.image().unwrap().subject.as_ref().unwrap().digest,
            subject
        );
        assert_eq!(client.resolve(&reference).await.unwrap(), subject);
    }
}

#[tokio::test]
async fn push_of_a_referrer_needs_its_subject() {
    let registry = TestRegistry::start().await;
    let missing = OciDigest::of_bytes(b"missing");
    let reference = registry.reference("a/b:1");
    let error = kit::client()
        .push_referrer(&reference, &missing, &referrer("application/x", 1))
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

fn referrer(artifact_type: &str, number: u8) -> NewArtifact {
    NewArtifact {
        artifact_type: Some(artifact_type.to_owned()),
        config: NewArtifact::empty_config(),
        layers: vec![NewLayer {
            media_type: artifact_type.to_owned(),
            bytes: vec![number],
            annotations: Default::default(),
        }],
        annotations: Default::default(),
    }
}
