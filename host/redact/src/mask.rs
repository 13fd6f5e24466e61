//! Findings: merging of overlapping ones, and replacement by marks.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

use super::own_rules::PASSWORD;
use super::{MARK, VALUE_PREFIX, keys};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretFinding {
    /// Name of the rule: a gitleaks rule, `key:…` for the value of a key such as `password`, or `secret:NAME` for a
    /// known value.
    pub rule: Cow<'static, str>,
    /// Offset of the first byte of the secret.
    pub start: usize,
    /// Offset of the byte after the secret.
    pub end: usize,
}

impl SecretFinding {
    pub(super) fn new(rule: impl Into<Cow<'static, str>>, at: Range<usize>) -> Self {
        Self {
            rule: rule.into(),
            start: at.start,
            end: at.end,
        }
    }

    /// Returns the mark that replaces the secret.
    pub(super) fn mark(&self) -> String {
        format!("{MARK}{}]", self.rule)
    }

    /// Returns true if the rule is for one format, or the secret is a known value.
    pub(super) fn is_specific(&self) -> bool {
        self.rank() < 2
    }

    /// Returns the precedence of the rule among overlapping findings: known value, specific rule, generic rule, rule
    /// for passwords in plain text.
    pub(super) fn rank(&self) -> u8 {
        match &*self.rule {
            rule if rule.starts_with(VALUE_PREFIX) => 0,
            PASSWORD => 3,
            rule if is_generic(rule) => 2,
            _ => 1,
        }
    }
}

/// Returns true if a rule depends on the name before a value, not on the format of the value.
pub(super) fn is_generic(rule: &str) -> bool {
    !rule.starts_with(VALUE_PREFIX)
        && (rule.contains("generic") || rule.starts_with("key:") || rule == PASSWORD)
}

/// Sorts findings and removes empty and overlapping ones.
pub(super) fn merge(mut findings: Vec<SecretFinding>) -> Vec<SecretFinding> {
    findings.retain(|finding| finding.start < finding.end);
    findings.sort_by(|a, b| (a.start, b.end, a.rank()).cmp(&(b.start, a.end, b.rank())));
    let mut merged: Vec<SecretFinding> = Vec::with_capacity(findings.len());
    for finding in findings {
        match merged.last_mut() {
            Some(last) if finding.start < last.end => {
                last.end = last.end.max(finding.end);
                if finding.rank() < last.rank() {
                    last.rule = finding.rule;
                }
            }
            _ => merged.push(finding),
        }
    }
    merged
}

/// Replaces merged findings in a text with their marks.
pub(super) fn apply(text: &mut String, findings: &[SecretFinding]) {
    if findings.is_empty() {
        return;
    }
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut quotes = MarkQuotes::new(text);
    for finding in findings {
        // Rules match bytes, but a mark replaces whole characters.
        let start = text.floor_char_boundary(finding.start).max(copied);
        out.push_str(&text[copied..start]);
        let quote = quotes.quote(finding);
        out.push_str(quote);
        out.push_str(&finding.mark());
        out.push_str(quote);
        copied = text.ceil_char_boundary(finding.end).max(start);
    }
    out.push_str(&text[copied..]);
    *text = out;
}

/// The quotes to add around the marks of a text. Findings are given in their order, so that the text is read once.
pub(super) struct MarkQuotes<'a> {
    text: &'a str,
    /// The last quote before `read`.
    last: Option<usize>,
    read: usize,
}

impl<'a> MarkQuotes<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            last: None,
            read: 0,
        }
    }

    /// Returns the quotes for one mark. The mark of a number in JSON text gets the quotes of its key, so that the text
    /// stays valid JSON, even inside a string.
    pub(super) fn quote(&mut self, finding: &SecretFinding) -> &'a str {
        let Some((before, rest)) = self.text.split_at_checked(finding.start) else {
            return "";
        };
        let value = rest.as_bytes().get(..finding.end - finding.start);
        let begins_value = before.trim_end().ends_with([':', '[', ',']);
        if !finding.rule.starts_with("key:") || !begins_value || !value.is_some_and(keys::is_number)
        {
            return "";
        }
        let unread = before.get(self.read..).unwrap_or_default();
        if let Some(at) = unread.rfind(['"', '\'']) {
            self.last = Some(self.read + at);
        }
        self.read = self.read.max(before.len());
        let Some(at) = self.last else {
            return "";
        };
        let slashes = before[..at].bytes().rev().take_while(|byte| *byte == b'\\');
        &before[at - slashes.count()..=at]
    }
}

/// Several texts, joined one after the other.
pub(super) struct JoinedTexts {
    /// The joined text.
    pub text: Vec<u8>,
    spans: Vec<TextSpan>,
}

/// The position of one text in the joined text.
struct TextSpan {
    at: Range<usize>,
    /// Number under which the text was added.
    number: usize,
    /// True if a finding that extends beyond this text does not apply to it.
    is_indivisible: bool,
}

impl JoinedTexts {
    pub(super) fn new() -> Self {
        Self {
            text: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Returns the number of texts.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Adds bytes between two texts that belong to neither.
    pub(super) fn push_separator(&mut self, between: &str) {
        self.text.extend_from_slice(between.as_bytes());
    }

    /// Adds a text.
    pub(super) fn push(&mut self, number: usize, text: &str) {
        self.push_span(number, text, false);
    }

    /// Adds a text that is masked only for findings that are completely inside it.
    pub(super) fn push_indivisible(&mut self, number: usize, text: &str) {
        self.push_span(number, text, true);
    }

    fn push_span(&mut self, number: usize, text: &str, is_indivisible: bool) {
        let start = self.text.len();
        self.text.extend_from_slice(text.as_bytes());
        self.spans.push(TextSpan {
            at: start..self.text.len(),
            number,
            is_indivisible,
        });
    }

    /// Returns the text with this number, or an empty text.
    pub(super) fn text_of(&self, number: usize) -> &[u8] {
        let index = self.spans.binary_search_by_key(&number, |span| span.number);
        index.map_or(&[], |index| &self.text[self.spans[index].at.clone()])
    }

    /// Returns the texts from a number on, each with its number.
    pub(super) fn texts_from(&self, first: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let spans = self.spans.iter();
        let later = spans.filter(move |span| span.number >= first);
        later.map(move |span| (span.number, &self.text[span.at.clone()]))
    }

    /// Returns the texts that a finding touches.
    fn touched(&self, finding: &SecretFinding) -> &[TextSpan] {
        let first = self
            .spans
            .partition_point(|span| span.at.end <= finding.start);
        let last = self
            .spans
            .partition_point(|span| span.at.start < finding.end);
        &self.spans[first..last.max(first)]
    }

    /// Returns the parts of a finding by text: the text's number, and the range in it.
    pub(super) fn parts_of(
        &self,
        finding: &SecretFinding,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (start, end) = (finding.start, finding.end);
        self.touched(finding)
            .iter()
            .map(move |TextSpan { at, number, .. }| {
                let part = start.max(at.start) - at.start..end.min(at.end).saturating_sub(at.start);
                (*number, part)
            })
    }

    /// Returns the bytes of a finding in each of the texts that it touches.
    pub(super) fn fragments(&self, finding: &SecretFinding) -> impl Iterator<Item = &[u8]> {
        let (start, end) = (finding.start, finding.end);
        let spans = self.touched(finding).iter();
        spans.map(move |span| &self.text[start.max(span.at.start)..end.min(span.at.end)])
    }

    /// Returns true if a finding touches more than one text.
    pub(super) fn is_split(&self, finding: &SecretFinding) -> bool {
        self.touched(finding).len() > 1
    }

    /// Splits findings by the texts that they touch. Adds each part, with offsets in its text, to the list of that
    /// text.
    pub(super) fn distribute(
        &self,
        findings: Vec<SecretFinding>,
        findings_by_text: &mut [Vec<SecretFinding>],
    ) {
        for finding in findings {
            for TextSpan {
                at,
                number,
                is_indivisible,
            } in self.touched(&finding)
            {
                if *is_indivisible && (finding.start < at.start || finding.end > at.end) {
                    continue;
                }
                let start = finding.start.max(at.start) - at.start;
                let end = finding.end.min(at.end).saturating_sub(at.start);
                findings_by_text[*number]
                    .push(SecretFinding::new(finding.rule.clone(), start..end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &'static str, at: Range<usize>) -> SecretFinding {
        SecretFinding::new(rule, at)
    }

    #[test]
    fn findings_that_overlap_are_merged_under_best_name() {
        let merged = merge(vec![
            finding("generic-api-key", 2..10),
            finding("github-pat", 4..12),
            finding("secret:X", 20..22),
            finding("jwt", 18..30),
            finding("empty", 40..40),
        ]);
        assert_eq!(
            merged,
            vec![finding("github-pat", 2..12), finding("secret:X", 18..30)]
        );
    }

    #[test]
    fn marks_respect_character_boundaries() {
        let mut text = "aäöb".to_owned();
        apply(&mut text, &[finding("x", 2..4)]);
        assert_eq!(text, "a[REDACTED:x]b");
    }

    #[test]
    fn findings_across_texts_are_split_per_text() {
        let mut joined = JoinedTexts::new();
        joined.push(0, "ab");
        joined.push_separator("\n");
        joined.push(1, "cd");
        joined.push(2, "");
        joined.push(3, "ef");
        let mut findings_by_text = vec![vec![]; 4];
        joined.distribute(vec![finding("x", 1..6)], &mut findings_by_text);
        assert_eq!(findings_by_text[0], vec![finding("x", 1..2)]);
        assert_eq!(findings_by_text[1], vec![finding("x", 0..2)]);
        assert_eq!(findings_by_text[3], vec![finding("x", 0..1)]);
    }
}
