//! Summary of the masks in a result: their number, and their rules.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::mask::{self, SecretFinding};

/// The masks of one result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaskSummary {
    count: u32,
    rules: BTreeSet<Cow<'static, str>>,
}

impl MaskSummary {
    /// The number of masked secrets. A secret both in the text of a result and in its structured form counts once.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The rules that found the secrets.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &**rule)
    }

    /// Returns true if a rule for one format, or the value of a known secret, was among them. A generic rule may match
    /// any word behind a name such as `key`.
    pub fn is_specific(&self) -> bool {
        self.rules().any(|rule| !mask::is_generic(rule))
    }

    /// Adds the masks of another result.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.rules.extend(other.rules);
    }

    pub(super) fn from_findings<'a>(findings: impl IntoIterator<Item = &'a SecretFinding>) -> Self {
        let mut all = Self::default();
        for finding in findings {
            all.count = all.count.saturating_add(1);
            all.rules.insert(finding.rule.clone());
        }
        all
    }

    /// The masks of texts and of the value with the same content.
    pub(super) fn from_duplicated<'a>(pieces: impl IntoIterator<Item = FindingPart<'a>>) -> Self {
        /// A rule and the secret that it found.
        type FoundSecret<'a> = (&'a Cow<'static, str>, &'a [u8]);
        let mut all = Self::default();
        let mut times: HashMap<FoundSecret<'_>, (u32, u32)> = HashMap::new();
        for FindingPart {
            finding,
            secret,
            in_value,
        } in pieces
        {
            let times = times.entry((&finding.rule, secret)).or_default();
            match in_value {
                true => times.1 += 1,
                false => times.0 += 1,
            }
        }
        for ((rule, _), (in_texts, in_value)) in times {
            all.count = all.count.saturating_add(in_texts.max(in_value));
            all.rules.insert(rule.clone());
        }
        all
    }
}

/// A finding in one of several texts.
pub(super) struct FindingPart<'a> {
    /// The finding.
    pub finding: &'a SecretFinding,
    /// The masked value.
    pub secret: &'a [u8],
    /// True if it is in the value that goes with the texts.
    pub in_value: bool,
}
