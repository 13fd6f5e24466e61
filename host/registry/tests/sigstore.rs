//! The npm packages of sigstore as third parties: they judge bundles of ours, and ours judges theirs.
//! `.ci/registries` installs them into the folder that MIMIR_TEST_SIGSTORE names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::{TrustLayer, TrustRule};
use mimir_registry::OciDigest;
use mimir_registry::signature::{
    FoundSignature, KeyAlgorithm, SignatureBundle, Signer, SigningKey, TrustPolicy, TrustRoot,
};
use serde_json::{Value, json};

/// The folder with the packages.
fn packages() -> PathBuf {
    let folder = std::env::var_os("MIMIR_TEST_SIGSTORE");
    PathBuf::from(folder.unwrap())
}

/// Runs a script beside the packages, from which node resolves imports. Returns its output.
fn node(script: &str, args: &[&Path]) -> String {
    let packages = packages();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sigstore");
    // Each run has its own copy, because tests run at the same time.
    let copy = tempfile::Builder::new()
        .suffix(".mjs")
        .tempfile_in(&packages)
        .unwrap();
    std::fs::copy(source.join(script), copy.path()).unwrap();
    let output = Command::new("node")
        .arg(copy.path())
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns the verdict of npm `@sigstore/verify` about a bundle.
fn judge(bundle: &Value, key: &SigningKey, manifest: &OciDigest) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (file, public) = (
        folder.path().join("bundle.json"),
        folder.path().join("key.pub"),
    );
    std::fs::write(&file, bundle.to_string()).unwrap();
    std::fs::write(&public, key.verifying_key().to_pem()).unwrap();
    node("judge.mjs", &[&file, &public, Path::new(&manifest.hex())])
}

#[test]
#[ignore = "needs npm packages, which .ci/registries installs"]
fn sigstore_verifier_accepts_our_bundle_and_refuses_changes() {
    for algorithm in KeyAlgorithm::ALL {
        let key = SigningKey::generate(algorithm).unwrap();
        let other = SigningKey::generate(algorithm).unwrap();
        let manifest = OciDigest::of_bytes(b"manifest");
        let bundle = SignatureBundle::sign_manifest(&manifest, "weather", &key).unwrap();
        let bundle: Value = serde_json::from_slice(&bundle.to_json().unwrap()).unwrap();
        assert_eq!(judge(&bundle, &key, &manifest), "verified", "{algorithm}");
        // Another key.
        assert!(judge(&bundle, &other, &manifest).starts_with("refused"));
        // A changed layer changes the digest of the manifest.
        let changed_layer = OciDigest::of_bytes(b"manifest with another layer");
        assert_eq!(
            judge(&bundle, &key, &changed_layer),
            "about another artifact"
        );
        // A changed statement.
        let mut changed = bundle.clone();
        let payload = changed["dsseEnvelope"]["payload"].as_str().unwrap();
        let statement = String::from_utf8(STANDARD.decode(payload).unwrap()).unwrap();
        let statement = statement.replace(&manifest.hex(), &changed_layer.hex());
        changed["dsseEnvelope"]["payload"] = STANDARD.encode(statement).into();
        assert!(judge(&changed, &key, &changed_layer).starts_with("refused"));
    }
}

/// Returns a policy that trusts this subject.
fn keyless_policy(root: &Value, subject: &str) -> TrustPolicy {
    let rules: Vec<TrustRule> = serde_json::from_value(json!([{
        "registry": "registry.example.com/*",
        "identities": [{"issuer": "https://issuer.example.com", "subject": subject}],
    }]))
    .unwrap();
    let root = TrustRoot::from_json(root.to_string().as_bytes()).unwrap();
    TrustPolicy::from_settings(&rules, Some((root, TrustLayer::User)), None, |_| {
        Ok(Vec::new())
    })
    .unwrap()
}

#[test]
#[ignore = "needs npm packages, which .ci/registries installs"]
fn keyless_bundle_of_sigstore_is_verified() {
    let manifest = OciDigest::of_bytes(b"manifest");
    let folder = tempfile::tempdir().unwrap();
    let statement = folder.path().join("statement.json");
    let text = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "", "digest": {"sha256": manifest.hex()}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {},
    });
    std::fs::write(&statement, text.to_string()).unwrap();
    let [made, other, with_timestamp] = ["P-384", "P-384", "P-256"].map(|curve| {
        let printed = node("keyless.mjs", &[&statement, Path::new(curve)]);
        serde_json::from_str::<Value>(&printed).unwrap()
    });
    let check = |bundle: &Value, root: &Value, subject: &str, manifest: &OciDigest| {
        let bundle = SignatureBundle::from_json(bundle.to_string().as_bytes()).unwrap();
        let found = [FoundSignature::from_bundle("test", bundle)];
        let reference = "registry.example.com/acme/weather:1".parse().unwrap();
        keyless_policy(root, subject).check(&reference, manifest, &found, SystemTime::now())
    };
    let (bundle, root) = (&made["bundle"], &made["root"]);
    let subject = "https://code.example.com/acme/weather";
    let expected = Signer::Identity {
        issuer: "https://issuer.example.com".to_owned(),
        subject: subject.to_owned(),
        signed_as: None,
    };
    assert_eq!(
        check(bundle, root, subject, &manifest).unwrap(),
        Some(expected)
    );
    // The timestamp of a log of certificates, and its absence in a root that requires another log.
    let (timestamped, timestamped_root) = (&with_timestamp["bundle"], &with_timestamp["root"]);
    assert!(timestamped_root["ctlogs"][0].is_object());
    check(timestamped, timestamped_root, subject, &manifest).unwrap();
    let mut other_log = timestamped_root.clone();
    other_log["ctlogs"] = other_log["tlogs"].clone();
    let error = check(timestamped, &other_log, subject, &manifest).unwrap_err();
    assert!(
        error.to_string().contains("certificate timestamp (SCT)"),
        "{error}"
    );
    // Another authority and log, another identity, another artifact, the entry of another signature.
    assert!(check(bundle, &other["root"], subject, &manifest).is_err());
    assert!(
        check(
            bundle,
            root,
            "https://code.example.com/acme/other",
            &manifest
        )
        .is_err()
    );
    assert!(check(bundle, root, subject, &OciDigest::of_bytes(b"another")).is_err());
    let mut mixed = bundle.clone();
    let entries = "/verificationMaterial/tlogEntries";
    *mixed.pointer_mut(entries).unwrap() = other["bundle"].pointer(entries).unwrap().clone();
    assert!(check(&mixed, root, subject, &manifest).is_err());
}
