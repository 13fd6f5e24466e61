//! Masking of secrets in the output of calls, so that neither a model nor a log sees them.
//!
//! A [`Redactor`] finds three kinds of secrets: matches of gitleaks' rules (`github-pat`), values of keys such as
//! `password` in structured data or JSON text (`key:password`), and known values in every usual encoding
//! (`secret:NAME`, see [`Redactor::with_values`]). A secret is replaced by `[REDACTED:rule]`, and everything else stays
//! unchanged: output is masked, never withheld.
//!
//! **Order.** Text is sanitized first, then masked, then truncated. Sanitizing removes terminal escapes and writes
//! invisible characters as escapes; the search ignores these escapes and the characters. Truncating before masking
//! would leave the first half of a secret, which no rule recognizes. The limit on captured output (16 MiB) truncates
//! earlier, which is why a private key without its end is masked as well.
//!
//! **Escapes.** Tools often return JSON, and JSON in JSON: if an escape prevents a match, the rule is tried again on
//! the decoded text.
//!
//! **Split secrets.** The texts of a result are also searched as one text ([`Redactor::mask_texts`]), and so are the
//! keys and strings of a value. Maskers for streams ([`StreamMasker`]) and for the lines of a log ([`LineMasker`]) hold
//! back a possible beginning of a secret.
//!
//! **Cost.** One pass of an Aho-Corasick automaton finds the anchor words of the rules. A rule is compiled when its
//! anchor is found at a position at which the rule can match, and searches only the text around the anchor. Nothing is
//! built at start-up. No match is longer than [`REACH`], so that a text of anchors only costs a bounded multiple of its
//! length.
//!
//! Out of scope: the source of values and exceptions, and the handling of calls.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

mod allow_list;
mod continued;
mod escapes;
mod false_positives;
mod invisible;
mod json_escapes;
mod keys;
mod known_value_masker;
mod known_values;
mod leak_detector;
mod line_masker;
mod mask;
mod outgoing;
mod own_rules;
mod pattern;
pub mod restore;
mod rules;
mod scan;
mod secret_encodings;
mod split_texts;
mod stream;
mod summary;
mod texts;
mod window;

/// The licence of gitleaks' rules.
pub const LICENCE: &str = include_str!("gitleaks/LICENSE");

pub use known_value_masker::KnownValueMasker;
pub use known_values::{LONG_MIN, SHORT_MIN};
pub use leak_detector::LeakDetector;
pub use line_masker::LineMasker;
pub use mask::SecretFinding;
pub use outgoing::OUTGOING_MAX;
pub use stream::StreamMasker;
pub use summary::{MaskSummary, SecretDigest};
pub use window::{AROUND, MaskedWindow};

use known_values::KnownValues;

/// Maximum length of a secret in bytes. The longest secrets in use are private keys: an RSA key of 16,384 bits takes
/// 13 KB, and an OpenPGP key with many subkeys several times as much.
pub const REACH: usize = 64 << 10;

/// Number of bytes around invisible characters that are scanned again: enough for any token.
const INVISIBLE_CONTEXT_BYTES: usize = 4 << 10;

/// Prefix of every mark.
pub const MARK: &str = "[REDACTED:";

/// Prefix of the rule names of known values.
const VALUE_PREFIX: &str = "secret:";

/// Finds and masks secrets. Clones share their data.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Option<Arc<KnownValues>>,
    /// Values that were restored into the arguments of a call, named by the rules that had masked them.
    restored: Option<Arc<KnownValues>>,
    exceptions: Option<Arc<RuleExceptions>>,
    /// The names of known values that are canaries.
    canaries: Option<Arc<BTreeSet<String>>>,
}

/// The rules that are ignored.
#[derive(Debug, Default)]
struct RuleExceptions {
    rules: BTreeSet<String>,
    /// The exceptions that have applied to a match.
    used: Mutex<BTreeSet<String>>,
}

/// Source of the known values, which are masked wherever they appear.
pub trait Vault: Send + Sync {
    /// Returns a redactor with the current values. It is requested for each call. If the values cannot be read, the
    /// call is not made, because they could not be masked.
    fn redactor(&self) -> Result<Redactor, VaultError>;

    /// Returns the value of a secret, to send it to a receiver to which the user has granted it. Returns `None` for an
    /// unknown name.
    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        let _ = name;
        Ok(None)
    }
}

/// Error about known values that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read the secrets to mask: {0}")]
pub struct VaultError(pub String);

impl Vault for Redactor {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        Ok(self.clone())
    }
}

/// Error about an exception that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExceptionError {
    /// The rule does not exist.
    #[error("unknown redaction rule `{rule}`; `mimir redact --rules` lists them")]
    Unknown {
        /// The rule that was requested.
        rule: String,
    },
    /// Known values are always masked.
    #[error(
        "`{rule}` is the value of a stored secret, which is always masked; remove it from the store with `mimir secrets remove`"
    )]
    Value {
        /// The rule that was requested.
        rule: String,
    },
}

impl Redactor {
    /// Creates a redactor with all rules and no known values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a copy whose known values are these pairs of name and value.
    ///
    /// A value of [`LONG_MIN`] bytes or more is masked anywhere in every usual encoding, and a value of [`SHORT_MIN`]
    /// bytes or more as a separate word. Shorter values are not masked, because they cannot be distinguished from
    /// ordinary text.
    #[must_use]
    pub fn with_values<N, V>(&self, values: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let values = values
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self {
            known: Some(Arc::new(KnownValues::new(VALUE_PREFIX, values))),
            restored: self.restored.clone(),
            exceptions: self.exceptions.clone(),
            canaries: self.canaries.clone(),
        }
    }

    /// Returns a copy in which the known values with these names are canaries: planted values that no tool has a reason
    /// to send. They are masked like other values.
    #[must_use]
    pub fn with_canaries(&self, names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().collect();
        Self {
            canaries: (!names.is_empty()).then(|| Arc::new(names)),
            ..self.clone()
        }
    }

    /// Returns true if the known value with this name is a canary.
    pub fn is_canary(&self, name: &str) -> bool {
        let canaries = self.canaries.as_ref();
        canaries.is_some_and(|canaries| canaries.contains(name))
    }

    /// Returns the names of the canaries that were masked.
    pub fn masked_canaries<'a>(&'a self, masks: &'a MaskSummary) -> impl Iterator<Item = &'a str> {
        // Most redactors have no canaries.
        let canaries = self.canaries.as_ref().into_iter();
        canaries.flat_map(|canaries| {
            let names = masks
                .rules()
                .filter_map(|rule| rule.strip_prefix(VALUE_PREFIX));
            names.filter(|name| canaries.contains(*name))
        })
    }

    /// Returns a copy that also masks these pairs of rule and value, each under the name of its rule.
    #[must_use]
    pub fn with_restored(&self, values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            restored: Some(Arc::new(KnownValues::new("", values))),
            ..self.clone()
        }
    }

    /// Returns a copy whose exceptions are these rules: it ignores their matches. Fails for an unknown rule and for a
    /// known value, which is always masked.
    pub fn except<R: AsRef<str>>(
        &self,
        rules: impl IntoIterator<Item = R>,
    ) -> Result<Self, ExceptionError> {
        let mut exceptions = BTreeSet::new();
        for rule in rules {
            let rule = rule.as_ref();
            if rule.starts_with(VALUE_PREFIX) {
                return Err(ExceptionError::Value {
                    rule: rule.to_owned(),
                });
            }
            let known = Self::rules();
            if known.binary_search(&rule).is_err() {
                return Err(ExceptionError::Unknown {
                    rule: rule.to_owned(),
                });
            }
            exceptions.insert(rule.to_owned());
        }
        Ok(Self {
            known: self.known.clone(),
            restored: self.restored.clone(),
            canaries: self.canaries.clone(),
            exceptions: (!exceptions.is_empty()).then(|| {
                Arc::new(RuleExceptions {
                    rules: exceptions,
                    used: Mutex::default(),
                })
            }),
        })
    }

    /// Returns the names of all rules, sorted.
    pub fn rules() -> Vec<&'static str> {
        let mut names: Vec<_> = rules::all()
            .map(|rule| rule.id)
            .chain(keys::rules())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns true if this rule is ignored.
    pub fn is_exempt(&self, rule: &str) -> bool {
        self.exceptions
            .as_ref()
            .is_some_and(|exceptions| exceptions.rules.contains(rule))
    }

    /// Returns true if a rule that matched is ignored, and records that its exception was used.
    fn record_exempt(&self, rule: &str) -> bool {
        let is_exempt = self.is_exempt(rule);
        if is_exempt && let Some(exceptions) = &self.exceptions {
            let mut used = exceptions.used.lock();
            if !used.contains(rule) {
                used.insert(rule.to_owned());
            }
        }
        is_exempt
    }

    /// Returns the exceptions that have applied to a match since they were set.
    pub fn used_exceptions(&self) -> Vec<String> {
        let Some(exceptions) = &self.exceptions else {
            return Vec::new();
        };
        let used = exceptions.used.lock();
        used.iter().cloned().collect()
    }

    /// Finds the secrets in a text, in order and without overlaps. The text need not be UTF-8. Ignores invisible
    /// characters and terminal escapes, raw or escaped.
    pub fn find(&self, text: &[u8]) -> Vec<SecretFinding> {
        self.find_visible(text, Self::find_plain)
    }

    /// Finds the known values in a text, in order and without overlaps.
    fn find_known(&self, text: &[u8]) -> Vec<SecretFinding> {
        self.find_visible(text, Self::find_plain_known)
    }

    /// Returns true if there are known values to search for.
    fn has_known(&self) -> bool {
        let mut values = [&self.known, &self.restored].into_iter().flatten();
        values.any(|known| !known.is_empty())
    }

    /// Finds secrets in a text, with and without its invisible characters.
    fn find_visible(
        &self,
        text: &[u8],
        find: fn(&Self, &[u8]) -> Vec<SecretFinding>,
    ) -> Vec<SecretFinding> {
        let mut findings = find(self, text);
        for stripped in invisible::strip_invisible(text, INVISIBLE_CONTEXT_BYTES) {
            for finding in find(self, &stripped.text) {
                let at = stripped.source_range(finding.start..finding.end);
                if !stripped.is_cut_off(&at, text) {
                    findings.push(SecretFinding::new(finding.rule, at));
                }
            }
        }
        mask::merge(findings)
    }

    /// Finds the secrets in a text as it is, in no particular order.
    fn find_plain(&self, text: &[u8]) -> Vec<SecretFinding> {
        let mut findings: Vec<SecretFinding> = scan::scanner()
            .find(text)
            .into_iter()
            .filter(|hit| !self.record_exempt(hit.rule))
            .map(|hit| SecretFinding::new(hit.rule, hit.at))
            .collect();
        findings.extend(self.find_plain_known(text));
        findings
    }

    /// Finds the known values in a text as it is, in no particular order.
    fn find_plain_known(&self, text: &[u8]) -> Vec<SecretFinding> {
        let mut findings = Vec::new();
        let values = [&self.known, &self.restored].into_iter().flatten();
        for known in values.filter(|known| !known.is_empty()) {
            known.find(text, &mut findings);
            // Characters may be escaped unnecessarily: `\u002d`, `%2D`.
            for plain in json_escapes::resolved_forms(text) {
                let mut matches = Vec::new();
                known.find(&plain.text, &mut matches);
                let to_source = |finding: SecretFinding| {
                    SecretFinding::new(finding.rule, plain.source_range(finding.start..finding.end))
                };
                findings.extend(matches.into_iter().map(to_source));
            }
        }
        findings
    }

    /// Masks the secrets in a text. Returns the number of marks.
    pub fn mask_text(&self, text: &mut String) -> u32 {
        let findings = self.find(text.as_bytes());
        mask::apply(text, &findings);
        count(findings.len())
    }

    /// Masks the known values in the bytes of a file in any format.
    pub fn mask_bytes(&self, bytes: &mut Vec<u8>) -> MaskSummary {
        let mut findings = Vec::new();
        for known in [&self.known, &self.restored].into_iter().flatten() {
            known.find(bytes, &mut findings);
        }
        let findings = mask::merge(findings);
        let summary = MaskSummary::from_findings(&findings, bytes);
        for finding in findings.iter().rev() {
            bytes.splice(finding.start..finding.end, finding.mark().into_bytes());
        }
        summary
    }

    /// Returns the offset near the end of a text at which a secret may begin that continues beyond the end.
    fn open_secret_start(&self, text: &[u8]) -> Option<usize> {
        let floor = text.len().saturating_sub(self.reach());
        let near = &text[floor..];
        let rules = scan::scanner().open_secret_start(near);
        let values = self
            .known
            .as_ref()
            .and_then(|known| known.open_value_start(near));
        [rules, values]
            .into_iter()
            .flatten()
            .min()
            .map(|at| floor + at)
    }

    /// Returns the maximum length of a finding, in bytes.
    fn reach(&self) -> usize {
        // Twice the length, because a known value may be wrapped into lines of any length.
        let longest = self.known.as_ref().map_or(0, |known| 2 * known.longest());
        REACH.max(longest)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the values.
        f.debug_struct("Redactor")
            .field("exceptions", &self.exceptions)
            .finish_non_exhaustive()
    }
}

fn count(findings: usize) -> u32 {
    u32::try_from(findings).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
