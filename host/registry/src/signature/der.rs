//! Strict reader of DER, for the fields and extensions of certificates.

/// Tags of DER.
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const UTF8_STRING: u8 = 0x0c;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
/// The version and the extensions of a certificate.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// A sequence of DER values.
pub(super) struct DerReader<'a>(pub &'a [u8]);

impl<'a> DerReader<'a> {
    /// Reads a value of any type: its tag and its content. `None` at the end and for encodings that are not DER.
    pub fn read(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        // Tags of more than one byte do not occur in certificates.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x83 => {
                let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = after;
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                // A longer form than necessary is not DER.
                if bytes.first() == Some(&0) || length < 0x80 {
                    return None;
                }
                length
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Reads a value with this tag.
    pub fn expect(&mut self, expected: u8) -> Option<&'a [u8]> {
        let (tag, content) = self.read()?;
        (tag == expected).then_some(content)
    }

    /// Reads a value of any type: its tag, its content and its whole encoding.
    fn read_encoding(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let before = self.0;
        let (tag, content) = self.read()?;
        let length = before.len() - self.0.len();
        Some((tag, content, &before[..length]))
    }

    /// Reads a value with this tag, and returns its whole encoding.
    fn expect_encoding(&mut self, expected: u8) -> Option<&'a [u8]> {
        let (tag, _, encoding) = self.read_encoding()?;
        (tag == expected).then_some(encoding)
    }

    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the encoding of a value.
fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = vec![tag];
    if let Ok(short) = u8::try_from(length)
        && short < 0x80
    {
        bytes.push(short);
    } else {
        let length = length.to_be_bytes();
        let first = length
            .iter()
            .position(|byte| *byte != 0)
            .unwrap_or_default();
        let digits = &length[first..];
        bytes.push(0x80 | digits.len() as u8);
        bytes.extend(digits);
    }
    bytes.extend(content);
    bytes
}

/// The fields of a certificate.
pub(super) struct ParsedCertificate<'a> {
    /// Encodings of the fields before the extensions.
    fields: Vec<&'a [u8]>,
    /// Encoding of the public key, a `SubjectPublicKeyInfo`.
    pub public_key: &'a [u8],
    /// Extensions.
    pub extensions: Vec<CertificateExtension<'a>>,
}

/// An extension of a certificate.
pub(super) struct CertificateExtension<'a> {
    /// Content of the object identifier.
    pub identifier: &'a [u8],
    /// Content.
    pub content: &'a [u8],
    /// Encoding of the extension.
    encoding: &'a [u8],
}

impl<'a> ParsedCertificate<'a> {
    /// Parses a certificate with extensions. `None` if it is not valid DER.
    pub fn parse(certificate: &'a [u8]) -> Option<Self> {
        let mut outer = DerReader(certificate);
        let certificate = outer.expect(SEQUENCE)?;
        let mut reader = DerReader(DerReader(certificate).expect(SEQUENCE)?);
        let mut fields = vec![
            reader.expect_encoding(VERSION)?,
            reader.expect_encoding(INTEGER)?,
        ];
        // Algorithm, issuer, validity and subject.
        for _ in 0..4 {
            fields.push(reader.expect_encoding(SEQUENCE)?);
        }
        let public_key = reader.expect_encoding(SEQUENCE)?;
        fields.push(public_key);
        let extensions = loop {
            let (tag, content, encoding) = reader.read_encoding()?;
            if tag == EXTENSIONS {
                break content;
            }
            fields.push(encoding);
        };
        // Extensions are the last field, and `tbs_without` would drop others.
        if !reader.is_at_end() {
            return None;
        }
        let mut list = DerReader(extensions);
        let mut list = DerReader(list.expect(SEQUENCE).filter(|_| list.is_at_end())?);
        let mut extensions = Vec::new();
        while !list.is_at_end() {
            let (tag, content, encoding) = list.read_encoding()?;
            let mut extension = DerReader(content);
            let identifier = extension
                .expect(OBJECT_IDENTIFIER)
                .filter(|_| tag == SEQUENCE)?;
            let content = match extension.read()? {
                (BOOLEAN, _) => extension.expect(OCTET_STRING)?,
                (OCTET_STRING, content) => content,
                _ => return None,
            };
            extensions.push(CertificateExtension {
                identifier,
                content,
                encoding,
            });
        }
        Some(Self {
            fields,
            public_key,
            extensions,
        })
    }

    /// Returns the signed part of the certificate (`TBSCertificate`), encoded without the extension of this identifier.
    pub fn tbs_without(&self, identifier: &[u8]) -> Vec<u8> {
        let others = self.extensions.iter();
        let others = others.filter(|extension| extension.identifier != identifier);
        let others: Vec<&[u8]> = others.map(|extension| extension.encoding).collect();
        let extensions = encode(EXTENSIONS, &encode(SEQUENCE, &others.concat()));
        let fields = [self.fields.concat(), extensions].concat();
        encode(SEQUENCE, &fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_reader_refuses_other_encodings() {
        for (bytes, read) in [
            (&[0x04, 0x01, 0xff][..], Some((0x04, &[0xff][..]))),
            (&[0x04, 0x00], Some((0x04, &[]))),
            // Longer lengths than necessary, an indefinite length, a long tag, missing content.
            (&[0x04, 0x81, 0x01, 0xff], None),
            (&[0x04, 0x82, 0x00, 0x81], None),
            (&[0x30, 0x80, 0x00, 0x00], None),
            (&[0x1f, 0x81, 0x00], None),
            (&[0x04, 0x02, 0xff], None),
            (&[0x04, 0x84, 0xff, 0xff, 0xff, 0xff], None),
            (&[0x04], None),
            (&[], None),
        ] {
            assert_eq!(DerReader(bytes).read(), read, "{bytes:02x?}");
        }
    }

    #[test]
    fn der_encoding_is_what_the_reader_accepts() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let content = vec![7; length];
            let encoded = encode(OCTET_STRING, &content);
            let mut reader = DerReader(&encoded);
            assert_eq!(
                reader.read(),
                Some((OCTET_STRING, &content[..])),
                "{length}"
            );
            assert!(reader.is_at_end());
        }
    }
}
