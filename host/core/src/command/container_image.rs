//! IDs of container images.

use std::fmt;
use std::str::FromStr;

/// The ID of a container image: the sha256 of its configuration, which names its exact content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContainerImageId([u8; 32]);

/// A text that is not the ID of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the image ID is not valid: expected `sha256:` and 64 hexadecimal digits")]
pub struct InvalidImageId;

impl FromStr for ContainerImageId {
    type Err = InvalidImageId;

    fn from_str(text: &str) -> Result<Self, InvalidImageId> {
        let digits = text.strip_prefix("sha256:").ok_or(InvalidImageId)?;
        let mut id = [0; 32];
        if digits.len() != 2 * id.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidImageId);
        }
        for (byte, at) in id.iter_mut().zip((0..).step_by(2)) {
            let pair = digits.get(at..at + 2).ok_or(InvalidImageId)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| InvalidImageId)?;
        }
        Ok(Self(id))
    }
}

impl fmt::Display for ContainerImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_image_id_is_a_full_digest() {
        let text = format!("sha256:{}", "0aF9".repeat(16));
        let id: ContainerImageId = text.parse().unwrap();
        assert_eq!(id.to_string(), text.to_lowercase());
        let digits = "0".repeat(64);
        for text in [
            "",
            "sha256:",
            "python:3",
            &digits,
            &format!("sha256:{}", &digits[1..]),
            &format!("sha256:{digits}0"),
            &format!("sha256:+{}", &digits[1..]),
            &format!("sha512:{digits}"),
        ] {
            assert_eq!(
                text.parse::<ContainerImageId>(),
                Err(InvalidImageId),
                "{text}"
            );
        }
    }
}
