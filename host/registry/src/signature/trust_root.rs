//! Trust roots: the certificate authorities and logs that keyless signatures are verified with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;

use super::SignatureError;
use super::key::VerifyingKey;

/// Maximum size in bytes of a trust root file.
const MAX_TRUST_ROOT: usize = 4 << 20;
/// The kind of the data in errors.
const ROOT: &str = "trust root";
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";

/// Certificate authorities and transparency logs, from sigstore's `trusted_root.json`.
#[derive(Debug, Clone)]
pub struct TrustRoot {
    pub(super) authorities: Vec<CertificateAuthority>,
    pub(super) logs: Vec<TransparencyLog>,
    /// Logs of certificates. Without any, timestamps of certificates are not verified.
    pub(super) certificate_logs: Vec<TransparencyLog>,
}

/// A certificate authority.
#[derive(Debug, Clone)]
pub(super) struct CertificateAuthority {
    /// Certificates in DER; the last one is the root.
    pub chain: Vec<Vec<u8>>,
    pub period: ValidityPeriod,
}

/// A transparency log: of signatures, or of certificates.
#[derive(Debug, Clone)]
pub(super) struct TransparencyLog {
    pub key: VerifyingKey,
    pub period: ValidityPeriod,
}

/// Period in which a key of the trust root was in use. Its end is open while it is.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct ValidityPeriod {
    #[serde(default)]
    start: Option<Timestamp>,
    #[serde(default)]
    end: Option<Timestamp>,
}

impl ValidityPeriod {
    pub fn contains(&self, time: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= time) && self.end.is_none_or(|end| time <= end)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrustRootFile {
    media_type: String,
    #[serde(default)]
    tlogs: Vec<LogFile>,
    #[serde(default)]
    certificate_authorities: Vec<AuthorityFile>,
    #[serde(default)]
    ctlogs: Vec<LogFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogFile {
    public_key: LogKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogKey {
    raw_bytes: String,
    #[serde(default)]
    valid_for: ValidityPeriod,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorityFile {
    cert_chain: CertificateChain,
    #[serde(default)]
    valid_for: ValidityPeriod,
}

#[derive(Deserialize)]
struct CertificateChain {
    certificates: Vec<ChainCertificate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChainCertificate {
    raw_bytes: String,
}

impl TrustRoot {
    /// Parses a `trusted_root.json`. Logs with unsupported keys are left out.
    pub fn from_json(json: &[u8]) -> Result<Self, SignatureError> {
        let malformed = |why: String| SignatureError::malformed(ROOT, why);
        if json.len() > MAX_TRUST_ROOT {
            let limit = mimir_core::text::bytes(MAX_TRUST_ROOT as u64);
            return Err(malformed(format!("it is larger than {limit}")));
        }
        let file: TrustRootFile =
            serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))?;
        if !file.media_type.starts_with(MEDIA_TYPE) {
            return Err(malformed(format!(
                "its `mediaType` is not {MEDIA_TYPE}+json"
            )));
        }
        let decode = |text: &str| {
            let decoded = STANDARD.decode(text);
            decoded.map_err(|_| malformed("a `rawBytes` is not Base64".to_owned()))
        };
        let mut authorities = Vec::new();
        for authority in file.certificate_authorities {
            let chain = authority.cert_chain.certificates.iter();
            let chain: Vec<_> = chain
                .map(|certificate| decode(&certificate.raw_bytes))
                .collect::<Result<_, _>>()?;
            if chain.is_empty() {
                return Err(malformed("a certificate chain is empty".to_owned()));
            }
            authorities.push(CertificateAuthority {
                chain,
                period: authority.valid_for,
            });
        }
        let supported = |files: Vec<LogFile>| {
            let mut logs = Vec::new();
            for log in files {
                let key = decode(&log.public_key.raw_bytes)?;
                if let Ok(key) = VerifyingKey::from_spki(&key) {
                    logs.push(TransparencyLog {
                        key,
                        period: log.public_key.valid_for,
                    });
                }
            }
            Ok::<_, SignatureError>(logs)
        };
        let requires_timestamps = !file.ctlogs.is_empty();
        let (logs, certificate_logs) = (supported(file.tlogs)?, supported(file.ctlogs)?);
        if authorities.is_empty() || logs.is_empty() {
            return Err(malformed(
                "expected a certificate authority, and a log with a P-256 or Ed25519 key"
                    .to_owned(),
            ));
        }
        // Left out, they would no longer be required.
        if requires_timestamps && certificate_logs.is_empty() {
            return Err(malformed(
                "expected a log with a P-256 or Ed25519 key in `ctlogs`".to_owned(),
            ));
        }
        Ok(Self {
            authorities,
            logs,
            certificate_logs,
        })
    }
}
