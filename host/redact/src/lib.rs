//! Secrets in what leaves a call are masked, so that neither a model nor a log gets to see them.
//!
//! A [`Redactor`] finds three kinds: what one of gitleaks' rules describes (`github-pat`), what stands below a key such
//! as `password` in structured data or in JSON text (`key:password`), and values that are known to be secret in every
//! usual form (`secret:NAME`, see [`Redactor::with_values`]). A finding becomes `[REDACTED:rule]` and everything else
//! stays as it was: output is masked, never withheld. A string stays a string; numbers and booleans are left alone,
//! because a schema may promise them.
//!
//! **Order.** Text is sanitized first, then masked, then cut. Sanitizing takes terminal escapes away and writes
//! invisible characters out, and what it writes hides a secret no more than the characters do. Cutting before masking
//! would leave the first half of a secret that nobody recognises any more; masking what is cut later costs no more than
//! the scan. A limit on what is captured at all (16 MiB) cuts earlier, which is why a private key is masked without its
//! end, too.
//!
//! **Escapes.** Tools say much in JSON, and JSON in JSON: where a rule could match but for an escape, it is tried once
//! more on what the text stands for.
//!
//! **Splitting** a secret over several texts does not hide it: parts of one result are also read as one
//! ([`Redactor::parts`]), a stream keeps back what may still become a secret ([`Stream`]), and so do the lines of a log
//! ([`Lines`]).
//!
//! **Cost.** One pass of an Aho-Corasick automaton finds the words that rules begin with; a rule is compiled when its
//! word is found in a place where it can match, and looks at that place only. Nothing is built at start-up, and no match
//! is longer than [`REACH`], so that a text of nothing but such words costs a bounded multiple of its length.
//!
//! Never here: where values and exceptions come from, and what is done with a call.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

mod allow;
mod escape;
mod excuse;
mod forms;
mod keys;
mod known;
mod known_stream;
mod leaving;
mod lines;
mod lookout;
mod mask;
mod own;
mod pattern;
mod pieces;
pub mod restore;
mod rules;
mod scan;
mod stream;
mod summary;
mod texts;
mod veil;
mod window;
mod written;

/// The licence of gitleaks' rules.
pub const LICENCE: &str = include_str!("gitleaks/LICENSE");

pub use known::{LONG_MIN, SHORT_MIN};
pub use known_stream::KnownStream;
pub use leaving::LEAVING_MAX;
pub use lines::Lines;
pub use lookout::Lookout;
pub use mask::Finding;
pub use stream::Stream;
pub use summary::MaskSummary;
pub use window::{AROUND, Window};

use known::Known;

/// The longest secret in bytes. The largest in use are private keys: an RSA key of 16,384 bits takes 13 KB, an OpenPGP
/// key with many subkeys several times as much.
pub const REACH: usize = 64 << 10;

/// How much is read again about what is not seen: any token fits. (Of a private key it hides nothing in any case.)
const VEILED_MAX: usize = 4 << 10;

/// What every mark begins with.
pub const MARK: &str = "[REDACTED:";

/// What the names of known values begin with, as rules.
const VALUE: &str = "secret:";

/// Finds secrets and masks them. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Option<Arc<Known>>,
    /// Values that were put back into the arguments of a call, under the rules that had masked them.
    restored: Option<Arc<Known>>,
    exceptions: Option<Arc<Exceptions>>,
}

/// The rules that do not count.
#[derive(Debug, Default)]
struct Exceptions {
    rules: BTreeSet<String>,
    /// Those of them that would have masked something.
    used: Mutex<BTreeSet<String>>,
}

/// Where the values come from that are masked wherever they stand.
pub trait Vault: Send + Sync {
    /// A redactor that knows them as they are now. Asked for at each call: one whose secrets cannot be known is not
    /// made, because they could not be masked.
    fn redactor(&self) -> Result<Redactor, VaultError>;

    /// The value of one, to be sent where a person has granted that; nothing if there is none of this name.
    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        let _ = name;
        Ok(None)
    }
}

/// Secrets that cannot be known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("what is secret is not known: {0}")]
pub struct VaultError(pub String);

impl Vault for Redactor {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        Ok(self.clone())
    }
}

/// An exception that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExceptionError {
    /// There is no such rule.
    #[error("there is no redaction rule `{rule}`; `mimir redact --rules` lists them")]
    Unknown {
        /// What was asked for.
        rule: String,
    },
    /// Known values are never shown.
    #[error(
        "`{rule}` is the value of a stored secret, which is always masked; `mimir secrets remove` takes it out of the store"
    )]
    Value {
        /// What was asked for.
        rule: String,
    },
}

impl Redactor {
    /// A redactor that knows the rules and no values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same one that also knows these values, given with their names, and none of those it knew before.
    ///
    /// A value of [`LONG_MIN`] bytes or more is masked in every usual form wherever it stands, one of [`SHORT_MIN`] or
    /// more where it stands alone, and a shorter one not at all: it could not be told from ordinary text.
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
            known: Some(Arc::new(Known::new(VALUE, values))),
            restored: self.restored.clone(),
            exceptions: self.exceptions.clone(),
        }
    }

    /// Adds values that are masked wherever they are, each under the name of the rule that had found it.
    #[must_use]
    pub fn with_restored(&self, values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            restored: Some(Arc::new(Known::new("", values))),
            ..self.clone()
        }
    }

    /// The same one without these rules, in place of the exceptions it had.
    pub fn except<R: AsRef<str>>(
        &self,
        rules: impl IntoIterator<Item = R>,
    ) -> Result<Self, ExceptionError> {
        let mut exceptions = BTreeSet::new();
        for rule in rules {
            let rule = rule.as_ref();
            if rule.starts_with(VALUE) {
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
            exceptions: (!exceptions.is_empty()).then(|| {
                Arc::new(Exceptions {
                    rules: exceptions,
                    used: Mutex::default(),
                })
            }),
        })
    }

    /// The names of all rules, sorted.
    pub fn rules() -> Vec<&'static str> {
        let mut names: Vec<_> = rules::all()
            .map(|rule| rule.id)
            .chain(keys::rules())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether this rule does not count here.
    pub fn is_exempt(&self, rule: &str) -> bool {
        self.exceptions
            .as_ref()
            .is_some_and(|exceptions| exceptions.rules.contains(rule))
    }

    /// The same of a rule that has found something, which is remembered.
    fn lets_through(&self, rule: &str) -> bool {
        let exempt = self.is_exempt(rule);
        if exempt && let Some(exceptions) = &self.exceptions {
            let mut used = exceptions
                .used
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !used.contains(rule) {
                used.insert(rule.to_owned());
            }
        }
        exempt
    }

    /// The rules that have let something through since the exceptions were made.
    pub fn let_through(&self) -> Vec<String> {
        let Some(exceptions) = &self.exceptions else {
            return Vec::new();
        };
        let used = exceptions
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        used.iter().cloned().collect()
    }

    /// The secrets in a text, in order and apart from each other. The text need not be UTF-8. Invisible characters and
    /// terminal escapes hide nothing, whether they are there or written out.
    pub fn find(&self, text: &[u8]) -> Vec<Finding> {
        let mut findings = self.seen(text);
        for left in veil::lift(text, VEILED_MAX) {
            for finding in self.seen(&left.text) {
                let at = left.back(finding.start..finding.end);
                if !left.breaks_off(&at, text) {
                    findings.push(Finding::new(finding.rule, at));
                }
            }
        }
        mask::merge(findings)
    }

    /// The secrets in a text as it stands, in no particular order.
    fn seen(&self, text: &[u8]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = scan::engine()
            .find(text)
            .into_iter()
            .filter(|hit| !self.lets_through(hit.rule))
            .map(|hit| Finding::new(hit.rule, hit.at))
            .collect();
        let values = [&self.known, &self.restored].into_iter().flatten();
        for known in values.filter(|known| !known.is_empty()) {
            known.find(text, &mut findings);
            // A writer may escape what need not be escaped: `\u002d`, `%2D`.
            for plain in escape::readings(text) {
                let mut read = Vec::new();
                known.find(&plain.text, &mut read);
                let back = |finding: Finding| {
                    Finding::new(finding.rule, plain.back(finding.start..finding.end))
                };
                findings.extend(read.into_iter().map(back));
            }
        }
        findings
    }

    /// Masks the secrets in a text; how many there were.
    pub fn text(&self, text: &mut String) -> u32 {
        let findings = self.find(text.as_bytes());
        mask::apply(text, &findings);
        count(findings.len())
    }

    /// Masks the known values in the bytes of a file, whatever they are.
    pub fn bytes(&self, bytes: &mut Vec<u8>) -> MaskSummary {
        let mut findings = Vec::new();
        for known in [&self.known, &self.restored].into_iter().flatten() {
            known.find(bytes, &mut findings);
        }
        let findings = mask::merge(findings);
        for finding in findings.iter().rev() {
            bytes.splice(finding.start..finding.end, finding.mark().into_bytes());
        }
        MaskSummary::of(&findings)
    }

    /// Where in the last bytes of a text something may begin that goes on behind its end.
    fn open(&self, text: &[u8]) -> Option<usize> {
        let floor = text.len().saturating_sub(self.reach());
        let near = &text[floor..];
        let rules = scan::engine().open(near);
        let values = self.known.as_ref().and_then(|known| known.open(near));
        [rules, values]
            .into_iter()
            .flatten()
            .min()
            .map(|at| floor + at)
    }

    /// The most bytes that anything it finds can have.
    fn reach(&self) -> usize {
        // A known value may be wrapped into lines, however short.
        let longest = self.known.as_ref().map_or(0, |known| 2 * known.longest());
        REACH.max(longest)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the values.
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
