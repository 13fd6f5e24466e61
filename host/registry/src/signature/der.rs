//! Strict reader of DER, for the names and extensions of certificates.

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

    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the identifiers and contents of the extensions of a certificate.
pub(super) fn certificate_extensions(certificate: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut outer = DerReader(certificate);
    let certificate = outer.expect(SEQUENCE)?;
    let mut fields = DerReader(DerReader(certificate).expect(SEQUENCE)?);
    fields.expect(VERSION)?;
    fields.expect(INTEGER)?;
    // Algorithm, issuer, validity, subject and key.
    for _ in 0..5 {
        fields.expect(SEQUENCE)?;
    }
    let extensions = loop {
        match fields.read()? {
            (EXTENSIONS, content) => break content,
            _ => continue,
        }
    };
    let mut extensions = DerReader(DerReader(extensions).expect(SEQUENCE)?);
    let mut all = Vec::new();
    while !extensions.is_at_end() {
        let mut extension = DerReader(extensions.expect(SEQUENCE)?);
        let identifier = extension.expect(OBJECT_IDENTIFIER)?;
        let content = match extension.read()? {
            (BOOLEAN, _) => extension.expect(OCTET_STRING)?,
            (OCTET_STRING, content) => content,
            _ => return None,
        };
        all.push((identifier, content));
    }
    Some(all)
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
}
