//! Timestamps of certificate logs (SCT): certificates with and without them, and an attack on each part.

use rcgen::PublicKeyData as _;

use super::*;

const TIMESTAMP_LIST: [u64; 10] = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
/// The time of the certificate log, one minute before that of the signature log.
const MILLISECONDS: u64 = (TIME - 60) * 1_000;

/// Returns the signed part of a certificate. Written apart from the code that is tested.
fn tbs(certificate: &[u8]) -> &[u8] {
    let header = [&certificate[..2], &certificate[4..6]].concat();
    assert_eq!(header, [0x30, 0x82, 0x30, 0x82]);
    let length = usize::from(u16::from_be_bytes([certificate[6], certificate[7]]));
    &certificate[4..8 + length]
}

fn vector(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn fingerprint(public_key: &[u8]) -> Vec<u8> {
    let hex = sha256(public_key);
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
    bytes.collect::<Result<_, _>>().unwrap()
}

/// The parts of a timestamp, which tests change.
struct TimestampParts {
    log_id: Vec<u8>,
    issuer_key: Vec<u8>,
    certificate: Vec<u8>,
    milliseconds: u64,
    signed_milliseconds: u64,
}

impl TimestampParts {
    fn sign(&self, log: &SigningKey) -> Vec<u8> {
        let tbs = tbs(&self.certificate);
        let message = [
            &[0, 0][..],
            &self.signed_milliseconds.to_be_bytes(),
            &[0, 1],
            &fingerprint(&self.issuer_key),
            &(tbs.len() as u32).to_be_bytes()[1..],
            tbs,
            &[0, 0],
        ];
        let signature = log.sign(&message.concat()).unwrap();
        let entry = [
            &[0][..],
            &self.log_id,
            &self.milliseconds.to_be_bytes(),
            &[0, 0, 4, 3],
            &vector(&signature),
        ];
        entry.concat()
    }
}

fn list_extension(timestamps: &[Vec<u8>]) -> CustomExtension {
    let entries: Vec<Vec<u8>> = timestamps.iter().map(|entry| vector(entry)).collect();
    let list = vector(&entries.concat());
    let length = list.len();
    let header = match length {
        ..0x80 => vec![4, length as u8],
        0x80..0x100 => vec![4, 0x81, length as u8],
        _ => vec![4, 0x82, (length >> 8) as u8, length as u8],
    };
    CustomExtension::from_oid_content(&TIMESTAMP_LIST, [header, list].concat())
}

/// A vector whose trust root names `log` as a log of certificates.
struct TimestampedVector {
    vector: KeylessVector,
    log: SigningKey,
}

impl TimestampedVector {
    fn new() -> Self {
        let log = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        let mut vector = KeylessVector::new();
        vector.root["ctlogs"] = json!([{"baseUrl": "https://ct.example.com", "publicKey": {
            "rawBytes": STANDARD.encode(log.verifying_key().spki()),
            "validFor": {"start": "2022-01-01T00:00:00Z"},
        }}]);
        Self { vector, log }
    }

    /// Replaces the certificate by one with the extensions that `extensions` makes of the log's key, and of the parts of the
    /// right timestamp.
    fn reissue(
        mut self,
        extensions: impl FnOnce(&SigningKey, TimestampParts) -> Vec<CustomExtension>,
    ) -> Result<Option<Signer>, SignatureError> {
        let authority = &self.vector.authority;
        let key = KeyPair::generate().unwrap();
        let (_, certificate) = authority.issue_for(&key, |_| ());
        let parts = TimestampParts {
            log_id: fingerprint(self.log.verifying_key().spki()),
            issuer_key: authority.intermediate.key().subject_public_key_info(),
            certificate,
            milliseconds: MILLISECONDS,
            signed_milliseconds: MILLISECONDS,
        };
        let added = extensions(&self.log, parts);
        (self.vector.key, self.vector.certificate) = authority.issue_for(&key, |params| {
            // Between others, because its place is not fixed.
            params.custom_extensions.splice(0..0, added);
        });
        self.vector.sign_again();
        self.vector.check()
    }
}

#[test]
fn certificate_timestamp_of_a_trusted_log_is_accepted() {
    let signer = TimestampedVector::new()
        .reissue(|log, parts| vec![list_extension(&[parts.sign(log)])])
        .unwrap();
    assert!(matches!(signer, Some(Signer::Identity { .. })));
    // Beside those of other logs, and of another version.
    let signer = TimestampedVector::new()
        .reissue(|log, parts| {
            let other = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
            let unknown = TimestampParts {
                log_id: fingerprint(other.verifying_key().spki()),
                certificate: parts.certificate.clone(),
                issuer_key: parts.issuer_key.clone(),
                ..parts
            };
            vec![list_extension(&[
                unknown.sign(&other),
                vec![1],
                parts.sign(log),
            ])]
        })
        .unwrap();
    assert!(matches!(signer, Some(Signer::Identity { .. })));
}

#[test]
fn certificate_timestamps_are_not_required_without_logs_of_certificates() {
    let mut timestamped = TimestampedVector::new();
    timestamped.vector.root["ctlogs"] = json!([]);
    let checked = timestamped.reissue(|log, parts| vec![list_extension(&[parts.sign(log)])]);
    assert!(checked.is_ok());
}

#[test]
fn certificate_timestamp_attack_on_each_part_is_refused() {
    type Attack = fn(&SigningKey, TimestampParts) -> Vec<CustomExtension>;
    let attacks: &[(&str, Attack, &str)] = &[
        (
            "no timestamp",
            |_, _| Vec::new(),
            "the certificate has none",
        ),
        (
            "an empty list",
            |_, _| vec![list_extension(&[])],
            "no log of the trust root has signed it",
        ),
        (
            "another log",
            |_, parts| {
                let other = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
                let parts = TimestampParts {
                    log_id: fingerprint(other.verifying_key().spki()),
                    ..parts
                };
                vec![list_extension(&[parts.sign(&other)])]
            },
            "no log of the trust root has signed it",
        ),
        (
            "another log under the name of a trusted one",
            |_, parts| {
                let other = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
                vec![list_extension(&[parts.sign(&other)])]
            },
            "has signed another certificate",
        ),
        (
            "the timestamp of another certificate",
            |log, parts| {
                let certificate = TestAuthority::new().issue(|_| ()).1;
                let parts = TimestampParts {
                    certificate,
                    ..parts
                };
                vec![list_extension(&[parts.sign(log)])]
            },
            "has signed another certificate",
        ),
        (
            "the timestamp of a certificate of another authority",
            |log, parts| {
                let other = KeyPair::generate().unwrap();
                let parts = TimestampParts {
                    issuer_key: other.subject_public_key_info(),
                    ..parts
                };
                vec![list_extension(&[parts.sign(log)])]
            },
            "has signed another certificate",
        ),
        (
            "another time",
            |log, parts| {
                let parts = TimestampParts {
                    signed_milliseconds: MILLISECONDS + 1,
                    ..parts
                };
                vec![list_extension(&[parts.sign(log)])]
            },
            "has signed another certificate",
        ),
        (
            "a time before the log was in use",
            |log, parts| {
                let parts = TimestampParts {
                    milliseconds: 1,
                    signed_milliseconds: 1,
                    ..parts
                };
                vec![list_extension(&[parts.sign(log)])]
            },
            "the log was not in use",
        ),
        (
            "a time that no calendar has",
            |log, parts| {
                let parts = TimestampParts {
                    milliseconds: u64::MAX,
                    signed_milliseconds: u64::MAX,
                    ..parts
                };
                vec![list_extension(&[parts.sign(log)])]
            },
            "its time is out of range",
        ),
        (
            "an extension that the log has not seen",
            |log, parts| {
                let added = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
                vec![list_extension(&[parts.sign(log)]), added]
            },
            "has signed another certificate",
        ),
        (
            "a damaged list",
            |log, parts| {
                let mut timestamp = parts.sign(log);
                timestamp.push(0);
                vec![list_extension(&[timestamp])]
            },
            "its encoding is not supported",
        ),
    ];
    for (name, attack, why) in attacks {
        match TimestampedVector::new().reissue(*attack) {
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
fn certificate_logs_with_unsupported_keys_are_not_ignored() {
    let mut vector = KeylessVector::new();
    vector.root["ctlogs"] = json!([{"publicKey": {"rawBytes": STANDARD.encode("a key")}}]);
    let error = TrustRoot::from_json(vector.root.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("in `ctlogs`"), "{error}");
}

#[test]
fn keyless_bundle_with_only_an_authority_time_says_what_is_missing() {
    let vector = KeylessVector::new();
    let bundle = SignatureBundle {
        envelope: vector.envelope.clone(),
        material: SigningMaterial {
            certificate: Some(vector.certificate.clone()),
            ..SigningMaterial::default()
        },
    };
    let check = |bundle: &Value| {
        let bundle = SignatureBundle::from_json(bundle.to_string().as_bytes()).unwrap();
        let found = [FoundSignature::from_bundle("test", bundle)];
        let checked = vector
            .policy()
            .check(&reference(), &manifest(), &found, vector.now);
        checked.unwrap_err().to_string()
    };
    let mut bundle: Value = serde_json::from_slice(&bundle.to_json().unwrap()).unwrap();
    assert!(check(&bundle).contains("no entry of a log"));
    bundle["verificationMaterial"]["timestampVerificationData"] =
        json!({"rfc3161Timestamps": [{"signedTimestamp": "MAA="}]});
    let error = check(&bundle);
    assert!(
        error.contains("only a time of a timestamp authority")
            && error.contains("expected an entry of a log"),
        "{error}"
    );
}
