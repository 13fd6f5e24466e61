//! Digests of manifests and blobs.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::RegistryError;

/// Digest of a manifest or blob, written `sha256:<hex>`. Other algorithms are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OciDigest([u8; 32]);

impl OciDigest {
    /// Computes the digest of `bytes`.
    ///
    /// ```
    /// use mimir_registry::OciDigest;
    ///
    /// let digest = OciDigest::of_bytes(b"{}");
    /// assert_eq!(digest.to_string().parse::<OciDigest>()?, digest);
    /// assert!("sha512:00".parse::<OciDigest>().is_err());
    /// # Ok::<(), mimir_registry::RegistryError>(())
    /// ```
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Creates a digest from the output of SHA-256.
    pub const fn from_sha256(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the hash as 64 lower-case hexadecimal digits, without the algorithm.
    pub fn hex(&self) -> String {
        let mut hex = String::with_capacity(2 * self.0.len());
        for byte in self.0 {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

impl fmt::Display for OciDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl FromStr for OciDigest {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let fault = |why| RegistryError::Digest {
            text: mimir_core::text::visible(text),
            why,
        };
        let (algorithm, hex) = text
            .split_once(':')
            .ok_or_else(|| fault("the algorithm is missing"))?;
        if algorithm != "sha256" {
            return Err(fault("only sha256 is supported"));
        }
        let mut hash = [0; 32];
        if hex.len() != 2 * hash.len() {
            return Err(fault("a sha256 has 64 digits"));
        }
        for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digit = |at: usize| match pair.get(at) {
                Some(digit @ b'0'..=b'9') => Some(digit - b'0'),
                Some(digit @ b'a'..=b'f') => Some(digit - b'a' + 10),
                _ => None,
            };
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(fault("digits are 0-9 and a-f, in lower case"));
            };
            *byte = high << 4 | low;
        }
        Ok(Self(hash))
    }
}

impl Serialize for OciDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OciDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
