//! Signatures in a registry: with and without the referrers API, in the older form, and what a hostile registry does.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::{TrustLayer, TrustRule};
use mimir_registry::signature::{
    BUNDLE_MEDIA_TYPE, KeyAlgorithm, SignatureBundle, SignatureError, Signer, SigningKey,
    TrustPolicy, find_signatures,
};
use mimir_registry::{NewArtifact, NewLayer, OciDigest, OciReference};
use serde_json::json;

use crate::kit::{TestRegistry, artifact, client, component, endless};

/// A pushed component in a registry, and the key of its author.
struct PushedTool {
    reference: OciReference,
    manifest: OciDigest,
    key: SigningKey,
}

impl PushedTool {
    async fn new(registry: &TestRegistry) -> Self {
        let reference = registry.reference("acme/weather:1.2");
        Self {
            manifest: client()
                .push(&reference, &artifact(&component(500)))
                .await
                .unwrap(),
            key: SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap(),
            reference,
        }
    }

    async fn sign(&self, key: &SigningKey) {
        let bundle = SignatureBundle::sign_manifest(&self.manifest, "weather", key).unwrap();
        self.push_referrer(&bundle.to_artifact().unwrap()).await;
    }

    async fn push_referrer(&self, artifact: &NewArtifact) {
        let pushed = client()
            .push_referrer(&self.reference, &self.manifest, artifact)
            .await;
        pushed.unwrap();
    }

    /// Checks the signatures in the registry with the author's key.
    async fn check(&self) -> Result<Option<Signer>, SignatureError> {
        let found = find_signatures(&client(), &self.reference, &self.manifest).await?;
        let rule = TrustRule {
            registry: "*".to_owned(),
            keys: vec![self.key.verifying_key().to_pem()],
            identities: Vec::new(),
            layer: TrustLayer::default(),
        };
        let policy = TrustPolicy::from_settings(&[rule], None, None, |_| Ok(Vec::new()))?;
        policy.check(&self.reference, &self.manifest, &found, SystemTime::now())
    }
}

/// Returns an artifact with a layer of this type.
fn referrer(media_type: &str, bytes: &[u8], annotations: &[(&str, &str)]) -> NewArtifact {
    let annotations = annotations.iter();
    let annotations = annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    NewArtifact {
        artifact_type: Some(media_type.to_owned()),
        config: (
            "application/vnd.oci.empty.v1+json".to_owned(),
            b"{}".to_vec(),
        ),
        layers: vec![NewLayer {
            media_type: media_type.to_owned(),
            bytes: bytes.to_vec(),
            annotations: annotations.collect(),
        }],
        annotations: BTreeMap::new(),
    }
}

#[tokio::test]
async fn signature_is_found_with_and_without_the_referrers_api() {
    for registry in [
        TestRegistry::start().await,
        TestRegistry::without_referrers().await,
    ] {
        let tool = PushedTool::new(&registry).await;
        let unsigned = tool.check().await.unwrap_err();
        assert!(
            matches!(unsigned, SignatureError::Unsigned { .. }),
            "{unsigned}"
        );
        // The signature of a stranger is not enough, and does not harm.
        tool.sign(&SigningKey::generate(KeyAlgorithm::Ed25519).unwrap())
            .await;
        let untrusted = tool.check().await.unwrap_err();
        assert!(
            matches!(untrusted, SignatureError::Untrusted { .. }),
            "{untrusted}"
        );
        tool.sign(&tool.key).await;
        let id = tool.key.verifying_key().id();
        let signer = tool.check().await.unwrap();
        assert!(matches!(signer, Some(Signer::Key { id: signer, .. }) if signer == id));
    }
}

#[tokio::test]
async fn signature_in_the_older_form_is_found() {
    let registry = TestRegistry::without_referrers().await;
    let tool = PushedTool::new(&registry).await;
    let payload = json!({"critical": {
        "identity": {"docker-reference": "acme/weather"}, "type": "cosign container image signature",
        "image": {"docker-manifest-digest": tool.manifest.to_string()},
    }})
    .to_string();
    let signature = STANDARD.encode(tool.key.sign(payload.as_bytes()).unwrap());
    let tag = format!("sha256-{}.sig", tool.manifest.hex());
    let tagged = tool.reference.with_tag(&tag).unwrap();
    let signed = |signature: &str| {
        let annotations = [("dev.cosignproject.cosign/signature", signature)];
        let media_type = "application/vnd.dev.cosign.simplesigning.v1+json";
        referrer(media_type, payload.as_bytes(), &annotations)
    };
    client().push(&tagged, &signed("AAAA")).await.unwrap();
    assert!(matches!(
        tool.check().await,
        Err(SignatureError::Untrusted { .. })
    ));
    client().push(&tagged, &signed(&signature)).await.unwrap();
    assert!(matches!(tool.check().await, Ok(Some(Signer::Key { .. }))));
}

#[tokio::test]
async fn signature_of_another_manifest_does_not_count() {
    let registry = TestRegistry::start().await;
    let tool = PushedTool::new(&registry).await;
    // The author's real signature of another version, attached to this one: a downgrade, or a replaced component.
    let other = registry.reference("acme/weather:1.1");
    let other = client()
        .push(&other, &artifact(&component(400)))
        .await
        .unwrap();
    let bundle = SignatureBundle::sign_manifest(&other, "weather", &tool.key).unwrap();
    tool.push_referrer(&bundle.to_artifact().unwrap()).await;
    let error = tool.check().await.unwrap_err().to_string();
    assert!(error.contains("about another artifact"), "{error}");
}

#[tokio::test]
async fn damaged_signatures_do_not_hide_a_valid_one() {
    let registry = TestRegistry::start().await;
    let tool = PushedTool::new(&registry).await;
    for bytes in [&b"no bundle"[..], b"{}", "[".repeat(10_000).as_bytes()] {
        tool.push_referrer(&referrer(BUNDLE_MEDIA_TYPE, bytes, &[]))
            .await;
    }
    tool.push_referrer(&referrer("application/vnd.example.sbom", b"{}", &[]))
        .await;
    let error = tool.check().await.unwrap_err().to_string();
    assert!(
        error.contains("the signature bundle is not valid"),
        "{error}"
    );
    tool.sign(&tool.key).await;
    assert!(tool.check().await.is_ok());
}

#[tokio::test]
async fn registry_that_replaces_or_withholds_a_signature_is_refused() {
    let registry = TestRegistry::start().await;
    let tool = PushedTool::new(&registry).await;
    tool.sign(&tool.key).await;
    // Other content, content without an end, and errors in place of the bundle.
    registry.replace("/blobs/", || crate::kit::json(&json!({"mediaType": "x"})));
    let error = tool.check().await.unwrap_err();
    assert!(matches!(error, SignatureError::Untrusted { .. }), "{error}");
    registry.clear_hooks();
    registry.replace("/blobs/", endless);
    let error = tool.check().await.unwrap_err();
    assert!(matches!(error, SignatureError::Untrusted { .. }), "{error}");
    registry.clear_hooks();
    registry.replace("/referrers/", || crate::kit::status(500));
    let error = tool.check().await.unwrap_err();
    assert!(matches!(error, SignatureError::Registry(_)), "{error}");
    registry.clear_hooks();
    let empty =
        json!({"schemaVersion": 2, "mediaType": mimir_registry::IMAGE_INDEX, "manifests": []});
    registry.replace("/referrers/", move || {
        axum::response::Response::builder()
            .header("content-type", mimir_registry::IMAGE_INDEX)
            .body(axum::body::Body::from(empty.to_string()))
            .unwrap()
    });
    let error = tool.check().await.unwrap_err();
    assert!(matches!(error, SignatureError::Unsigned { .. }), "{error}");
}
