//! Formatting of numbers and times for people and models.

use std::fs::Metadata;

/// Formats a number of bytes: `1 byte`, `1,204 bytes`.
pub fn bytes(count: u64) -> String {
    counted(count, "byte", "bytes")
}

/// Formats a count with its noun: `1 entry`, `1,204 entries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats the time of the last change as ISO 8601 in UTC; the Unix epoch if the system does not report it.
pub fn modified(metadata: &Metadata) -> String {
    let stamp = metadata
        .modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok());
    format!("{:.3}", stamp.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(123), "123 bytes");
        assert_eq!(bytes(1_204), "1,204 bytes");
        assert_eq!(bytes(1_000_000), "1,000,000 bytes");
    }

    #[test]
    fn times_are_iso_8601() {
        let now = modified(&std::fs::metadata(".").unwrap());
        assert!(
            now.ends_with('Z') && now.contains('T') && now.len() == 24,
            "{now}"
        );
    }
}
