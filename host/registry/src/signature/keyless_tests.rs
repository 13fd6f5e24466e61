//! Keyless signatures: vectors with an authority and a log of this test, and an attack on each link.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::TrustLayer;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType, date_time_ymd,
};
use serde_json::{Value, json};

use super::bundle::SigningMaterial;
use super::log_entry::*;
use super::merkle::{leaf_hash, tests::prove};
use super::tests::{manifest, reference, rules};
use super::*;
use crate::digest::OciDigest;

mod certificate_timestamps;

/// The time of the log: 2025-10-09. The certificates are valid on that day.
const TIME: u64 = 1_760_000_000;
const DAY: u64 = 86_400;
const ISSUER: &str = "https://issuer.example.com";
const SUBJECT: &str =
    "https://code.example.com/acme/weather/.github/workflows/release.yml@refs/tags/v1";
const ISSUER_EXTENSION: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 8];
const OLD_ISSUER_EXTENSION: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 1];

type CertificateIssuer = CertifiedIssuer<'static, KeyPair>;

/// A root and an intermediate authority.
struct TestAuthority {
    root: Vec<u8>,
    intermediate: CertificateIssuer,
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl TestAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(authority_params("root"), key).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = authority_params("intermediate");
        Self {
            intermediate: CertifiedIssuer::signed_by(params, key, &root).unwrap(),
            root: root.der().to_vec(),
        }
    }

    /// Issues a certificate as the test changes it. Returns it with its key.
    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> (SigningKey, Vec<u8>) {
        self.issue_for(&KeyPair::generate().unwrap(), change)
    }

    /// Issues a certificate for this key.
    fn issue_for(
        &self,
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (SigningKey, Vec<u8>) {
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(2025, 10, 9);
        params.not_after = date_time_ymd(2025, 10, 10);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.subject_alt_names = vec![SanType::URI(SUBJECT.try_into().unwrap())];
        params.custom_extensions = vec![issuer_extension(ISSUER)];
        change(&mut params);
        let certificate = params.signed_by(key, &self.intermediate).unwrap();
        let signing = SigningKey::from_pem(key.serialize_pem().as_bytes(), None).unwrap();
        (signing, certificate.der().to_vec())
    }
}

fn issuer_extension(issuer: &str) -> CustomExtension {
    let der = [&[0x0c, issuer.len() as u8], issuer.as_bytes()].concat();
    CustomExtension::from_oid_content(&ISSUER_EXTENSION, der)
}

/// A log with one key.
struct TestLog(SigningKey);

impl TestLog {
    fn new() -> Self {
        Self(SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap())
    }

    /// Returns the entry with this content in a tree of eleven entries.
    fn add(&self, body: &Value, time: u64) -> LogEntry {
        let body = body.to_string();
        let mut entry = LogEntry {
            log_index: DecimalNumber(123_456),
            log_id: LogId::default(),
            kind_version: LogEntryKind::default(),
            integrated_time: DecimalNumber(time),
            inclusion_promise: None,
            inclusion_proof: Some(self.prove(body.as_bytes())),
            canonicalized_body: STANDARD.encode(&body),
        };
        self.promise(&mut entry);
        entry
    }

    /// Signs the entry and its time.
    fn promise(&self, entry: &mut LogEntry) {
        // Written apart from the code that is tested.
        let promised = json!({
            "body": entry.canonicalized_body, "integratedTime": entry.integrated_time.0,
            "logID": self.0.verifying_key().id(), "logIndex": entry.log_index.0,
        });
        let signature = self.0.sign(promised.to_string().as_bytes()).unwrap();
        entry.inclusion_promise = Some(InclusionPromise {
            signed_entry_timestamp: STANDARD.encode(signature),
        });
    }

    fn prove(&self, body: &[u8]) -> InclusionProof {
        let mut leaves: Vec<_> = (0..11_u8).map(|at| leaf_hash(&[at])).collect();
        leaves[6] = leaf_hash(body);
        let (root, hashes) = prove(&leaves, 6);
        InclusionProof {
            log_index: DecimalNumber(6),
            root_hash: STANDARD.encode(root),
            tree_size: DecimalNumber(11),
            hashes: hashes.iter().map(|hash| STANDARD.encode(hash)).collect(),
            checkpoint: self.checkpoint(11, &STANDARD.encode(root)),
        }
    }

    fn checkpoint(&self, size: u64, root: &str) -> LogCheckpoint {
        let text = format!("log.example.com - 1\n{size}\n{root}\n");
        let signature = self.0.sign(text.as_bytes()).unwrap();
        let signature = STANDARD.encode([&[1, 2, 3, 4], signature.as_slice()].concat());
        LogCheckpoint {
            envelope: format!("{text}\n\u{2014} log.example.com {signature}\n"),
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    OciDigest::of_bytes(bytes).hex()
}

/// Returns the content of a log entry about an envelope.
fn dsse_body(envelope: &DsseEnvelope, certificate: &[u8]) -> Value {
    let json = envelope.to_json().unwrap();
    let parsed: Value = serde_json::from_slice(&json).unwrap();
    let payload = envelope.unverified_payload().unwrap();
    json!({
        "apiVersion": "0.0.1", "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": sha256(&json)},
            "payloadHash": {"algorithm": "sha256", "value": sha256(&payload)},
            "signatures": [{
                "signature": parsed["signatures"][0]["sig"],
                "verifier": STANDARD.encode(super::pem::write("CERTIFICATE", certificate)),
            }],
        },
    })
}

/// A signature, what it is verified with, and the settings.
struct KeylessVector {
    authority: TestAuthority,
    log: TestLog,
    key: SigningKey,
    certificate: Vec<u8>,
    envelope: DsseEnvelope,
    entry: LogEntry,
    trust: Value,
    layer: TrustLayer,
    root: Value,
    now: SystemTime,
}

impl KeylessVector {
    fn new() -> Self {
        let (authority, log) = (TestAuthority::new(), TestLog::new());
        let (key, certificate) = authority.issue(|_| ());
        let bundle = SignatureBundle::sign_manifest(&manifest(), "weather", &key).unwrap();
        let entry = log.add(&dsse_body(&bundle.envelope, &certificate), TIME);
        let root = json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{"baseUrl": "https://log.example.com", "publicKey": {
                "rawBytes": STANDARD.encode(log.0.verifying_key().spki()),
                "validFor": {"start": "2021-01-01T00:00:00Z"},
            }}],
            "certificateAuthorities": [{
                "certChain": {"certificates": [
                    {"rawBytes": STANDARD.encode(authority.intermediate.der())},
                    {"rawBytes": STANDARD.encode(&authority.root)},
                ]},
                "validFor": {"start": "2021-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
            }],
            "timestampAuthorities": [], "ctlogs": [],
        });
        Self {
            key,
            certificate,
            envelope: bundle.envelope,
            entry,
            trust: json!([{"registry": "registry.example.com/*", "identities": [
                {"issuer": ISSUER, "subject": "https://code.example.com/acme/**"},
            ]}]),
            layer: TrustLayer::User,
            root,
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(TIME + 30 * DAY),
            authority,
            log,
        }
    }

    /// Replaces the certificate, and signs and logs again.
    fn reissue(&mut self, change: impl FnOnce(&mut CertificateParams)) {
        (self.key, self.certificate) = self.authority.issue(change);
        self.sign_again();
    }

    fn sign_again(&mut self) {
        let bundle = SignatureBundle::sign_manifest(&manifest(), "weather", &self.key).unwrap();
        self.envelope = bundle.envelope;
        self.log_again(TIME);
    }

    fn log_again(&mut self, time: u64) {
        let body = dsse_body(&self.envelope, &self.certificate);
        self.entry = self.log.add(&body, time);
    }

    /// Logs a changed content.
    fn log_changed(&mut self, change: impl FnOnce(&mut Value)) {
        let mut body = dsse_body(&self.envelope, &self.certificate);
        change(&mut body);
        self.entry = self.log.add(&body, TIME);
    }

    fn policy(&self) -> TrustPolicy {
        let root = match &self.root {
            Value::Null => None,
            root => {
                let root = TrustRoot::from_json(root.to_string().as_bytes()).unwrap();
                Some((root, TrustLayer::User))
            }
        };
        let mut rules = rules(self.trust.clone());
        rules.iter_mut().for_each(|rule| rule.layer = self.layer);
        TrustPolicy::from_settings(&rules, root, None, |_| unreachable!()).unwrap()
    }

    fn check(&self) -> Result<Option<Signer>, SignatureError> {
        let bundle = SignatureBundle {
            envelope: self.envelope.clone(),
            material: SigningMaterial {
                certificate: Some(self.certificate.clone()),
                log_entries: vec![self.entry.clone()],
                ..SigningMaterial::default()
            },
        };
        // Through JSON, so that reading and writing of certificates and entries is tested, too.
        let bundle = SignatureBundle::from_json(&bundle.to_json().unwrap())?;
        let found = [FoundSignature::from_bundle("test", bundle)];
        self.policy()
            .check(&reference(), &manifest(), &found, self.now)
    }
}

#[test]
fn trust_root_of_a_layer_below_the_rule_does_not_count() {
    let mut vector = KeylessVector::new();
    assert!(vector.check().is_ok());
    // The authority of a user issues certificates for every identity that a team trusts.
    vector.layer = TrustLayer::Team(1);
    let error = vector.check().unwrap_err().to_string();
    assert!(
        error.contains("`trustRoot` is not set in the file"),
        "{error}"
    );
}

#[test]
fn keyless_signature_is_accepted_with_its_identity() {
    let signer = KeylessVector::new().check().unwrap();
    let expected = Signer::Identity {
        issuer: ISSUER.to_owned(),
        subject: SUBJECT.to_owned(),
        signed_as: None,
    };
    assert_eq!(signer, Some(expected));
    // An email address, and the issuer in the older extension only.
    let mut vector = KeylessVector::new();
    vector.reissue(|params| {
        params.subject_alt_names = vec![SanType::Rfc822Name("ada@example.com".try_into().unwrap())];
        let old = CustomExtension::from_oid_content(&OLD_ISSUER_EXTENSION, ISSUER.into());
        params.custom_extensions = vec![old];
    });
    vector.trust[0]["identities"][0]["subject"] = "*@example.com".into();
    let signer = vector.check().unwrap().unwrap().to_string();
    assert_eq!(signer, "ada@example.com (https://issuer.example.com)");
    // The kind of entries for envelopes that older clients write.
    let mut vector = KeylessVector::new();
    vector.log_changed(|body| {
        let spec = &body["spec"];
        let signature = spec["signatures"][0]["signature"].as_str().unwrap();
        *body = json!({"apiVersion": "0.0.2", "kind": "intoto", "spec": {"content": {
            "envelope": {"signatures": [{
                "sig": STANDARD.encode(signature), "publicKey": spec["signatures"][0]["verifier"],
            }]},
            "payloadHash": spec["payloadHash"],
        }}});
    });
    assert!(vector.check().is_ok());
}

#[test]
fn keyless_attack_on_each_link_is_refused() {
    type Attack = (&'static str, fn(&mut KeylessVector), &'static str);
    let attacks: &[Attack] = &[
        (
            "expired certificate",
            |it| it.log_again(TIME + 3 * DAY),
            "its chain does not hold",
        ),
        (
            "certificate not yet valid",
            |it| it.log_again(TIME - 3 * DAY),
            "its chain does not hold",
        ),
        (
            "another authority",
            |it| {
                it.authority = TestAuthority::new();
                it.reissue(|_| ());
            },
            "its chain does not hold",
        ),
        (
            "certificate for servers",
            |it| {
                it.reissue(|params| {
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
                })
            },
            "its chain does not hold",
        ),
        (
            "certificate without purpose",
            |it| it.reissue(|params| params.extended_key_usages = Vec::new()),
            "not for signing code",
        ),
        (
            "certificate of an authority",
            |it| it.reissue(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            "its chain does not hold",
        ),
        (
            "authority no longer in use",
            |it| {
                it.root["certificateAuthorities"][0]["validFor"]["end"] =
                    "2025-01-01T00:00:00Z".into()
            },
            "no certificate authority was in use",
        ),
        (
            "another log",
            |it| {
                it.log = TestLog::new();
                it.log_again(TIME);
            },
            "no log of the trust root has signed it",
        ),
        (
            "log no longer in use",
            |it| {
                it.root["tlogs"][0]["publicKey"]["validFor"]["end"] = "2025-01-01T00:00:00Z".into()
            },
            "the log was not in use",
        ),
        (
            "another time than the log has signed",
            |it| it.entry.integrated_time.0 += 1,
            "no log of the trust root has signed it",
        ),
        (
            "time in the future",
            |it| it.now = SystemTime::UNIX_EPOCH + Duration::from_secs(TIME - DAY),
            "is in the future",
        ),
        (
            "no signed time",
            |it| it.entry.inclusion_promise = None,
            "the log has not signed a time",
        ),
        (
            "no time",
            |it| it.entry.integrated_time.0 = 0,
            "the log has not signed a time",
        ),
        (
            "no inclusion proof",
            |it| it.entry.inclusion_proof = None,
            "no inclusion proof",
        ),
        (
            "proof of another entry",
            |it| it.entry.inclusion_proof = Some(it.log.prove(b"another")),
            "its inclusion proof does not hold",
        ),
        (
            "proof of another tree",
            |it| {
                let body = STANDARD.decode(&it.entry.canonicalized_body).unwrap();
                it.entry.inclusion_proof = Some(TestLog::new().prove(&body));
            },
            "the log has not signed its checkpoint",
        ),
        (
            "checkpoint of another tree",
            |it| {
                let checkpoint = it.log.prove(b"another").checkpoint;
                it.entry.inclusion_proof.as_mut().unwrap().checkpoint = checkpoint;
            },
            "its checkpoint is that of another tree",
        ),
        (
            "checkpoint of another size",
            |it| {
                let root = it.entry.inclusion_proof.as_ref().unwrap().root_hash.clone();
                let checkpoint = it.log.checkpoint(12, &root);
                it.entry.inclusion_proof.as_mut().unwrap().checkpoint = checkpoint;
            },
            "its checkpoint is that of another tree",
        ),
        (
            "index outside of the tree",
            |it| it.entry.inclusion_proof.as_mut().unwrap().log_index.0 = 11,
            "its inclusion proof does not hold",
        ),
        (
            "endless proof",
            |it| {
                let proof = it.entry.inclusion_proof.as_mut().unwrap();
                proof.hashes = vec![proof.root_hash.clone(); 2_000];
            },
            "its inclusion proof is too long",
        ),
        (
            "entry of another payload",
            |it| {
                it.log_changed(|body| {
                    body["spec"]["payloadHash"]["value"] = sha256(b"another").into()
                })
            },
            "about another payload",
        ),
        (
            "hash of another algorithm",
            |it| it.log_changed(|body| body["spec"]["payloadHash"]["algorithm"] = "sha512".into()),
            "about another payload",
        ),
        (
            "entry of another signature",
            |it| {
                it.log_changed(|body| {
                    body["spec"]["signatures"][0]["signature"] = STANDARD.encode("another").into()
                })
            },
            "about another signature",
        ),
        (
            "entry of another certificate",
            |it| {
                let other = it.authority.issue(|_| ()).1;
                let other = STANDARD.encode(super::pem::write("CERTIFICATE", &other));
                it.log_changed(|body| body["spec"]["signatures"][0]["verifier"] = other.into());
            },
            "about another certificate",
        ),
        (
            "entry of two signatures",
            |it| {
                it.log_changed(|body| {
                    let signature = body["spec"]["signatures"][0].clone();
                    body["spec"]["signatures"] = json!([signature, signature]);
                });
            },
            "are not supported",
        ),
        (
            "entry of another kind",
            |it| it.log_changed(|body| body["kind"] = "rpm".into()),
            "are not supported",
        ),
        (
            "signature of another key",
            |it| {
                it.key = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
                it.sign_again();
            },
            "its key did not make the signature",
        ),
        (
            "another subject",
            |it| {
                it.trust[0]["identities"][0]["subject"] = "https://code.example.com/other/**".into()
            },
            "does not have its identity",
        ),
        (
            "a wildcard for one segment",
            |it| it.trust[0]["identities"][0]["subject"] = "https://code.example.com/*".into(),
            "does not have its identity",
        ),
        (
            "another issuer",
            |it| it.trust[0]["identities"][0]["issuer"] = "https://other.example.com".into(),
            "does not have its identity",
        ),
        (
            "two names",
            |it| {
                it.reissue(|params| {
                    let other = SanType::Rfc822Name("eve@example.com".try_into().unwrap());
                    params.subject_alt_names.push(other);
                });
            },
            "more than one name",
        ),
        (
            "no name",
            |it| it.reissue(|params| params.subject_alt_names.clear()),
            "no subject alternative name",
        ),
        (
            "the name of a server",
            |it| {
                it.reissue(|params| {
                    params.subject_alt_names =
                        vec![SanType::DnsName("code.example.com".try_into().unwrap())];
                });
            },
            "neither an email address nor a URI",
        ),
        (
            "two issuers",
            |it| {
                it.reissue(|params| {
                    let other = CustomExtension::from_oid_content(
                        &OLD_ISSUER_EXTENSION,
                        b"https://x".to_vec(),
                    );
                    params.custom_extensions.push(other);
                });
            },
            "two issuers",
        ),
        (
            "no issuer",
            |it| it.reissue(|params| params.custom_extensions.clear()),
            "does not name the issuer",
        ),
        (
            "no trust root",
            |it| it.root = Value::Null,
            "`trustRoot` is not set",
        ),
        (
            "no trusted identities",
            |it| {
                let key = it.key.verifying_key().to_pem();
                it.trust[0]["identities"] = json!([]);
                it.trust[0]["keys"] = json!([key]);
            },
            "has no `identities`",
        ),
        (
            "damaged certificate",
            |it| it.certificate = b"damaged".to_vec(),
            "about another certificate",
        ),
    ];
    for (name, attack, why) in attacks {
        let mut vector = KeylessVector::new();
        attack(&mut vector);
        match vector.check() {
            Ok(signer) => panic!("{name} was accepted: {signer:?}"),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains(why),
                    "{name}: expected {why:?}, found {error:?}"
                );
            }
        }
    }
}

#[test]
fn keyless_signature_of_another_artifact_is_refused() {
    let vector = KeylessVector::new();
    let bundle = SignatureBundle {
        envelope: vector.envelope.clone(),
        material: SigningMaterial {
            certificate: Some(vector.certificate.clone()),
            log_entries: vec![vector.entry.clone()],
            ..SigningMaterial::default()
        },
    };
    let found = [FoundSignature::from_bundle("test", bundle)];
    let another = OciDigest::of_bytes(b"another");
    let error = vector
        .policy()
        .check(&reference(), &another, &found, vector.now)
        .unwrap_err();
    assert!(
        error.to_string().contains("about another artifact"),
        "{error}"
    );
}

#[test]
fn older_keyless_signature_is_verified() {
    let vector = KeylessVector::new();
    let payload = json!({"critical": {
        "identity": {"docker-reference": ""}, "type": "cosign container image signature",
        "image": {"docker-manifest-digest": manifest().to_string()},
    }})
    .to_string();
    let signature = STANDARD.encode(vector.key.sign(payload.as_bytes()).unwrap());
    let certificate = super::pem::write("CERTIFICATE", &vector.certificate);
    let check = |logged_payload: &str, time: u64| {
        let body = json!({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": sha256(logged_payload.as_bytes())}},
            "signature": {"content": signature, "publicKey": {"content": STANDARD.encode(&certificate)}},
        }});
        let entry = vector.log.add(&body, time);
        let promise = entry.inclusion_promise.unwrap();
        let bundle = json!({
            "SignedEntryTimestamp": promise.signed_entry_timestamp,
            "Payload": {"body": entry.canonicalized_body, "integratedTime": time, "logIndex": 123_456, "logID": "x"},
        }).to_string();
        let annotations = [
            ("dev.cosignproject.cosign/signature", signature.as_str()),
            ("dev.sigstore.cosign/certificate", certificate.as_str()),
            ("dev.sigstore.cosign/bundle", bundle.as_str()),
        ];
        let found = [FoundSignature::from_simple(
            payload.as_bytes().to_vec(),
            &annotations,
        )];
        // Through the file beside the component, so that the certificate and the log entry are stored, too.
        let stored = StoredSignatures::new(b"the manifest", &found).unwrap();
        let stored = StoredSignatures::from_json(&stored.to_json().unwrap()).unwrap();
        let found = stored.found().unwrap();
        assert_eq!(found.len(), 1);
        vector
            .policy()
            .check(&reference(), &manifest(), &found, vector.now)
    };
    assert!(matches!(
        check(&payload, TIME),
        Ok(Some(Signer::Identity { .. }))
    ));
    assert!(check("another", TIME).is_err());
    assert!(check(&payload, TIME + 3 * DAY).is_err());
}

#[test]
fn hostile_trust_roots_are_refused() {
    let root = KeylessVector::new().root;
    for (pointer, value, why) in [
        ("/mediaType", json!("application/json"), "its `mediaType`"),
        ("/tlogs", json!([]), "expected a certificate authority"),
        (
            "/certificateAuthorities",
            json!([]),
            "expected a certificate authority",
        ),
        (
            "/certificateAuthorities/0/certChain/certificates",
            json!([]),
            "chain is empty",
        ),
        (
            "/certificateAuthorities/0/certChain/certificates/0/rawBytes",
            json!("%"),
            "not Base64",
        ),
        (
            "/certificateAuthorities/0/validFor/start",
            json!("yesterday"),
            "not valid",
        ),
    ] {
        let mut root = root.clone();
        *root.pointer_mut(pointer).unwrap() = value;
        let error = TrustRoot::from_json(root.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{pointer}: {error}");
    }
}
