//! The cache of known counts, stored as text with one line per count, sorted by key. A lookup is a binary search, and
//! parses one line. Invalid lines are ignored.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The key of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenCountKey([u8; KEY_BYTES]);

/// Length of a key in bytes: enough to make collisions infeasible.
const KEY_BYTES: usize = 16;

/// Number of digits of a count, and the maximum count; larger counts are stored as the maximum.
const COUNT_DIGITS: usize = 8;
const MAX_COUNT: u32 = 99_999_999;

/// Length of a line: the key in hex, a blank, the count with leading zeros, a newline.
const LINE_BYTES: usize = 2 * KEY_BYTES + 1 + COUNT_DIGITS + 1;

/// Maximum number of stored lines. Beyond that, all earlier counts are dropped.
const MAX_LINES: usize = 20_000;

impl TokenCountKey {
    /// Returns the key of a text that depends only on these parts.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The lengths keep different lists of parts from hashing equal bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&hash.finalize()[..KEY_BYTES]);
        Self(key)
    }

    fn hex(self) -> [u8; 2 * KEY_BYTES] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 2 * KEY_BYTES];
        for (at, byte) in self.0.iter().enumerate() {
            hex[2 * at] = HEX[usize::from(byte >> 4)];
            hex[2 * at + 1] = HEX[usize::from(byte & 15)];
        }
        hex
    }
}

/// Counts by key.
#[derive(Debug, Default)]
pub struct TokenCountCache {
    stored: String,
    added: BTreeMap<TokenCountKey, u32>,
}

impl TokenCountCache {
    /// Creates a cache from stored text. Invalid text counts as empty.
    pub fn parse(text: String) -> Self {
        let is_valid = text.len().is_multiple_of(LINE_BYTES) && text.is_ascii();
        Self {
            stored: if is_valid { text } else { String::new() },
            added: BTreeMap::new(),
        }
    }

    /// Returns the count for this key, if it is known.
    pub fn get(&self, key: TokenCountKey) -> Option<u32> {
        if let Some(count) = self.added.get(&key) {
            return Some(*count);
        }
        let lines: &[[u8; LINE_BYTES]] = self.stored.as_bytes().as_chunks().0;
        let hex = key.hex();
        let at = lines
            .binary_search_by(|line| line[..2 * KEY_BYTES].cmp(&hex))
            .ok()?;
        parse_line(&lines[at])
    }

    /// Adds a count.
    pub fn put(&mut self, key: TokenCountKey, count: u32) {
        self.added.insert(key, count.min(MAX_COUNT));
    }

    /// Returns the text to store, or `None` if nothing was added.
    pub fn text(&self) -> Option<String> {
        if self.added.is_empty() {
            return None;
        }
        let added: Vec<_> = self
            .added
            .iter()
            .map(|(key, count)| (key.hex(), *count))
            .collect();
        let mut lines: BTreeMap<&[u8], u32> = BTreeMap::new();
        let stored = self.stored.as_bytes().as_chunks::<LINE_BYTES>().0;
        if stored.len() + self.added.len() <= MAX_LINES {
            let stored = stored.iter();
            lines.extend(
                stored.filter_map(|line| Some((&line[..2 * KEY_BYTES], parse_line(line)?))),
            );
        }
        lines.extend(added.iter().map(|(hex, count)| (hex.as_slice(), *count)));
        let mut text = String::with_capacity(lines.len() * LINE_BYTES);
        for (hex, count) in lines {
            text.push_str(std::str::from_utf8(hex).unwrap_or_default());
            text.push_str(&format!(" {count:0COUNT_DIGITS$}\n"));
        }
        Some(text)
    }
}

fn parse_line(line: &[u8; LINE_BYTES]) -> Option<u32> {
    let hex = line[..2 * KEY_BYTES].iter().all(u8::is_ascii_hexdigit);
    if !hex || line[2 * KEY_BYTES] != b' ' || line[LINE_BYTES - 1] != b'\n' {
        return None;
    }
    let digits = &line[2 * KEY_BYTES + 1..LINE_BYTES - 1];
    digits.iter().try_fold(0, |count: u32, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        Some(count * 10 + digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> TokenCountKey {
        TokenCountKey::from_parts([number.to_string().as_str()])
    }

    #[test]
    fn cache_returns_stored_counts() {
        let mut cache = TokenCountCache::default();
        assert_eq!((cache.text(), cache.get(key(1))), (None, None));
        for number in 0..100 {
            cache.put(key(number), number);
        }
        let mut cache = TokenCountCache::parse(cache.text().unwrap());
        assert_eq!(cache.text(), None, "nothing is new");
        for number in 0..100 {
            assert_eq!(cache.get(key(number)), Some(number));
        }
        assert_eq!(cache.get(key(100)), None);
        cache.put(key(100), u32::MAX);
        cache.put(key(7), 8);
        let cache = TokenCountCache::parse(cache.text().unwrap());
        let counts = [cache.get(key(6)), cache.get(key(7)), cache.get(key(100))];
        assert_eq!(counts, [Some(6), Some(8), Some(MAX_COUNT)]);
    }

    #[test]
    fn key_separates_its_parts() {
        assert_ne!(
            TokenCountKey::from_parts(["ab", "c"]),
            TokenCountKey::from_parts(["a", "bc"])
        );
        assert_ne!(
            TokenCountKey::from_parts(["a", ""]),
            TokenCountKey::from_parts(["a"])
        );
        assert_eq!(
            TokenCountKey::from_parts(["a", "b"]),
            TokenCountKey::from_parts(["a", "b"])
        );
    }

    #[test]
    fn cache_ignores_and_replaces_invalid_text() {
        let mut good = TokenCountCache::default();
        good.put(key(1), 5);
        let good = good.text().unwrap();
        let broken = good.replace(' ', "x");
        for bad in [
            "x",
            "ä",
            &good[1..],
            &"z".repeat(LINE_BYTES),
            &broken,
            &"\n".repeat(LINE_BYTES * 3),
        ] {
            let mut cache = TokenCountCache::parse(bad.to_owned());
            assert_eq!(cache.get(key(1)), None, "{bad:?}");
            cache.put(key(2), 3);
            let text = cache.text().unwrap();
            assert_eq!(text.len(), LINE_BYTES, "{text}");
        }
    }

    #[test]
    fn cache_is_limited_in_size() {
        let mut cache = TokenCountCache::default();
        for number in 0..MAX_LINES as u32 {
            cache.put(key(number), 1);
        }
        let mut cache = TokenCountCache::parse(cache.text().unwrap());
        cache.put(key(u32::MAX), 2);
        let cache = TokenCountCache::parse(cache.text().unwrap());
        assert_eq!(
            (cache.get(key(1)), cache.get(key(u32::MAX))),
            (None, Some(2))
        );
    }
}
