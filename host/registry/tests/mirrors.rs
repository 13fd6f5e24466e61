//! Mirrors: tried first, checked like the registry, and never used for pushes.

use axum::body::Body;
use axum::response::Response;
use mimir_registry::{Credentials, Mirrors, OciReference, RegistryClient};

use crate::kit::{Downloads, TestRegistry, artifact, client, client_with, layer, status};

/// A registry, its mirror with the same content, and a client that uses both.
async fn mirrored() -> (TestRegistry, TestRegistry, RegistryClient, OciReference) {
    let registry = TestRegistry::start().await;
    let mirror = TestRegistry::start().await;
    let reference = registry.reference("acme/weather:1");
    client()
        .push(&reference, &artifact(b"content"))
        .await
        .unwrap();
    mirror.copy_from(&registry);
    let mirrors = Mirrors::from([(registry.host(), vec![mirror.host()])]);
    let client = client_with(Credentials::default(), mirrors);
    registry.take_requests();
    (registry, mirror, client, reference)
}

#[tokio::test]
async fn mirror_is_tried_first() {
    let (registry, mirror, client, reference) = mirrored().await;
    let blob = layer(&client, &reference).await;
    let downloads = Downloads::new();
    client
        .pull_blob(&reference, &blob, &downloads.target(), 100)
        .await
        .unwrap();
    client.resolve(&reference).await.unwrap();
    assert_eq!(client.tags(&reference).await.unwrap(), ["1"]);
    assert_eq!(mirror.take_requests().len(), 4);
    assert!(registry.take_requests().is_empty());
}

#[tokio::test]
async fn mirror_that_fails_or_lies_is_skipped() {
    let (registry, mirror, client, reference) = mirrored().await;
    let digest = client.resolve(&reference).await.unwrap();
    let pinned = reference.with_digest(digest);
    let blob = layer(&client, &pinned).await;
    for response in [
        || status(404),
        || status(500),
        || Response::new(Body::from("another text")),
        || Response::new(Body::from("contenT")),
    ] {
        mirror.clear_hooks();
        mirror.replace("/v2/", response);
        registry.take_requests();
        assert_eq!(client.manifest(&pinned).await.unwrap().digest, digest);
        let downloads = Downloads::new();
        client
            .pull_blob(&pinned, &blob, &downloads.target(), 100)
            .await
            .unwrap();
        assert_eq!(std::fs::read(downloads.target()).unwrap(), b"content");
        assert_eq!(
            client.read_blob(&pinned, &blob, 100).await.unwrap(),
            b"content"
        );
        assert_eq!(registry.take_requests().len(), 3);
    }
    // The error is that of the registry.
    registry.replace("/v2/", || status(403));
    let error = client.manifest(&pinned).await.unwrap_err().to_string();
    assert!(error.contains(&registry.host()), "{error}");
}

#[tokio::test]
async fn mirror_without_signatures_does_not_hide_them() {
    let (registry, mirror, client, reference) = mirrored().await;
    let subject = client.resolve(&reference).await.unwrap();
    let note = client
        .push_referrer(&reference, &subject, &artifact(b"note"))
        .await
        .unwrap();
    let found = client.referrers(&reference, &subject).await.unwrap();
    assert_eq!(
        found.iter().map(|entry| entry.digest).collect::<Vec<_>>(),
        [note]
    );
    assert!(!registry.take_requests().is_empty());
    // Nothing was pushed to the mirror.
    let requests = mirror.take_requests();
    let is_read = |line: &str| line.starts_with("GET") || line.starts_with("HEAD");
    assert!(
        requests.iter().all(|(line, _)| is_read(line)),
        "{requests:?}"
    );
}

#[tokio::test]
async fn mirror_of_another_spelling_of_the_registry_is_used() {
    let mirror = TestRegistry::start().await;
    let reference = "registry.example.com/a:1".parse().unwrap();
    let key = "Registry.Example.com:443".to_owned();
    let mirrors = Mirrors::from([(key, vec![mirror.host()])]);
    let pushed = client()
        .push(&mirror.reference("a:1"), &artifact(b"x"))
        .await
        .unwrap();
    let client = client_with(Credentials::default(), mirrors);
    assert_eq!(client.resolve(&reference).await.unwrap(), pushed);
}

#[tokio::test]
async fn mirror_with_an_invalid_name_is_an_error() {
    let (registry, _, _, reference) = mirrored().await;
    let mirrors = Mirrors::from([(registry.host(), vec!["mirror.example.com/path".to_owned()])]);
    let client = client_with(Credentials::default(), mirrors);
    let error = client.manifest(&reference).await.unwrap_err().to_string();
    assert!(error.contains("mirror.example.com/path"), "{error}");
}
