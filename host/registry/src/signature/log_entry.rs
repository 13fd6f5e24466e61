//! Entries of transparency logs (Rekor): the log's signature of the entry, the inclusion proof, and the entry's content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::dsse::DsseEnvelope;
use super::merkle::{TreeHash, leaf_hash, root_of_proof};
use super::trust_root::{TransparencyLog, TrustRoot};
use super::{SignatureError, pem};
use crate::digest::OciDigest;

/// Maximum number of hashes of a proof: that of a tree with 2^64 leaves.
const MAX_PROOF: usize = 64;
/// The kind of the data in errors.
const ENTRY: &str = "log entry of the signature";

/// An entry of a log, as in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogEntry {
    #[serde(default)]
    pub log_index: DecimalNumber,
    #[serde(default)]
    pub log_id: LogId,
    #[serde(default)]
    pub kind_version: LogEntryKind,
    #[serde(default)]
    pub integrated_time: DecimalNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusion_promise: Option<InclusionPromise>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusion_proof: Option<InclusionProof>,
    #[serde(default)]
    pub canonicalized_body: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LogId {
    pub key_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LogEntryKind {
    pub kind: String,
    pub version: String,
}

/// The log's signature of the entry and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InclusionPromise {
    pub signed_entry_timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InclusionProof {
    #[serde(default)]
    pub log_index: DecimalNumber,
    pub root_hash: String,
    pub tree_size: DecimalNumber,
    #[serde(default)]
    pub hashes: Vec<String>,
    pub checkpoint: LogCheckpoint,
}

/// The log's signature of its tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogCheckpoint {
    pub envelope: String,
}

/// A number that JSON of protocol buffers writes as text. Both forms are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DecimalNumber(pub u64);

impl Serialize for DecimalNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DecimalNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(u64),
            Text(String),
        }
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(number) => Ok(Self(number)),
            NumberOrText::Text(text) => text.parse().map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// The signature that an entry must be about.
pub(super) struct LoggedSignature<'a> {
    /// The envelope, unless a plain message was signed.
    pub envelope: Option<&'a DsseEnvelope>,
    /// The payload of the envelope, or the message.
    pub payload: &'a [u8],
    pub signature: &'a [u8],
    /// DER of the certificate.
    pub certificate: &'a [u8],
}

fn malformed(why: impl ToString) -> SignatureError {
    SignatureError::malformed(ENTRY, why)
}

fn decode(text: &str) -> Result<Vec<u8>, SignatureError> {
    STANDARD
        .decode(text)
        .map_err(|_| malformed("its Base64 is not valid"))
}

impl LogEntry {
    /// Verifies the entry against the logs of the trust root, and that it is about this signature. Returns the time at
    /// which the log has added the entry.
    pub fn verify(
        &self,
        root: &TrustRoot,
        signed: &LoggedSignature<'_>,
        requires_proof: bool,
    ) -> Result<Timestamp, SignatureError> {
        let time = i64::try_from(self.integrated_time.0).unwrap_or(i64::MAX);
        let time = Timestamp::from_second(time).map_err(malformed)?;
        let promise = self.inclusion_promise.as_ref();
        let promise = promise
            .filter(|_| self.integrated_time.0 > 0)
            .ok_or_else(|| {
                malformed("the log has not signed a time; times of timestamp authorities are not supported")
            })?;
        let promise = decode(&promise.signed_entry_timestamp)?;
        let signs_entry =
            |log: &&TransparencyLog| log.key.verifies(&self.promised_bytes(log), &promise);
        let mut logs = root.logs.iter();
        let log = logs
            .find(signs_entry)
            .ok_or_else(|| malformed("no log of the trust root has signed it"))?;
        if !log.period.contains(time) {
            return Err(malformed(format!("the log was not in use at {time}")));
        }
        let body = decode(&self.canonicalized_body)?;
        match &self.inclusion_proof {
            Some(proof) => proof.verify(log, &body)?,
            None if requires_proof => return Err(malformed("it has no inclusion proof")),
            None => {}
        }
        check_body(&body, signed)?;
        Ok(time)
    }

    /// Returns the canonical JSON that the log has signed.
    pub(super) fn promised_bytes(&self, log: &TransparencyLog) -> Vec<u8> {
        let body = serde_json::to_string(&self.canonicalized_body).unwrap_or_default();
        format!(
            r#"{{"body":{body},"integratedTime":{},"logID":"{}","logIndex":{}}}"#,
            self.integrated_time.0,
            log.key.id(),
            self.log_index.0,
        )
        .into_bytes()
    }
}

impl InclusionProof {
    fn verify(&self, log: &TransparencyLog, body: &[u8]) -> Result<(), SignatureError> {
        if self.hashes.len() > MAX_PROOF {
            return Err(malformed("its inclusion proof is too long"));
        }
        let hash = |text: &String| -> Result<TreeHash, SignatureError> {
            let hash = decode(text)?.try_into();
            hash.map_err(|_| malformed("a hash of its inclusion proof has the wrong length"))
        };
        let hashes: Vec<_> = self.hashes.iter().map(hash).collect::<Result<_, _>>()?;
        let root = hash(&self.root_hash)?;
        let computed = root_of_proof(leaf_hash(body), self.log_index.0, self.tree_size.0, &hashes);
        if computed != Some(root) {
            return Err(malformed("its inclusion proof does not hold"));
        }
        self.checkpoint.verify(log, self.tree_size.0, &root)
    }
}

impl LogCheckpoint {
    /// Verifies that the log has signed this tree. The format is that of signed notes: text, an empty line, and
    /// signatures.
    fn verify(
        &self,
        log: &TransparencyLog,
        size: u64,
        root: &TreeHash,
    ) -> Result<(), SignatureError> {
        let (text, signatures) = self
            .envelope
            .split_once("\n\n")
            .ok_or_else(|| malformed("its checkpoint has no signature"))?;
        let mut lines = text.lines().skip(1);
        let states_size = lines.next() == Some(size.to_string().as_str());
        let states_root = lines.next() == Some(STANDARD.encode(root).as_str());
        if !states_size || !states_root {
            return Err(malformed("its checkpoint is that of another tree"));
        }
        let message = format!("{text}\n");
        let is_of_log = |line: &str| {
            let signature = line.strip_prefix("\u{2014} ")?.rsplit_once(' ')?.1;
            let signature = STANDARD.decode(signature).ok()?;
            // The first four bytes are a hint of the key.
            let (_, signature) = signature.split_at_checked(4)?;
            Some(log.key.verifies(message.as_bytes(), signature))
        };
        if !signatures.lines().any(|line| is_of_log(line) == Some(true)) {
            return Err(malformed("the log has not signed its checkpoint"));
        }
        Ok(())
    }
}

/// Checks that the content of an entry is the hash of the payload, the signature and the certificate.
fn check_body(body: &[u8], signed: &LoggedSignature<'_>) -> Result<(), SignatureError> {
    let body: Value = serde_json::from_slice(body).map_err(malformed)?;
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let has_one = |pointer: &str| {
        let list = body.pointer(pointer).and_then(Value::as_array);
        list.is_some_and(|list| list.len() == 1)
    };
    let kind = (
        text("/kind"),
        text("/apiVersion"),
        signed.envelope.is_some(),
    );
    let (hash, signature, certificate, signature_is_nested) = match kind {
        (Some("dsse"), Some("0.0.1"), true) if has_one("/spec/signatures") => (
            "/spec/payloadHash",
            "/spec/signatures/0/signature",
            "/spec/signatures/0/verifier",
            false,
        ),
        (Some("intoto"), Some("0.0.2"), true) if has_one("/spec/content/envelope/signatures") => (
            "/spec/content/payloadHash",
            "/spec/content/envelope/signatures/0/sig",
            "/spec/content/envelope/signatures/0/publicKey",
            true,
        ),
        (Some("hashedrekord"), Some("0.0.1"), false) => (
            "/spec/data/hash",
            "/spec/signature/content",
            "/spec/signature/publicKey/content",
            false,
        ),
        _ => return Err(malformed("entries of its kind are not supported")),
    };
    let payload_hash = OciDigest::from_sha256(Sha256::digest(signed.payload).into()).hex();
    if text(&format!("{hash}/algorithm")) != Some("sha256")
        || text(&format!("{hash}/value")) != Some(payload_hash.as_str())
    {
        return Err(malformed("it is about another payload"));
    }
    let logged = decode(text(signature).unwrap_or_default())?;
    let logged = if signature_is_nested {
        decode(std::str::from_utf8(&logged).unwrap_or_default())?
    } else {
        logged
    };
    if logged != signed.signature {
        return Err(malformed("it is about another signature"));
    }
    let logged = decode(text(certificate).unwrap_or_default())?;
    let logged = std::str::from_utf8(&logged).ok().and_then(pem::parse);
    let is_same = logged
        .is_some_and(|block| block.label == "CERTIFICATE" && block.content == signed.certificate);
    if !is_same {
        return Err(malformed("it is about another certificate"));
    }
    Ok(())
}
