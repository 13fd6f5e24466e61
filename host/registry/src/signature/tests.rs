//! Keys, bundles and the trust policy with keys, and attacks on each.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::{TrustLayer, TrustRule};
use serde_json::{Value, json};

use super::*;
use crate::digest::OciDigest;
use crate::reference::OciReference;

pub(super) fn reference() -> OciReference {
    "registry.example.com/acme/weather:1.2".parse().unwrap()
}

pub(super) fn manifest() -> OciDigest {
    OciDigest::of_bytes(b"the manifest")
}

pub(super) fn rules(rules: Value) -> Vec<TrustRule> {
    serde_json::from_value(rules).unwrap()
}

fn key(algorithm: KeyAlgorithm) -> SigningKey {
    SigningKey::generate(algorithm).unwrap()
}

/// Returns a policy that trusts these keys for all artifacts of `acme`.
fn policy_of(keys: &[&SigningKey]) -> TrustPolicy {
    let keys: Vec<_> = keys
        .iter()
        .map(|key| key.verifying_key().to_pem())
        .collect();
    let rules = rules(json!([{"registry": "registry.example.com/acme/*", "keys": keys}]));
    TrustPolicy::from_settings(&rules, None, None, |_| unreachable!("all keys are PEM")).unwrap()
}

fn found(bundle: &SignatureBundle) -> FoundSignature {
    FoundSignature::from_bundle("test", bundle.clone())
}

/// Checks the signature of a bundle in JSON.
fn check_json(policy: &TrustPolicy, bundle: &Value) -> Result<Option<Signer>, SignatureError> {
    let bundle = SignatureBundle::from_json(bundle.to_string().as_bytes())?;
    policy.check(
        &reference(),
        &manifest(),
        &[found(&bundle)],
        SystemTime::now(),
    )
}

fn bundle_json(key: &SigningKey) -> Value {
    let bundle = SignatureBundle::sign_manifest(&manifest(), "weather", key).unwrap();
    serde_json::from_slice(&bundle.to_json().unwrap()).unwrap()
}

/// Returns a bundle with any payload, signed by the key.
fn bundle_with_payload(payload_type: &str, payload: &str, key: &SigningKey) -> Value {
    let envelope = DsseEnvelope::sign(payload_type, payload.as_bytes(), key).unwrap();
    let mut bundle = bundle_json(key);
    bundle["dsseEnvelope"] = serde_json::to_value(envelope).unwrap();
    bundle
}

const IN_TOTO: &str = "application/vnd.in-toto+json";

#[test]
fn keys_survive_pem_and_encryption() {
    for algorithm in KeyAlgorithm::ALL {
        let key = key(algorithm);
        let pem = key.to_encrypted_pem(b"correct horse").unwrap();
        assert!(pem.starts_with("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n"));
        let old = pem.replace("SIGSTORE", "COSIGN");
        for pem in [pem.as_bytes(), old.as_bytes()] {
            let read = SigningKey::from_pem(pem, Some(b"correct horse")).unwrap();
            assert_eq!(read.verifying_key(), key.verifying_key());
        }
        let signature = key.sign(b"message").unwrap();
        let public = VerifyingKey::from_pem(key.verifying_key().to_pem().as_bytes()).unwrap();
        assert_eq!(public.id(), key.verifying_key().id());
        assert!(public.verifies(b"message", &signature));
        assert!(!public.verifies(b"massage", &signature));
        assert!(matches!(
            SigningKey::from_pem(pem.as_bytes(), Some(b"wrong")),
            Err(SignatureError::WrongPassword)
        ));
        assert!(matches!(
            SigningKey::from_pem(pem.as_bytes(), None),
            Err(SignatureError::PasswordRequired)
        ));
        assert!(!format!("{key:?}").contains("pkcs8"), "{key:?}");
    }
}

#[test]
fn keys_from_openssl_are_read() {
    // openssl genpkey -algorithm ed25519; openssl pkey -pubout
    let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";
    let key = SigningKey::from_pem(private.as_bytes(), None).unwrap();
    // The first key of RFC 8032, section 7.1.
    let expected = VerifyingKey::from_pem(public.as_bytes()).unwrap();
    assert_eq!(key.verifying_key(), &expected);
    assert_eq!(expected.to_pem(), public);
}

#[test]
fn keys_in_the_format_of_cosign_are_read() {
    // Written by hashlib.scrypt, PyNaCl and `cryptography`, with the cost of older versions of cosign.
    let private = "-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----
eyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjozMjc2OCwiciI6
OCwicCI6MX0sInNhbHQiOiJ6ZTJ6eDZJdkRtQ3NGMFYyV1JUYUlJRHZZUHpoUis1
ZGZsaVVPWU5mbXJZPSJ9LCJjaXBoZXIiOnsibmFtZSI6Im5hY2wvc2VjcmV0Ym94
Iiwibm9uY2UiOiJNY2dOR0Y3M3RsbHBSbWxTTGtDWTlJQkJJQjFTd2dlbiJ9LCJj
aXBoZXJ0ZXh0IjoiOG5XRm1BaTYrN2E4RElhR1BYeUNOOG5SVFQ2c1MzOW82aUFT
dU5VMURUbFpEbml4WUNVYXNsanRkN0piUXd4R0R2amk1MHI4VkVUdG1UTjRzdWZI
Z3NXS2FWdmU2dmJidWNnOTRKRlFpRXJNS1d0SkRYVHJHVkhvOFhSZ2lEelUrTmRp
L25Za09BQkd5QXZCMzd4dHVLbFBIU21KamVacWl0cWs2MWRON3QyU2hFdTRqTlNY
ZzRTdVUxeUJoM3M4bTcrY2p1U25YS0krREE9PSJ9
-----END ENCRYPTED COSIGN PRIVATE KEY-----\n";
    let public = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0B2an5R+nyR7pGMtU8ReqmXV7Zrz
Ul/aIRQ6ZZnQjHwEFDRxcdRzfepucka+ZlLVJrBIPxEZgUSKiHs8lCu18w==
-----END PUBLIC KEY-----\n";
    let key = SigningKey::from_pem(private.as_bytes(), Some(b"correct horse")).unwrap();
    assert_eq!(key.verifying_key().to_pem(), public);
}

#[test]
fn hostile_key_files_are_refused() {
    let pem = |label: &str, content: &[u8]| super::pem::write(label, content);
    let encrypted = |cost: u64, r: u32, p: u32| {
        let file = json!({
            "kdf": {"name": "scrypt", "params": {"N": cost, "r": r, "p": p}, "salt": STANDARD.encode([0; 32])},
            "cipher": {"name": "nacl/secretbox", "nonce": STANDARD.encode([0; 24])},
            "ciphertext": STANDARD.encode([0; 64]),
        });
        pem(
            "ENCRYPTED SIGSTORE PRIVATE KEY",
            file.to_string().as_bytes(),
        )
    };
    let out_of_range = "parameters of scrypt are out of range";
    for (text, why) in [
        // Gigabytes of memory, or hours of time.
        (encrypted(1 << 40, 8, 1), out_of_range),
        (encrypted(1 << 16, u32::MAX, 1), out_of_range),
        (encrypted(1 << 16, 8, u32::MAX), out_of_range),
        (encrypted(u64::MAX, 1, 1), out_of_range),
        (encrypted(3, 8, 1), out_of_range),
        (encrypted(0, 8, 1), out_of_range),
        (encrypted(2, 0, 1), out_of_range),
        (
            encrypted(2, 1, 1),
            "the password of the private key is wrong",
        ),
        (pem("ENCRYPTED SIGSTORE PRIVATE KEY", b"{}"), "not valid"),
        (
            pem("RSA PRIVATE KEY", b"x"),
            "unsupported private key `RSA PRIVATE KEY`",
        ),
        (
            pem("PRIVATE KEY", b"x"),
            "unsupported private key: expected",
        ),
        ("no key".to_owned(), "expected a private key in PEM"),
        (
            "-----BEGIN PRIVATE KEY-----\n%\n-----END PRIVATE KEY-----".to_owned(),
            "in PEM",
        ),
        ("x".repeat(MAX_KEY_FILE + 1), "at most 64 KB"),
    ] {
        let error = SigningKey::from_pem(text.as_bytes(), Some(b"x")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let point = key(KeyAlgorithm::EcdsaP256).verifying_key().spki().to_vec();
    let compressed = [&point[..26], &[2], &point[27..]].concat();
    for spki in [&point[..90], &compressed, &[&point[..], &[0]].concat(), &[]] {
        let error = VerifyingKey::from_pem(pem("PUBLIC KEY", spki).as_bytes()).unwrap_err();
        assert!(
            error.to_string().contains("unsupported public key"),
            "{error}"
        );
    }
}

#[test]
fn signed_manifest_is_accepted_with_its_signer() {
    for algorithm in KeyAlgorithm::ALL {
        let key = key(algorithm);
        let signer = check_json(&policy_of(&[&key]), &bundle_json(&key)).unwrap();
        let id = key.verifying_key().id();
        let name = id[..12].to_owned();
        let signed_as = None;
        assert_eq!(
            signer,
            Some(Signer::Key {
                id,
                name,
                signed_as
            })
        );
    }
}

#[test]
fn another_key_another_artifact_and_other_statements_are_refused() {
    let trusted = key(KeyAlgorithm::EcdsaP256);
    let other = key(KeyAlgorithm::EcdsaP256);
    let policy = policy_of(&[&trusted]);
    let statement = |change: fn(&mut Value)| {
        let mut statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicate": {},
            "subject": [{"name": "", "digest": {"sha256": manifest().hex()}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1",
        });
        change(&mut statement);
        statement.to_string()
    };
    let valid = statement(|_| ());
    assert!(check_json(&policy, &bundle_with_payload(IN_TOTO, &valid, &trusted)).is_ok());
    let another = OciDigest::of_bytes(b"another").hex();
    let repeated_digest = valid.replace(
        &format!("\"sha256\":\"{}\"", manifest().hex()),
        &format!(
            "\"sha256\":\"{another}\",\"sha256\":\"{}\"",
            manifest().hex()
        ),
    );
    assert_ne!(repeated_digest, valid);
    let repeated_subject = valid.replace(
        "\"subject\":",
        &format!("\"subject\":[{{\"digest\":{{\"sha256\":\"{another}\"}}}}],\"subject\":"),
    );
    assert_ne!(repeated_subject, valid);
    for (bundle, why) in [
        (bundle_json(&other), "none of the trusted keys"),
        (
            bundle_with_payload("application/json", &valid, &trusted),
            "its payload is not application/vnd.in-toto+json",
        ),
        (
            bundle_with_payload(
                IN_TOTO,
                &statement(|it| it["subject"][0]["digest"]["sha256"] = "00".into()),
                &trusted,
            ),
            "about another artifact",
        ),
        (
            bundle_with_payload(IN_TOTO, &valid.to_uppercase(), &trusted),
            "not valid",
        ),
        (
            bundle_with_payload(
                IN_TOTO,
                &statement(|it| {
                    let subject = it["subject"][0].clone();
                    it["subject"] = json!([subject, {"digest": {"sha256": "00"}}]);
                }),
                &trusted,
            ),
            "about another artifact",
        ),
        (
            bundle_with_payload(
                IN_TOTO,
                &statement(|it| it["subject"] = json!([])),
                &trusted,
            ),
            "about another artifact",
        ),
        (
            bundle_with_payload(
                IN_TOTO,
                &statement(|it| it["subject"][0]["digest"] = json!({"sha512": manifest().hex()})),
                &trusted,
            ),
            "about another artifact",
        ),
        (
            bundle_with_payload(
                IN_TOTO,
                &statement(|it| it["_type"] = "https://in-toto.io/Statement/v0.1".into()),
                &trusted,
            ),
            "not valid",
        ),
        (
            bundle_with_payload(IN_TOTO, &repeated_digest, &trusted),
            "duplicate field",
        ),
        (
            bundle_with_payload(IN_TOTO, &repeated_subject, &trusted),
            "duplicate field",
        ),
    ] {
        let error = check_json(&policy, &bundle).unwrap_err().to_string();
        assert!(error.contains(why), "expected {why:?}, found {error:?}");
    }
    // Provenance by the trusted key says nothing about who signed.
    let provenance = statement(|it| it["predicateType"] = "https://slsa.dev/provenance/v1".into());
    let error = check_json(
        &policy,
        &bundle_with_payload(IN_TOTO, &provenance, &trusted),
    );
    assert!(matches!(error, Err(SignatureError::Unsigned { .. })));
}

#[test]
fn changed_bundles_are_refused() {
    let key = key(KeyAlgorithm::EcdsaP256);
    let policy = policy_of(&[&key]);
    let original = bundle_json(&key);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut bundle = original.clone();
        change(&mut bundle);
        check_json(&policy, &bundle).unwrap_err().to_string()
    };
    let payload = original["dsseEnvelope"]["payload"].as_str().unwrap();
    let signature = original["dsseEnvelope"]["signatures"][0].clone();
    let sig = signature["sig"].as_str().unwrap();
    for (pointer, value, why) in [
        (
            "/dsseEnvelope/payload",
            json!(STANDARD.encode("{}")),
            "none of the trusted keys",
        ),
        // Encodings with the same meaning.
        (
            "/dsseEnvelope/payload",
            json!(format!("{payload}\n")),
            "not Base64",
        ),
        (
            "/dsseEnvelope/payload",
            json!(payload.trim_end_matches('=').to_owned() + "===="),
            "not Base64",
        ),
        (
            "/dsseEnvelope/signatures/0/sig",
            json!(format!(" {sig}")),
            "not Base64",
        ),
        (
            "/dsseEnvelope/payloadType",
            json!("application/json"),
            "none of the trusted keys",
        ),
        ("/dsseEnvelope/signatures", json!([]), "0 signatures"),
        (
            "/dsseEnvelope/signatures",
            json!([signature, signature]),
            "exactly one signature",
        ),
        (
            "/dsseEnvelope/signatures",
            json!(vec![&signature; 1000]),
            "1000 signatures",
        ),
        ("/dsseEnvelope", Value::Null, "no `dsseEnvelope`"),
        (
            "/mediaType",
            json!("application/vnd.dev.sigstore.bundle+json;version=0.1"),
            "unsupported media type",
        ),
        (
            "/mediaType",
            json!("x\u{1b}[31m".repeat(1000)),
            "unsupported media type",
        ),
        (
            "/verificationMaterial/certificate",
            json!({"rawBytes": "AAAA"}),
            "keyless",
        ),
        (
            "/verificationMaterial/certificate",
            json!({"rawBytes": "%"}),
            "not Base64",
        ),
    ] {
        let error = changed(&|bundle| match bundle.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => bundle["verificationMaterial"]["certificate"] = value.clone(),
        });
        assert!(error.contains(why), "expected {why:?}, found {error:?}");
        assert!(error.len() < 800 && !error.contains('\u{1b}'), "{error}");
    }
    // Hints prove nothing: neither does a wrong one harm, nor a right one help.
    let mut hinted = original.clone();
    hinted["verificationMaterial"]["publicKey"]["hint"] = "someone else".into();
    hinted["dsseEnvelope"]["signatures"][0]["keyid"] = "someone else".into();
    assert!(check_json(&policy, &hinted).is_ok());
    let stranger = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let mut lying = bundle_json(&stranger);
    lying["verificationMaterial"] = original["verificationMaterial"].clone();
    assert!(check_json(&policy, &lying).is_err());
}

#[test]
fn huge_and_deep_bundles_are_refused() {
    let deep = "[".repeat(200_000);
    let nested = format!(r#"{{"mediaType":"{BUNDLE_MEDIA_TYPE}","verificationMaterial":{deep}"#);
    for json in [deep.as_bytes(), nested.as_bytes(), b"", b"{}", b"\xff\xfe"] {
        assert!(SignatureBundle::from_json(json).is_err());
        assert!(DsseEnvelope::from_json(json).is_err());
        assert!(TrustRoot::from_json(json).is_err());
    }
    let huge = vec![b' '; MAX_BUNDLE + 1];
    let error = SignatureBundle::from_json(&huge).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn revoked_keys_do_not_count() {
    let (old, new) = (key(KeyAlgorithm::Ed25519), key(KeyAlgorithm::Ed25519));
    let policy = policy_of(&[&old, &new]).revoke([old.verifying_key().id()]);
    let error = check_json(&policy, &bundle_json(&old))
        .unwrap_err()
        .to_string();
    assert!(error.contains("is revoked"), "{error}");
    let both = [&old, &new]
        .map(|key| found(&SignatureBundle::sign_manifest(&manifest(), "weather", key).unwrap()));
    let signer = policy
        .check(&reference(), &manifest(), &both, SystemTime::now())
        .unwrap();
    let id = new.verifying_key().id();
    assert!(matches!(signer, Some(Signer::Key { id: signer, .. }) if signer == id));
}

#[test]
fn older_signatures_are_read() {
    let key = key(KeyAlgorithm::EcdsaP256);
    let policy = policy_of(&[&key]);
    let check = |payload: &str, signed: &str| {
        let signature = STANDARD.encode(key.sign(signed.as_bytes()).unwrap());
        let annotations = [("dev.cosignproject.cosign/signature", signature.as_str())];
        let found = [FoundSignature::from_simple(
            payload.as_bytes().to_vec(),
            &annotations,
        )];
        policy.check(&reference(), &manifest(), &found, SystemTime::now())
    };
    let payload = json!({"critical": {
        "identity": {"docker-reference": "registry.example.com/acme/weather"},
        "image": {"docker-manifest-digest": manifest().to_string()},
        "type": "cosign container image signature",
    }, "optional": null})
    .to_string();
    assert!(matches!(
        check(&payload, &payload),
        Ok(Some(Signer::Key { .. }))
    ));
    assert!(check(&payload, "another payload").is_err());
    for (from, to) in [
        (
            manifest().to_string(),
            OciDigest::of_bytes(b"another").to_string(),
        ),
        (
            "cosign container image signature".to_owned(),
            "atomic container signature".to_owned(),
        ),
        ("critical".to_owned(), "optional".to_owned()),
    ] {
        let changed = payload.replace(&from, &to);
        assert!(check(&changed, &changed).is_err(), "{changed}");
    }
}

#[test]
fn most_specific_rule_counts_and_teams_come_first() {
    let [general, special, team] = [(); 3].map(|()| key(KeyAlgorithm::Ed25519));
    let pem = |key: &SigningKey| key.verifying_key().to_pem();
    let mut settings = rules(json!([
        {"registry": "*", "keys": [pem(&general)]},
        {"registry": "registry.example.com/acme/weather", "keys": [pem(&special)]},
        {"registry": "registry.example.com/acme/*", "keys": [pem(&general)]},
    ]));
    let check = |settings: &[TrustRule], key: &SigningKey, reference: &str| {
        let policy = TrustPolicy::from_settings(settings, None, None, |_| unreachable!()).unwrap();
        let bundle = SignatureBundle::sign_manifest(&manifest(), "", key).unwrap();
        let reference = reference.parse().unwrap();
        policy
            .check(
                &reference,
                &manifest(),
                &[found(&bundle)],
                SystemTime::now(),
            )
            .is_ok()
    };
    let weather = "registry.example.com/acme/weather:1";
    let nested = "registry.example.com/acme/weather/beta:1";
    assert!(check(&settings, &special, weather));
    assert!(!check(&settings, &general, weather));
    assert!(check(&settings, &general, nested));
    assert!(check(&settings, &general, "other.example.com/x/y"));
    assert!(!check(&settings, &special, "other.example.com/x/y"));
    // A user's rule, even a more specific one, does not replace the team's.
    settings.push(TrustRule {
        layer: TrustLayer::Team(1),
        ..rules(json!([{"registry": "registry.example.com/*", "keys": [pem(&team)]}])).remove(0)
    });
    assert!(check(&settings, &team, weather));
    assert!(!check(&settings, &special, weather));
    assert!(check(&settings, &general, "other.example.com/x/y"));
}

/// Returns a rule of a layer that trusts one key.
fn rule(layer: TrustLayer, registry: &str, key: &SigningKey) -> TrustRule {
    let keys = [key.verifying_key().to_pem()];
    TrustRule {
        layer,
        ..rules(json!([{"registry": registry, "keys": keys}])).remove(0)
    }
}

/// Checks a manifest that `key` has signed under `name`.
fn check_signed_by(
    settings: &[TrustRule],
    required_by: Option<TrustLayer>,
    key: &SigningKey,
    name: &str,
) -> Result<Option<Signer>, SignatureError> {
    let load = |_: &str| unreachable!();
    let policy = TrustPolicy::from_settings(settings, None, required_by, load).unwrap();
    let bundle = SignatureBundle::sign_manifest(&manifest(), name, key).unwrap();
    let now = SystemTime::now();
    policy.check(&reference(), &manifest(), &[found(&bundle)], now)
}

#[test]
fn rule_of_a_layer_above_is_not_replaced_by_a_more_specific_one() {
    let [machine, own] = [(); 2].map(|()| key(KeyAlgorithm::Ed25519));
    let layers = [
        TrustLayer::Project,
        TrustLayer::User,
        TrustLayer::Team(1),
        TrustLayer::Team(2),
    ];
    // A team that the user has joined, and the user's own file, come after the machine's file.
    for pair in layers.windows(2) {
        for first in [0, 1] {
            let mut settings = vec![
                rule(pair[1], "registry.example.com/*", &machine),
                rule(pair[0], "registry.example.com/acme/weather", &own),
            ];
            settings.rotate_left(first);
            let check = |key| check_signed_by(&settings, None, key, "");
            assert!(check(&machine).is_ok(), "{pair:?}");
            let error = check(&own).unwrap_err();
            assert!(matches!(error, SignatureError::Untrusted { .. }), "{error}");
        }
    }
}

#[test]
fn required_signature_needs_a_rule_of_the_same_layer_or_above() {
    let key = key(KeyAlgorithm::Ed25519);
    let required = Some(TrustLayer::Team(1));
    let check = |layer| {
        let settings = [rule(layer, "registry.example.com/acme/*", &key)];
        check_signed_by(&settings, required, &key, "")
    };
    for layer in [TrustLayer::Project, TrustLayer::User] {
        let error = check(layer).unwrap_err();
        assert!(matches!(error, SignatureError::NoRule { .. }), "{error}");
    }
    for layer in [TrustLayer::Team(1), TrustLayer::Team(2)] {
        assert!(matches!(check(layer), Ok(Some(_))), "{layer:?}");
    }
}

#[test]
fn signature_of_another_repository_is_refused_and_another_tag_is_reported() {
    let key = key(KeyAlgorithm::Ed25519);
    let settings = [rule(TrustLayer::User, "*", &key)];
    let check = |name: &str| check_signed_by(&settings, None, &key, name);
    let signed_as = |name: &str| {
        let signer = check(name).unwrap().unwrap();
        signer.signed_as().map(str::to_owned)
    };
    let digest = manifest();
    for name in [
        "",
        "weather",
        "acme/other",
        "registry.example.com/acme/weather",
        "registry.example.com/acme/weather:1.2",
        "registry.example.com:443/acme/weather:1.2",
        &format!("registry.example.com/acme/weather@{digest}"),
    ] {
        assert_eq!(signed_as(name), None, "{name}");
    }
    let other = "registry.example.com/acme/weather:1.1";
    assert_eq!(signed_as(other).as_deref(), Some(other));
    let signer = check(other).unwrap().unwrap();
    let shown = format!("signed as {other}");
    assert!(signer.to_string().ends_with(&shown), "{signer}");
    for name in [
        "registry.example.com/acme/mail:1.2",
        "registry.example.com/acme/mail",
        "registry.example.com:5000/acme/weather:1.2",
        "other.example.com/acme/weather:1.2",
        &format!("registry.example.com/acme/mail@{digest}"),
    ] {
        let error = check(name).unwrap_err().to_string();
        assert!(error.contains("in another repository"), "{error}");
    }
    // A signature of this tag comes before one of another.
    let bundles = [other, "registry.example.com/acme/weather:1.2"]
        .map(|name| SignatureBundle::sign_manifest(&manifest(), name, &key).unwrap());
    let bundles = bundles.map(|bundle| found(&bundle));
    let policy = policy_of(&[&key]);
    let signer = policy.check(&reference(), &manifest(), &bundles, SystemTime::now());
    assert_eq!(signer.unwrap().unwrap().signed_as(), None);
}

#[test]
fn unsigned_artifacts_are_refused_where_a_signature_is_required() {
    let key = key(KeyAlgorithm::Ed25519);
    let check = |policy: &TrustPolicy, reference: &str| {
        let reference = reference.parse().unwrap();
        policy.check(&reference, &manifest(), &[], SystemTime::now())
    };
    let policy = policy_of(&[&key]);
    let error = check(&policy, "registry.example.com/acme/weather").unwrap_err();
    assert!(error.to_string().contains("is not signed"), "{error}");
    assert_eq!(
        mimir_core::ToolError::from(error).code,
        mimir_core::ToolErrorCode::PolicyDenied
    );
    assert!(matches!(
        check(&policy, "registry.example.com/other/weather"),
        Ok(None)
    ));
    let strict =
        TrustPolicy::from_settings(&[], None, Some(TrustLayer::User), |_| unreachable!()).unwrap();
    let error = check(&strict, "registry.example.com/other/weather").unwrap_err();
    assert!(matches!(error, SignatureError::NoRule { .. }));
}

#[test]
fn names_of_keys_are_loaded_but_not_for_teams() {
    let key = key(KeyAlgorithm::Ed25519);
    let mut settings = rules(json!([{"registry": "*", "keys": ["release"]}]));
    let load = |name: &str| {
        assert_eq!(name, "release");
        Ok(vec![NamedKey {
            name: name.to_owned(),
            key: key.verifying_key().clone(),
        }])
    };
    let policy = TrustPolicy::from_settings(&settings, None, None, load).unwrap();
    let signer = check_json(&policy, &bundle_json(&key)).unwrap().unwrap();
    assert!(signer.to_string().starts_with("release (key "), "{signer}");
    settings[0].layer = TrustLayer::Team(1);
    let error = TrustPolicy::from_settings(&settings, None, None, load).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a team's rule cannot use `release`"),
        "{error}"
    );
}

#[test]
fn provenance_is_read_with_its_signer() {
    let (trusted, other) = (key(KeyAlgorithm::Ed25519), key(KeyAlgorithm::Ed25519));
    let statement = |digest: &OciDigest, predicate_type: &str, predicate: Value| {
        json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate_type,
            "subject": [{"name": "x", "digest": {"sha256": digest.hex()}}], "predicate": predicate,
        })
        .to_string()
    };
    let v1 = json!({
        "buildDefinition": {
            "buildType": "https://build.example.com/v1",
            "externalParameters": {"workflow": {"repository": "https://code.example.com/acme/weather"}},
            "resolvedDependencies": [{"uri": "git+https://code.example.com", "digest": {"gitCommit": "abc"}}],
        },
        "runDetails": {"builder": {"id": "https://builder.example.com\u{1b}[2J"}},
    });
    let v02 = json!({
        "builder": {"id": "old builder"}, "buildType": "t",
        "invocation": {"configSource": {"uri": "git+https://code.example.com/old", "digest": {"sha1": "def"}}},
    });
    let found: Vec<_> = [
        (
            manifest(),
            "https://slsa.dev/provenance/v1",
            v1.clone(),
            &trusted,
        ),
        (manifest(), "https://slsa.dev/provenance/v0.2", v02, &other),
        (
            OciDigest::of_bytes(b"another"),
            "https://slsa.dev/provenance/v1",
            v1,
            &trusted,
        ),
    ]
    .into_iter()
    .map(|(digest, predicate_type, predicate, key)| {
        let payload = statement(&digest, predicate_type, predicate);
        let bundle = bundle_with_payload(IN_TOTO, &payload, key).to_string();
        found(&SignatureBundle::from_json(bundle.as_bytes()).unwrap())
    })
    .collect();
    let policy = policy_of(&[&trusted]);
    let read = policy.provenance(&reference(), &[manifest()], &found, SystemTime::now());
    assert_eq!(read.len(), 2);
    assert_eq!(
        read[0].source.as_deref(),
        Some("https://code.example.com/acme/weather")
    );
    assert_eq!(read[0].commit.as_deref(), Some("abc"));
    let builder = read[0].builder.as_deref().unwrap();
    assert!(builder.starts_with("https://builder.example.com") && !builder.contains('\u{1b}'));
    assert!(matches!(read[0].signer, Some(Signer::Key { .. })));
    assert_eq!(read[1].commit.as_deref(), Some("def"));
    assert_eq!(read[1].signer, None);
}
