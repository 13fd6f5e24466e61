//! Detection of secrets, by their format, in data that is about to leave the machine.
//!
//! Only rules for the secrets of one service count, because matches of a generic rule (a long value after `key=`) are
//! too often ordinary content of a request. A text is checked unchanged, and with one level of percent-encoding, base64
//! or hex decoded.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode;

use super::{Redactor, SecretFinding, VALUE_PREFIX};

/// Maximum number of bytes of a text that are checked.
pub const OUTGOING_MAX: usize = 1 << 20;

/// Minimum length of base64 that is decoded, in digits: secrets of services are not shorter than this encodes.
const BASE64_MIN: usize = 24;
/// Minimum number of consecutive hex digits that are decoded.
const HEX_MIN: usize = 32;

/// Accepts base64 that was cut off at any digit.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

impl Redactor {
    /// Finds a secret in outgoing text by its format. Returns the name of the rule. Ignores rules for which `skip`
    /// returns true.
    pub fn find_outgoing(&self, text: &[u8], skip: impl Fn(&str) -> bool) -> Option<String> {
        let text = text.get(..OUTGOING_MAX).unwrap_or(text);
        let find_rule = |text: &[u8]| {
            // The leak detector rejects known values.
            let is_format = |finding: &SecretFinding| {
                finding.is_specific()
                    && !finding.rule.starts_with(VALUE_PREFIX)
                    && !skip(&finding.rule)
            };
            let finding = self.find(text).into_iter().find(is_format);
            finding.map(|finding| finding.rule.into_owned())
        };
        if let Some(rule) = find_rule(text) {
            return Some(rule);
        }
        let decoded = if text.contains(&b'%') {
            let decoded: Vec<u8> = percent_decode(text).collect();
            Some(decoded).filter(|decoded| decoded != text)
        } else {
            None
        };
        if let Some(rule) = decoded.as_deref().and_then(find_rule) {
            return Some(rule);
        }
        let text = decoded.as_deref().unwrap_or(text);
        runs(text, BASE64_MIN, is_base64)
            .find_map(|run| decode_base64(run).iter().find_map(|text| find_rule(text)))
            .or_else(|| {
                let mut runs = runs(text, HEX_MIN, |byte| byte.is_ascii_hexdigit());
                runs.find_map(|run| find_rule(&decode_hex(run)))
            })
    }
}

/// Returns the runs of matching bytes that are long enough.
fn runs(text: &[u8], min: usize, matches: fn(&u8) -> bool) -> impl Iterator<Item = &[u8]> {
    let runs = text.split(move |byte| !matches(byte));
    runs.filter(move |run| run.len() >= min)
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Decodes a run in both alphabets. A slash may also be a path separator.
fn decode_base64(run: &[u8]) -> Vec<Vec<u8>> {
    let parts = run.split(|byte| *byte == b'/');
    let parts = parts.filter(|part| part.len() >= BASE64_MIN && part.len() < run.len());
    let decoded = parts.chain([run]).filter_map(|part| {
        // A single extra digit is the first digit of a truncated group.
        let complete = if part.len() % 4 == 1 {
            part.len() - 1
        } else {
            part.len()
        };
        let part = part.get(..complete)?;
        let standard = STANDARD.decode(part).ok();
        standard.or_else(|| URL_SAFE.decode(part).ok())
    });
    decoded.collect()
}

fn decode_hex(run: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    let pairs = run.chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    use super::{OUTGOING_MAX, Redactor};
    use base64::Engine as _;

    /// A made-up token in GitHub's format.
    fn token() -> String {
        ["ghp", "_cM8b2aJ1kQ7ZxY5tV9uW3eR6pL0sD4fG2hN1"].concat()
    }

    fn find_rule(text: &str) -> Option<String> {
        Redactor::new().find_outgoing(text.as_bytes(), |_| false)
    }

    #[test]
    fn outgoing_check_finds_service_tokens_in_common_encodings() {
        let token = token();
        let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!(
            "https://a.example/upload/{}",
            URL_SAFE_NO_PAD.encode(&token)
        );
        let json = format!("{{\"note\": \"it is {token}\"}}");
        for text in [
            token.clone(),
            format!("Bearer {token}"),
            json.clone(),
            STANDARD.encode(&token),
            STANDARD.encode(&json),
            STANDARD.encode(&json).replace('=', "%3D"),
            URL_SAFE_NO_PAD.encode(&token),
            url,
            hex.to_uppercase(),
            format!("data={hex}"),
            percent,
        ] {
            assert_eq!(find_rule(&text).as_deref(), Some("github-pat"), "{text}");
        }
        let skip = |rule: &str| rule == "github-pat";
        assert_eq!(Redactor::new().find_outgoing(token.as_bytes(), skip), None);
    }

    #[test]
    fn outgoing_check_ignores_ordinary_text() {
        for text in [
            "how do I rotate a GitHub token that begins with ghp_",
            "api_key = 4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c",
            "{\"password\": \"correct horse battery staple\"}",
            "AKIAIOSFODNN7EXAMPLE",
            "6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        ] {
            assert_eq!(find_rule(text), None, "{text}");
        }
        let far = format!("{}{}", " ".repeat(OUTGOING_MAX), token());
        assert_eq!(find_rule(&far), None, "only the first bytes are checked");
    }
}
