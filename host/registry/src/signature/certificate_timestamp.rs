//! Signed certificate timestamps (SCT, RFC 6962): the statement of a public log, inside a certificate, that the authority has
//! submitted this certificate.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::SignatureError;
use super::der::{DerReader, OCTET_STRING, ParsedCertificate};
use super::trust_root::TransparencyLog;

/// The extension with the timestamps, 1.3.6.1.4.1.11129.2.4.2, as the content of its DER.
pub(super) const TIMESTAMP_LIST: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];
/// Maximum number of timestamps in a certificate.
const MAX_TIMESTAMPS: usize = 16;
/// The only version of the format.
const VERSION_1: u8 = 0;
/// Numbers in the signed data: a certificate timestamp about a certificate without its timestamps.
const CERTIFICATE_TIMESTAMP: u8 = 0;
const PRECERTIFICATE: u16 = 1;
/// The kind of the data in errors.
const TIMESTAMP: &str = "certificate timestamp (SCT)";

/// A timestamp as the certificate contains it.
struct CertificateTimestamp<'a> {
    log_id: &'a [u8],
    milliseconds: u64,
    extensions: &'a [u8],
    signature: &'a [u8],
}

/// Verifies that one of the logs has signed a timestamp about the certificate. `issuer_key` is the public key of its
/// authority in DER, from the verified chain.
pub(super) fn verify_timestamps(
    list: Option<&[u8]>,
    certificate: &ParsedCertificate<'_>,
    issuer_key: &[u8],
    logs: &[TransparencyLog],
) -> Result<(), SignatureError> {
    let malformed = |why: &str| SignatureError::malformed(TIMESTAMP, why);
    let list = list.ok_or_else(|| {
        malformed("the certificate has none, but the trust root names logs of certificates")
    })?;
    let timestamps = parse_list(list).ok_or_else(|| malformed("its encoding is not supported"))?;
    let tbs = certificate.tbs_without(TIMESTAMP_LIST);
    let mut reason = malformed("no log of the trust root has signed it");
    for timestamp in &timestamps {
        let mut logs = logs.iter();
        let Some(log) = logs.find(|log| log.key.fingerprint() == timestamp.log_id) else {
            continue;
        };
        let Some(message) = timestamp.signed_bytes(issuer_key, &tbs) else {
            continue;
        };
        if !log.key.verifies(&message, timestamp.signature) {
            reason = malformed("the log has signed another certificate");
            continue;
        }
        let time = i64::try_from(timestamp.milliseconds).unwrap_or(i64::MAX);
        match Timestamp::from_millisecond(time) {
            Ok(time) if log.period.contains(time) => return Ok(()),
            Ok(time) => reason = malformed(&format!("the log was not in use at {time}")),
            Err(_) => reason = malformed("its time is out of range"),
        }
    }
    Err(reason)
}

/// Parses the content of the extension: an OCTET STRING with a list in the encoding of TLS. Timestamps of other versions are
/// left out.
fn parse_list(extension: &[u8]) -> Option<Vec<CertificateTimestamp<'_>>> {
    let mut outer = DerReader(extension);
    let mut list = outer.expect(OCTET_STRING).filter(|_| outer.is_at_end())?;
    let mut entries = take_vector(&mut list).filter(|_| list.is_empty())?;
    let mut timestamps = Vec::new();
    let mut count = 0;
    while !entries.is_empty() {
        count += 1;
        let mut entry = take_vector(&mut entries).filter(|_| count <= MAX_TIMESTAMPS)?;
        if take::<1>(&mut entry)? != &[VERSION_1] {
            continue;
        }
        let log_id = take::<32>(&mut entry)?;
        let milliseconds = u64::from_be_bytes(*take::<8>(&mut entry)?);
        let extensions = take_vector(&mut entry)?;
        // The algorithm. That of the log's key is used in any case.
        take::<2>(&mut entry)?;
        let signature = take_vector(&mut entry).filter(|_| entry.is_empty())?;
        timestamps.push(CertificateTimestamp {
            log_id,
            milliseconds,
            extensions,
            signature,
        });
    }
    Some(timestamps)
}

impl CertificateTimestamp<'_> {
    /// Returns the bytes that the log has signed. `tbs` is the signed part of the certificate without the timestamps. `None`
    /// if it is too long for the encoding.
    fn signed_bytes(&self, issuer_key: &[u8], tbs: &[u8]) -> Option<Vec<u8>> {
        let length = u32::try_from(tbs.len()).ok()?.to_be_bytes();
        let [0, length @ ..] = length else {
            return None;
        };
        let extensions_length = u16::try_from(self.extensions.len()).ok()?;
        let bytes = [
            &[VERSION_1, CERTIFICATE_TIMESTAMP][..],
            &self.milliseconds.to_be_bytes(),
            &PRECERTIFICATE.to_be_bytes(),
            &Sha256::digest(issuer_key),
            &length,
            tbs,
            &extensions_length.to_be_bytes(),
            self.extensions,
        ];
        Some(bytes.concat())
    }
}

/// Takes bytes from the beginning.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(head)
}

/// Takes a length of two bytes and as many bytes from the beginning.
fn take_vector<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_be_bytes(*take::<2>(bytes)?));
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_timestamps_with_another_encoding_are_refused() {
        let entry = |version: u8| {
            let mut entry = vec![version];
            entry.extend([7; 32]);
            entry.extend(5_u64.to_be_bytes());
            entry.extend([0, 0, 4, 3, 0, 1, 9]);
            entry
        };
        let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let octets = |bytes: &[u8]| [&[OCTET_STRING, bytes.len() as u8], bytes].concat();
        let list = octets(&vector(&vector(&entry(0))));
        let parsed = parse_list(&list).unwrap();
        let [only] = parsed.as_slice() else {
            panic!("expected one timestamp");
        };
        assert_eq!((only.milliseconds, only.signature), (5, &[9][..]));
        assert_eq!(only.log_id, [7; 32]);
        let other_version = octets(&vector(&vector(&entry(1))));
        assert!(parse_list(&other_version).unwrap().is_empty());
        // Each list that is cut off, and bytes after each level.
        for end in 0..list.len() {
            assert!(parse_list(&list[..end]).is_none(), "{end}");
        }
        let longer = [entry(0), vec![0]].concat();
        for bad in [
            [&list[..], &[0]].concat(),
            octets(&[vector(&vector(&entry(0))), vec![0]].concat()),
            octets(&vector(&[vector(&entry(0)), vec![0]].concat())),
            octets(&vector(&vector(&longer))),
        ] {
            assert!(parse_list(&bad).is_none());
        }
        let most = vector(&[1]).repeat(MAX_TIMESTAMPS);
        assert!(parse_list(&octets(&vector(&most))).is_some());
        let many = vector(&[1]).repeat(MAX_TIMESTAMPS + 1);
        assert!(parse_list(&octets(&vector(&many))).is_none());
    }
}
