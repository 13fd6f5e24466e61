//! Summary of the masks in a result: their number, their rules, and digests that show which values are equal.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use super::mask::{self, SecretFinding};

/// The masks of one result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaskSummary {
    count: u32,
    values: BTreeMap<Cow<'static, str>, BTreeSet<SecretDigest>>,
}

/// A hash of a masked value with a key of this process, to compare values without storing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretDigest(u64);

impl SecretDigest {
    /// Returns the digest of a value.
    pub fn new(value: &[u8]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEY.hash_one(value))
    }
}

impl MaskSummary {
    /// Returns the number of masked secrets. A secret in both the text and the structured value of a result counts
    /// once.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the rules that found the secrets.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(|rule| &**rule)
    }

    /// Returns the rules that found the secrets, each with the digests of its values.
    pub fn values(&self) -> impl Iterator<Item = (&str, &BTreeSet<SecretDigest>)> {
        self.values.iter().map(|(rule, values)| (&**rule, values))
    }

    /// Returns true if a rule for one format has matched, or a known value. A generic rule may match any word after a
    /// name such as `key`.
    pub fn is_specific(&self) -> bool {
        self.rules().any(|rule| !mask::is_generic(rule))
    }

    /// Adds the masks of another result.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        for (rule, values) in other.values {
            self.values.entry(rule).or_default().extend(values);
        }
    }

    fn insert(&mut self, rule: Cow<'static, str>, value: &[u8]) {
        let values = self.values.entry(rule).or_default();
        values.insert(SecretDigest::new(value));
    }

    /// Creates the summary of one text.
    pub(super) fn from_findings(findings: &[SecretFinding], text: &[u8]) -> Self {
        let mut summary = Self::default();
        for finding in findings {
            summary.count = summary.count.saturating_add(1);
            let value = text.get(finding.start..finding.end).unwrap_or_default();
            summary.insert(finding.rule.clone(), value);
        }
        summary
    }

    /// Creates the summary of texts and of a value with the same content.
    pub(super) fn from_duplicated<'a>(parts: impl IntoIterator<Item = FindingPart<'a>>) -> Self {
        /// A rule and the secret that it found.
        type FoundSecret<'a> = (&'a Cow<'static, str>, &'a [u8]);
        let mut summary = Self::default();
        let mut counts: HashMap<FoundSecret<'_>, (u32, u32)> = HashMap::new();
        for FindingPart {
            finding,
            secret,
            in_value,
        } in parts
        {
            let counts = counts.entry((&finding.rule, secret)).or_default();
            if in_value {
                counts.1 += 1;
            } else {
                counts.0 += 1;
            }
        }
        for ((rule, secret), (in_texts, in_value)) in counts {
            summary.count = summary.count.saturating_add(in_texts.max(in_value));
            summary.insert(rule.clone(), secret);
        }
        summary
    }
}

/// A finding in one of several texts.
pub(super) struct FindingPart<'a> {
    /// The finding.
    pub finding: &'a SecretFinding,
    /// The masked value.
    pub secret: &'a [u8],
    /// True if the finding is in the value, not in a text.
    pub in_value: bool,
}
