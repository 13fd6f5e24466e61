//! Certificates of keyless signatures: the chain, the purpose and the identity.

use std::time::Duration;

use jiff::Timestamp;
use pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::SignatureError;
use super::certificate_timestamp::{TIMESTAMP_LIST, verify_timestamps};
use super::der::{
    CertificateExtension, DerReader, OBJECT_IDENTIFIER, ParsedCertificate, SEQUENCE, UTF8_STRING,
};
use super::trust_root::TrustRoot;

/// Object identifiers, as the content of their DER.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// The issuer of the identity, 1.3.6.1.4.1.57264.1.8, and its older form without DER, .1.1.
const ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 8];
const OLD_ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 1];
/// Tags of names: an email address and a URI.
const EMAIL: u8 = 0x81;
const URI: u8 = 0x86;
/// Algorithms of signatures by the key of a certificate.
const SIGNATURE_ALGORITHMS: [&dyn SignatureVerificationAlgorithm; 3] = [
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::ED25519,
];
/// The kind of the data in errors.
const CERTIFICATE: &str = "certificate of the signature";

/// The identity in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertificateIdentity {
    pub issuer: String,
    pub subject: String,
}

fn malformed(why: impl ToString) -> SignatureError {
    SignatureError::malformed(CERTIFICATE, why)
}

/// Verifies that a certificate for signing code was issued by an authority of the trust root and was valid at `time`,
/// that a log of certificates has signed that it knows it, that its key made the signature, and returns its identity.
pub(super) fn verify_certificate(
    certificate: &[u8],
    chain: &[Vec<u8>],
    root: &TrustRoot,
    time: Timestamp,
    (message, signature): (&[u8], &[u8]),
) -> Result<CertificateIdentity, SignatureError> {
    let der = CertificateDer::from(certificate);
    let parsed = EndEntityCert::try_from(&der).map_err(malformed)?;
    let issuer = check_chain(&parsed, chain, root, time)?;
    let fields = ParsedCertificate::parse(certificate)
        .ok_or_else(|| malformed("its extensions are not valid DER"))?;
    let extensions = &fields.extensions;
    check_purpose(extensions)?;
    if !root.certificate_logs.is_empty() {
        let issuer = ParsedCertificate::parse(&issuer)
            .ok_or_else(|| malformed("the extensions of its authority are not valid DER"))?;
        let list = extension(extensions, TIMESTAMP_LIST)?;
        verify_timestamps(list, &fields, issuer.public_key, &root.certificate_logs)?;
    }
    let mut algorithms = SIGNATURE_ALGORITHMS.into_iter();
    if !algorithms.any(|algorithm| {
        parsed
            .verify_signature(algorithm, message, signature)
            .is_ok()
    }) {
        return Err(malformed("its key did not make the signature"));
    }
    Ok(CertificateIdentity {
        issuer: identity_issuer(extensions)?,
        subject: subject(extensions)?,
    })
}

/// Verifies the chain at the given time up to an authority that was in use then. Returns the certificate of the authority that
/// has issued this one, in DER.
fn check_chain(
    certificate: &EndEntityCert<'_>,
    chain: &[Vec<u8>],
    root: &TrustRoot,
    time: Timestamp,
) -> Result<Vec<u8>, SignatureError> {
    let seconds = u64::try_from(time.as_second()).map_err(malformed)?;
    let unix_time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let mut reason = malformed(format!("no certificate authority was in use at {time}"));
    let authorities = root.authorities.iter();
    for authority in authorities.filter(|authority| authority.period.contains(time)) {
        let Some((anchor, below)) = authority.chain.split_last() else {
            continue;
        };
        let anchor = CertificateDer::from(anchor.as_slice());
        let anchors = [anchor_from_trusted_cert(&anchor)
            .map_err(|error| SignatureError::malformed("trust root", error))?];
        let intermediates = below.iter().chain(chain);
        let intermediates: Vec<_> = intermediates
            .map(|der| CertificateDer::from(der.as_slice()))
            .collect();
        // Authorities need not have a purpose, so that of the certificate itself is checked by `check_purpose`.
        let verified = certificate.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            &intermediates,
            unix_time,
            KeyUsage::required_if_present(CODE_SIGNING),
            None,
            None,
        );
        match verified {
            Ok(path) => {
                let mut above = path.intermediate_certificates();
                let issuer = above.next().map(|issuer| issuer.der().to_vec());
                return Ok(issuer.unwrap_or_else(|| anchor.to_vec()));
            }
            Err(error) => reason = malformed(format!("its chain does not hold: {error}")),
        }
    }
    Err(reason)
}

/// Extensions of a certificate.
type Extensions<'a> = [CertificateExtension<'a>];

/// Returns the content of an extension, which may occur only once.
fn extension<'a>(
    extensions: &Extensions<'a>,
    identifier: &[u8],
) -> Result<Option<&'a [u8]>, SignatureError> {
    let mut same = extensions.iter().filter(|own| own.identifier == identifier);
    let first = same.next().map(|own| own.content);
    if same.next().is_some() {
        return Err(malformed("an extension is repeated"));
    }
    Ok(first)
}

fn check_purpose(extensions: &Extensions<'_>) -> Result<(), SignatureError> {
    let purposes = extension(extensions, EXTENDED_KEY_USAGE)?;
    let mut purposes = DerReader(
        purposes
            .and_then(|purposes| DerReader(purposes).expect(SEQUENCE))
            .unwrap_or_default(),
    );
    while let Some(purpose) = purposes.expect(OBJECT_IDENTIFIER) {
        if purpose == CODE_SIGNING {
            return Ok(());
        }
    }
    Err(malformed("it is not for signing code"))
}

/// Returns the only name of the certificate. A certificate with several names could match one rule with one of them and
/// be shown with another.
fn subject(extensions: &Extensions<'_>) -> Result<String, SignatureError> {
    let names = extension(extensions, SUBJECT_ALTERNATIVE_NAME)?;
    let mut names = DerReader(
        names
            .and_then(|names| DerReader(names).expect(SEQUENCE))
            .unwrap_or_default(),
    );
    let name = match names.read() {
        Some((EMAIL | URI, name)) => std::str::from_utf8(name).map_err(malformed)?,
        Some(_) => return Err(malformed("its name is neither an email address nor a URI")),
        None => return Err(malformed("it has no subject alternative name")),
    };
    if !names.is_at_end() {
        return Err(malformed("it has more than one name"));
    }
    Ok(name.to_owned())
}

fn identity_issuer(extensions: &Extensions<'_>) -> Result<String, SignatureError> {
    let current = extension(extensions, ISSUER)?;
    let current = current
        .map(|content| {
            let mut reader = DerReader(content);
            let text = reader.expect(UTF8_STRING).filter(|_| reader.is_at_end());
            text.ok_or_else(|| malformed("its issuer is not a UTF8String"))
        })
        .transpose()?;
    let old = extension(extensions, OLD_ISSUER)?;
    if let (Some(current), Some(old)) = (current, old)
        && current != old
    {
        return Err(malformed("it names two issuers of its identity"));
    }
    let issuer = current
        .or(old)
        .ok_or_else(|| malformed("it does not name the issuer of its identity"))?;
    Ok(std::str::from_utf8(issuer).map_err(malformed)?.to_owned())
}
