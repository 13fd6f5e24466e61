//! sha256 of a component: its identity in caches, locks and records.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Number of bytes read and hashed at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A sha256, displayed and stored in lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256Digest(pub [u8; 32]);

/// Error for text that is not a sha256 in hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hex digits")]
pub struct InvalidDigest;

impl Sha256Digest {
    /// Returns the hash of `bytes`.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the hash of all bytes of a reader, and their number.
    pub(crate) fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut length = 0;
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok((Self(hash.finalize().into()), length)),
                count => {
                    hash.update(&chunk[..count]);
                    length += count as u64;
                }
            }
        }
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl From<Sha256Digest> for String {
    fn from(hash: Sha256Digest) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return Err(InvalidDigest);
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = (
                digit(pair[0]).ok_or(InvalidDigest)?,
                digit(pair[1]).ok_or(InvalidDigest)?,
            );
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(hash))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_reader_equals_hash_of_bytes() {
        for length in [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let hashed = Sha256Digest::of_reader(&*bytes).unwrap();
            assert_eq!(hashed, (Sha256Digest::of_bytes(&bytes), length as u64));
        }
    }

    #[test]
    fn hash_is_serialized_as_hex() {
        let hash = Sha256Digest::of_bytes(b"abc");
        let json = serde_json::to_string(&hash).unwrap();
        assert!(json.starts_with("\"ba7816bf8f01cfea"), "{json}");
        assert_eq!(serde_json::from_str::<Sha256Digest>(&json).unwrap(), hash);
        for bad in ["", "ba78", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(
                Sha256Digest::try_from(bad.to_owned()),
                Err(InvalidDigest),
                "{bad}"
            );
        }
    }
}
