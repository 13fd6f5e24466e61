//! Signatures of artifacts: keys, sigstore bundles and the trust policy.
//!
//! A signature is a [`SignatureBundle`] that refers to the signed manifest in the registry. [`find_signatures`] reads
//! the signatures of a manifest, and [`TrustPolicy::check`] decides by the `trust` settings whether one of them counts.
//! Everything that a registry returns is untrusted until then.
//!
//! Keyless signatures are verified offline with a [`TrustRoot`]: the certificate chain at the time that the log has
//! signed, the purpose of the certificate, the log's signature of the entry and of the tree, the inclusion proof, and
//! that the entry is about this signature. If the trust root names logs of certificates, one of them must have signed a
//! timestamp (SCT) in the certificate. Times of timestamp authorities (RFC 3161) are not supported: a log without signed
//! times is refused.

mod bundle;
mod certificate;
mod certificate_timestamp;
mod der;
mod dsse;
mod encrypted_key;
mod error;
mod find;
mod key;
mod log_entry;
mod merkle;
mod pattern;
mod pem;
mod provenance;
mod statement;
mod stored;
mod trust_policy;
mod trust_root;

#[cfg(test)]
mod keyless_tests;
#[cfg(test)]
mod tests;

pub use bundle::{BUNDLE_MEDIA_TYPE, SignatureBundle};
pub use dsse::DsseEnvelope;
pub use error::SignatureError;
pub use find::{FoundSignature, find_signatures};
pub use key::{KeyAlgorithm, MAX_KEY_FILE, SigningKey, VerifyingKey};
pub use provenance::Provenance;
pub use stored::StoredSignatures;
pub use trust_policy::{NamedKey, Signer, TrustPolicy};
pub use trust_root::TrustRoot;

/// Maximum size in bytes of a bundle or envelope in JSON.
pub const MAX_BUNDLE: usize = 4 << 20;
