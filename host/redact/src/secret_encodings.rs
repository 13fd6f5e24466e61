//! The encodings in which a known value is searched.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::known_values::{LONG_MIN, SHORT_MIN, SecretEncoding};

/// Returns all encodings of a value, or an empty list if it is too short to be distinguished from ordinary text.
pub(super) fn encode_all(value: &str) -> Vec<SecretEncoding> {
    let mut forms = Vec::new();
    if value.len() < SHORT_MIN {
        return forms;
    }
    forms.push(SecretEncoding::plain(value));
    if value.len() < LONG_MIN {
        forms[0].is_word = true;
        return forms;
    }
    forms.extend(base64(value.as_bytes()));
    forms.extend(hex(value.as_bytes()));
    // Backwards, as a program may write it to hide it.
    forms.push(SecretEncoding::plain(
        value.chars().rev().collect::<String>(),
    ));
    // A space in a URL.
    if value.contains(' ') {
        forms.push(SecretEncoding::plain(value.replace(' ', "+")));
    }
    forms
}

/// Returns the base64 encodings of a value at any offset in the encoded bytes: the digits that encode only bits of the
/// value. Adjacent digits may encode some of its bits as well.
fn base64(value: &[u8]) -> Vec<SecretEncoding> {
    let mut forms = Vec::new();
    for skip in 0..3 {
        let mut padded = vec![0; skip];
        padded.extend_from_slice(value);
        let (first, whole) = ((skip * 8).div_ceil(6), padded.len() * 8 / 6);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let digits = engine.encode(&padded);
            let mut form = SecretEncoding::plain(&digits.as_bytes()[first..whole]);
            form.shares_digit_before = skip > 0;
            form.shares_digit_after = whole < digits.len();
            forms.push(form);
        }
    }
    forms
}

fn hex(value: &[u8]) -> [SecretEncoding; 2] {
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        SecretEncoding::plain(digits.to_uppercase()),
        SecretEncoding::plain(digits),
    ]
}
