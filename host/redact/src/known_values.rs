//! Known secret values, found in the usual encodings.
//!
//! A value of [`LONG_MIN`] bytes or more is found anywhere: unchanged, in base64 (at any offset in an encoded text, in
//! both alphabets, with and without padding), in hex, and with line ends in between, as in wrapped base64. The text is
//! searched unchanged and decoded: percent signs, entities and escapes are decoded up to three times, consecutive JSON
//! strings are joined, and the separators of hex dumps are removed. Each line of [`LONG_MIN`] bytes or more in a value
//! of several lines is masked by itself as well.
//!
//! A shorter value could be part of ordinary words: from [`SHORT_MIN`] bytes, it is masked if it is a separate word,
//! unchanged or in a JSON string. Even shorter values are not masked; a secret store should reject them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;

use super::escapes::{DecodedTexts, complete_len};
use super::invisible::StrippedText;
use super::mask::SecretFinding;
use super::pattern::is_word;
use super::secret_encodings;
use super::split_texts;

/// Minimum length in bytes of a value that is masked anywhere, in any encoding.
pub const LONG_MIN: usize = 8;

/// Minimum length in bytes of a value that is masked as a separate word.
pub const SHORT_MIN: usize = 4;

/// Maximum number of bytes that one encoding level uses for a byte: `&#x41;` and `\\u0041`.
const ENCODED_BYTE_MAX: usize = 6;

/// One encoded form of a value.
pub(super) struct SecretEncoding {
    /// The bytes to search for.
    pub bytes: Vec<u8>,
    /// True if the form counts only as a separate word.
    pub is_word: bool,
    /// True if the base64 digit before the form also encodes bits of the value.
    pub shares_digit_before: bool,
    /// True if the base64 digit after the form also encodes bits of the value.
    pub shares_digit_after: bool,
}

impl SecretEncoding {
    pub(super) fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            is_word: false,
            shares_digit_before: false,
            shares_digit_after: false,
        }
    }

    /// Extends the mask to that of another value with the same bytes.
    fn widen(&mut self, other: &Self) {
        self.is_word &= other.is_word;
        self.shares_digit_before |= other.shares_digit_before;
        self.shares_digit_after |= other.shares_digit_after;
    }
}

/// The known values of one redactor.
pub(super) struct KnownValues {
    /// Prefix of the rule names, before the names of the values.
    prefix: &'static str,
    names: Vec<String>,
    forms: Vec<(usize, SecretEncoding)>,
    automaton: OnceLock<Option<AhoCorasick>>,
    /// The pairs of adjacent bytes in any of the forms.
    pairs: HashSet<(u8, u8)>,
    longest: usize,
}

impl KnownValues {
    /// Creates the set from names and values. The automaton is built when the first text is searched.
    pub(super) fn new(
        prefix: &'static str,
        values: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut names = Vec::new();
        let mut forms: HashMap<Vec<u8>, (usize, SecretEncoding)> = HashMap::new();
        for (name, value) in values {
            let number = names.len();
            names.push(name);
            let value = value.trim_matches(['\r', '\n']);
            let lines = secret_lines(value).map(SecretEncoding::plain);
            for mut form in secret_encodings::encode_all(value).into_iter().chain(lines) {
                form.bytes.retain(|byte| !is_line_end(*byte));
                match forms.entry(form.bytes.clone()) {
                    Entry::Occupied(mut known) => known.get_mut().1.widen(&form),
                    Entry::Vacant(vacant) => {
                        vacant.insert((number, form));
                    }
                }
            }
        }
        let forms: Vec<_> = forms.into_values().collect();
        let pairs = forms
            .iter()
            .flat_map(|(_, form)| form.bytes.windows(2).map(|pair| (pair[0], pair[1])))
            .collect();
        let longest = forms
            .iter()
            .map(|(_, form)| form.bytes.len() * ENCODED_BYTE_MAX)
            .max();
        Self {
            prefix,
            names,
            forms,
            automaton: OnceLock::new(),
            pairs,
            longest: longest.unwrap_or(0),
        }
    }

    /// Returns true if there are no values to search for.
    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the maximum length of an encoded value in bytes, without line ends.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Finds all known values in a text.
    pub(super) fn find(&self, text: &[u8], findings: &mut Vec<SecretFinding>) {
        if self.forms.is_empty() {
            return;
        }
        let build = || {
            AhoCorasick::new(self.forms.iter().map(|(_, form)| &form.bytes))
                .inspect_err(|error| tracing::error!("cannot search for known secrets: {error}"))
                .ok()
        };
        let Some(automaton) = self.automaton.get_or_init(build) else {
            return;
        };
        self.find_in(automaton, text, |at, rule| {
            findings.push(SecretFinding::new(rule, at))
        });
        let forms = DecodedTexts::decode_all(text);
        for (number, form) in forms.texts().enumerate() {
            self.find_in(automaton, form, |at, rule| {
                findings.push(SecretFinding::new(rule, forms.source_range(number, at)));
            });
        }
        self.find_in_split_texts(automaton, text, findings);
    }

    /// Finds values in consecutive JSON strings and in hex dumps.
    fn find_in_split_texts(
        &self,
        automaton: &AhoCorasick,
        text: &[u8],
        findings: &mut Vec<SecretFinding>,
    ) {
        if let Some(joined) = split_texts::join_strings(text, |a, b| self.pairs.contains(&(a, b))) {
            let mut add = |at: Range<usize>, rule: String| {
                let parts = joined.source_ranges(at);
                findings.extend(parts.map(|at| SecretFinding::new(rule.clone(), at)));
            };
            self.find_in(automaton, &joined.text, &mut add);
            let forms = DecodedTexts::decode_all(&joined.text);
            for (number, form) in forms.texts().enumerate() {
                self.find_in(automaton, form, |at, rule| {
                    add(forms.source_range(number, at), rule)
                });
            }
        }
        for dump in split_texts::join_dumps(text).into_iter().flatten() {
            self.find_in(automaton, &dump.text, |at, rule| {
                findings.push(SecretFinding::new(rule, dump.source_range(at)));
            });
        }
    }

    /// Finds values in one form of the text. Calls `on_match` with the range to mask and the name of the rule.
    fn find_in(
        &self,
        automaton: &AhoCorasick,
        text: &[u8],
        mut on_match: impl FnMut(Range<usize>, String),
    ) {
        let line = on_one_line(text);
        for hit in automaton.find_overlapping_iter(&line.text) {
            let (number, form) = &self.forms[hit.pattern().as_usize()];
            if let Some(at) = masked_range(form, &line.text, hit.range()) {
                let rule = format!("{}{}", self.prefix, self.names[*number]);
                on_match(line.source_range(at), rule);
            }
        }
    }
}

/// Returns the lines of a multi-line value, each of which is a secret, except the header and footer of a key.
fn secret_lines(value: &str) -> impl Iterator<Item = &str> {
    let has_lines = value.contains('\n');
    let lines = value.lines().map(str::trim).filter(move |_| has_lines);
    lines.filter(|line| line.len() >= LONG_MIN && !line.starts_with("-----"))
}

/// Returns the range to mask for a form found at `at`, or `None` if the match is part of a longer word.
fn masked_range(form: &SecretEncoding, text: &[u8], at: Range<usize>) -> Option<Range<usize>> {
    let has_byte = |at: Option<usize>, matches: fn(u8) -> bool| {
        at.and_then(|at| text.get(at))
            .is_some_and(|byte| matches(*byte))
    };
    let (before, after) = (at.start.checked_sub(1), Some(at.end));
    if form.is_word && (has_byte(before, is_word) || has_byte(after, is_word)) {
        return None;
    }
    let start = at.start - usize::from(form.shares_digit_before && has_byte(before, is_base64));
    let end = at.end + usize::from(form.shares_digit_after && has_byte(after, is_base64));
    Some(start..end)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Returns the text without its line ends.
pub(super) fn on_one_line(text: &[u8]) -> StrippedText {
    let ends = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| is_line_end(**byte));
    StrippedText::new(text, ends.map(|(at, _)| at..at + 1))
}

/// Minimum number of bytes of a value that count as its beginning.
const PREFIX_MIN: usize = 4;

impl KnownValues {
    /// Returns the offset at which a value may begin that continues beyond the end of the text.
    pub(super) fn open_value_start(&self, text: &[u8]) -> Option<usize> {
        let tail = text.len().saturating_sub(self.longest);
        let plain = self.open_start_in(text);
        let forms = DecodedTexts::decode_all_partial(&text[tail..]);
        let encoded = forms.texts().enumerate().filter_map(|(number, form)| {
            let at = self.open_start_in(form)?;
            Some(tail + forms.source_range(number, at..at).start)
        });
        encoded.chain(plain).min()
    }

    /// Returns the offset from which a value or an encoded character may be incomplete, or the end of the text.
    pub(super) fn incomplete_start(&self, text: &[u8]) -> usize {
        let floor = text.len().saturating_sub(2 * self.longest);
        let tail = &text[floor..];
        let forms = DecodedTexts::decode_all(tail);
        let mut first = tail.len();
        let mut include = |at: Option<Range<usize>>| {
            first = first.min(at.map_or(first, |at| at.start));
        };
        include(self.incomplete_part(tail));
        for (number, form) in forms.texts().enumerate() {
            include(
                self.incomplete_part(form)
                    .map(|at| forms.source_range(number, at)),
            );
        }
        floor + first
    }

    /// Returns the incomplete part of one form of the text.
    fn incomplete_part(&self, text: &[u8]) -> Option<Range<usize>> {
        let complete = complete_len(text);
        let line = on_one_line(&text[..complete]);
        let from = line.text.len().saturating_sub(self.longest);
        let mut starts = from..line.text.len();
        let value = starts.find(|at| {
            let rest = &line.text[*at..];
            let mut forms = self.forms.iter().map(|(_, form)| &form.bytes);
            forms.any(|form| form.len() > rest.len() && form.starts_with(rest))
        });
        let value = value.map(|at| line.source_range(at..at + 1));
        value.or((complete < text.len()).then_some(complete..complete + 1))
    }

    fn open_start_in(&self, text: &[u8]) -> Option<usize> {
        let tail = text.len().saturating_sub(self.longest);
        (tail..text.len().saturating_sub(PREFIX_MIN - 1)).find(|at| {
            let rest = &text[*at..];
            let mut forms = self.forms.iter().map(|(_, form)| &form.bytes);
            forms.any(|form| form.len() > rest.len() && form.starts_with(rest))
        })
    }
}
