//! Verification of token signatures with ring, which TLS uses, too. Signing is not supported.
//!
//! Out of scope: the issuer and the claims.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the signature verifier. Further calls have no effect.
pub(super) fn install() {
    // An error means that it has been installed before: nothing else here reads tokens.
    let _ = PROVIDER.install_default();
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if !super::ALGORITHMS.contains(algorithm) || key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(RingVerifier(*algorithm, key.clone())))
}

struct RingVerifier(Algorithm, DecodingKey);

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let algorithm: &'static dyn VerificationAlgorithm = match (self.0, self.1.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                let verified = key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
                return verified.map_err(|_| Error::new());
            }
            (Algorithm::ES256, _) => &ECDSA_P256_SHA256_FIXED,
            (Algorithm::EdDSA, _) => &ED25519,
            _ => return Err(Error::new()),
        };
        let key = self.1.try_get_as_bytes().map_err(|_| Error::new())?;
        let verified = UnparsedPublicKey::new(algorithm, key).verify(message, signature);
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}
