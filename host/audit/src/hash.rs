//! The hash that links a line to the previous one.

use std::fmt;

use sha2::{Digest, Sha256};

/// Number of hex digits of a SHA-256 hash.
const DIGITS: usize = 64;

/// A SHA-256 hash as 64 lower-case hex digits, as in the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineHash([u8; DIGITS]);

impl LineHash {
    /// The `prev` of the first line.
    pub const ZERO: Self = Self([b'0'; DIGITS]);

    /// Hashes the bytes of a line, which is passed without its line end.
    pub fn digest_line(line: &[u8]) -> Self {
        Self::from(Sha256::new_with_prefix(line))
    }

    /// Parses 64 lower-case hex digits.
    pub fn read(digits: &[u8]) -> Option<Self> {
        let digits: [u8; DIGITS] = digits.try_into().ok()?;
        let is_hex = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        digits.iter().all(is_hex).then_some(Self(digits))
    }

    /// Returns the hex digits.
    pub fn as_str(&self) -> &str {
        // The digits are ASCII, so this never fails.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<Sha256> for LineHash {
    fn from(state: Sha256) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(state.finalize()) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        Self(digits)
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for LineHash {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(from)?;
        let expected = || serde::de::Error::custom("expected 64 lower-case hex digits");
        Self::read(digits.as_bytes()).ok_or_else(expected)
    }
}

impl serde::Serialize for LineHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_sha256_in_lowercase_hex() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(LineHash::digest_line(b"abc").as_str(), abc);
        assert_eq!(
            LineHash::read(abc.as_bytes()),
            Some(LineHash::digest_line(b"abc"))
        );
        assert_eq!(LineHash::read(abc.to_uppercase().as_bytes()), None);
        assert_eq!(LineHash::read(b"0"), None);
    }
}
