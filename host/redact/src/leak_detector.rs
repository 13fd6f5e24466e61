//! Detection of known values in outgoing data that cannot be masked without changing its meaning.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::known_values::KnownValues;
use super::{Redactor, VALUE_PREFIX};

/// Searches for known values in bytes that arrive in chunks. The rules are not used, because the data may legitimately
/// contain something that only looks like a secret.
pub struct LeakDetector {
    known: Arc<KnownValues>,
    /// End of the previous data, without line ends: a value may continue in the next chunk.
    tail: Vec<u8>,
    /// Names of values that are not searched for.
    granted: Vec<String>,
    /// Names of values that are reported rather than others.
    canaries: Option<Arc<BTreeSet<String>>>,
}

impl Redactor {
    /// Creates a detector for the known values, or returns `None` if there are none.
    pub fn leak_detector(&self) -> Option<LeakDetector> {
        let known = self.known.as_ref().filter(|known| !known.is_empty())?;
        Some(LeakDetector {
            known: Arc::clone(known),
            tail: Vec::new(),
            granted: Vec::new(),
            canaries: self.canaries.clone(),
        })
    }
}

impl LeakDetector {
    /// Excludes the values with these names, which were granted to the receiver.
    #[must_use]
    pub fn except_granted(mut self, granted: &[String]) -> Self {
        self.granted = granted.to_vec();
        self
    }

    /// Scans the next chunk. Returns the name of a known value that ends in it, in any usual encoding.
    pub fn scan_next(&mut self, bytes: &[u8]) -> Option<String> {
        let is_not_line_end = |byte: &&u8| !matches!(byte, b'\r' | b'\n');
        self.tail.extend(bytes.iter().filter(is_not_line_end));
        let mut findings = Vec::new();
        self.known.find(&self.tail, &mut findings);
        // One byte more than the longest value, because a short value counts only as a separate word.
        let excess = self.tail.len().saturating_sub(self.known.longest() + 1);
        self.tail.drain(..excess);
        let names = findings.iter().map(|finding| {
            finding
                .rule
                .strip_prefix(VALUE_PREFIX)
                .unwrap_or(&finding.rule)
        });
        let is_canary = |name: &&str| {
            let canaries = self.canaries.as_ref();
            canaries.is_some_and(|canaries| canaries.contains(*name))
        };
        let is_reported = |name: &&str| !self.granted.iter().any(|granted| granted == name);
        let names = names.filter(is_reported);
        // A canary among several values is the one that a person must learn of.
        let name = names.max_by_key(is_canary)?;
        Some(name.to_owned())
    }

    /// Scans independent data, which does not continue the previous chunk.
    pub fn scan_separately(&mut self, bytes: &[u8]) -> Option<String> {
        self.tail.clear();
        let name = self.scan_next(bytes);
        self.tail.clear();
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "s3cr3t/value+0f=mine";

    #[test]
    fn leak_detector_finds_values_encoded_or_in_chunks() {
        let redactor = Redactor::new().with_values([("KEY", KEY), ("PIN", "4711")]);
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            KEY.to_owned(),
            hex,
            format!("a {KEY} b"),
            "4711".into(),
            "x=4711&".into(),
        ] {
            for size in [1, 3, 7, 1000] {
                let mut detector = redactor.leak_detector().unwrap();
                let chunks = text.as_bytes().chunks(size);
                let names: Vec<_> = chunks
                    .filter_map(|chunk| detector.scan_next(chunk))
                    .collect();
                assert!(!names.is_empty(), "{text} by {size}");
            }
        }
        let mut detector = redactor.leak_detector().unwrap();
        for text in [
            "s3cr3t/value+0f=mind",
            "147112",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        ] {
            assert_eq!(detector.scan_separately(text.as_bytes()), None, "{text}");
        }
        assert!(detector.tail.len() <= redactor.reach());
        assert!(Redactor::new().leak_detector().is_none());
    }
}
