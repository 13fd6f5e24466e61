//! Matching of a single rule. Its expressions are compiled on first use. A match counts only if no allow list excludes
//! it and its entropy is high enough.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::REACH;
use super::allow_list;
use super::false_positives::{self, FalsePositiveTest};
use super::json_escapes::{self, UnescapedCache, UnescapedText};
use super::rules::{AllowTarget, AnchorPosition, AnchorPrefix, SecretRule};
use super::scan::SecretHit;

/// Size limit of a compiled expression in bytes: the largest rule needs a quarter. A test checks that all rules
/// compile.
const SIZE_MAX: usize = 1 << 20;

/// Cache limit of an expression's lazy automaton in bytes, so that a hostile text that triggers all rules does not fill
/// the memory.
const CACHE_MAX: usize = 256 << 10;

/// Maximum length of the part of an identifier before an anchor that belongs to a match, as in gitleaks.
const IDENTIFIER_MAX: usize = 50;

/// Maximum distance from an anchor to its assignment: the text that some rules have after their anchor, 20 more
/// characters of an identifier, 3 of space or quotes, and the assignment operator.
const ASSIGNED_WITHIN: usize = 12 + 20 + 3 + 1;

/// Number of bytes after an anchor in which escapes are resolved at first, which is nearly always enough.
const NEAR: usize = 384;

/// Number of bytes in which escapes are resolved if [`NEAR`] is not enough.
const FAR: usize = 8 << 10;

/// Number of bytes beyond the rule's width that a match with escapes may take.
const ESCAPES: usize = 128;

/// Number of bytes of a part that are read at a time with escapes resolved.
const CHUNK: usize = 256 << 10;

/// An expression that is compiled on first use.
#[derive(Default)]
pub(super) struct LazyRegex(OnceLock<Option<Regex>>);

impl LazyRegex {
    /// Returns the compiled expression, or `None` if it is not valid.
    pub(super) fn get(&self, expression: &str, anchored: bool) -> Option<&Regex> {
        let compile = || {
            let whole = if anchored {
                format!(r"\A(?:{expression})")
            } else {
                expression.to_owned()
            };
            RegexBuilder::new(&whole)
                .unicode(false)
                .size_limit(SIZE_MAX)
                .dfa_size_limit(CACHE_MAX)
                .build()
                .inspect_err(|error| tracing::error!("a redaction rule does not compile: {error}"))
                .ok()
        };
        self.0.get_or_init(compile).as_ref()
    }
}

/// A rule with its compiled expressions.
pub(super) struct RulePattern {
    pub(super) rule: &'static SecretRule,
    regex: LazyRegex,
    following_regex: LazyRegex,
    allow: Vec<LazyRegex>,
    false_positive: Option<FalsePositiveTest>,
}

/// A match and the secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretMatch {
    /// The range of the whole match.
    pub whole: Range<usize>,
    /// The range to be masked.
    pub secret: Range<usize>,
}

/// The result of matching a section with escapes resolved.
enum EscapedMatch {
    /// A match that ends at this offset.
    Ends(usize),
    /// A match that may continue after the section.
    Incomplete,
    /// No match.
    None,
}

impl RulePattern {
    pub(super) fn new(rule: &'static SecretRule) -> Self {
        Self {
            rule,
            regex: LazyRegex::default(),
            following_regex: LazyRegex::default(),
            allow: rule.allow.iter().map(|_| LazyRegex::default()).collect(),
            false_positive: false_positives::for_rule(rule.id),
        }
    }

    /// Matches the rule at an anchor. Returns the end of the match, even if the match does not count.
    pub(super) fn match_at_anchor(
        &self,
        text: &[u8],
        anchor: Range<usize>,
        prefix: AnchorPrefix,
        resolved: &mut UnescapedCache,
        hits: &mut Vec<SecretHit>,
    ) -> Option<usize> {
        let at = anchor.start;
        let start = match prefix {
            AnchorPrefix::Free => at,
            AnchorPrefix::Word if is_boundary(text, at) => at,
            AnchorPrefix::Identifier if is_assigned(text, anchor.end) => identifier_start(text, at),
            _ => return None,
        };
        if let Some(candidate) = self.match_at(text, start, at) {
            let end = candidate.whole.end;
            self.add_hit(text, candidate, hits);
            return Some(end);
        }
        let far = at + self.rule.width.saturating_add(ESCAPES);
        if !text[at..text.len().min(far).min(at + NEAR)].contains(&b'\\') {
            return None;
        }
        let near = resolved.resolve(text, start, far.min(at + NEAR));
        match self.match_escaped(text, near, start, at, hits) {
            EscapedMatch::Ends(end) => Some(end),
            EscapedMatch::None => None,
            EscapedMatch::Incomplete => {
                let end = text.len().min(far).min(at + FAR);
                let far = UnescapedCache {
                    at: start..end,
                    resolved_forms: json_escapes::resolved_forms(&text[start..end]),
                };
                match self.match_escaped(text, &far, start, at, hits) {
                    EscapedMatch::Ends(end) => Some(end),
                    _ => None,
                }
            }
        }
    }

    /// Matches the rule at `at` in a section with its escapes resolved.
    fn match_escaped(
        &self,
        text: &[u8],
        near: &UnescapedCache,
        start: usize,
        at: usize,
        hits: &mut Vec<SecretHit>,
    ) -> EscapedMatch {
        let offset = near.at.start;
        for plain in &near.resolved_forms {
            let offsets = plain
                .offset_of(start - offset)
                .zip(plain.offset_of(at - offset));
            let Some(candidate) =
                offsets.and_then(|(start, at)| self.match_at(&plain.text, start, at))
            else {
                continue;
            };
            if candidate.whole.end == plain.text.len() && near.at.end < text.len() {
                // The match may continue after the section.
                return EscapedMatch::Incomplete;
            }
            let end = offset + plain.source_range(candidate.whole.clone()).end;
            self.add_unescaped_hit(plain, offset, candidate, hits);
            return EscapedMatch::Ends(end);
        }
        EscapedMatch::None
    }

    /// Returns the match that begins exactly at `at`, in an identifier that begins at `start`.
    fn match_at(&self, text: &[u8], start: usize, at: usize) -> Option<SecretMatch> {
        let regex = self.regex.get(self.rule.regex, true)?;
        // One byte more than the longest match, because expressions examine the byte after a match.
        let end = text.len().min(at + self.rule.width + 1);
        let window = &text[at..end];
        // Most anchors do not begin a match, and a search without groups is much faster.
        regex.find(window)?;
        let mut candidate = match_ranges(&regex.captures(window)?, at);
        candidate.whole.start = start;
        Some(candidate)
    }

    /// Adds the matches in a part of the text that count, including those that need escapes resolved.
    pub(super) fn match_around(&self, text: &[u8], part: Range<usize>, hits: &mut Vec<SecretHit>) {
        self.for_each_match(text, part.clone(), |candidate| {
            self.add_hit(text, candidate, hits)
        });
        for start in part.clone().step_by(CHUNK) {
            let end = part.end.min(start + CHUNK + REACH);
            for plain in json_escapes::resolved_forms(&text[start..end]) {
                let whole = 0..plain.text.len();
                self.for_each_match(&plain.text, whole, |candidate| {
                    self.add_unescaped_hit(&plain, start, candidate, hits)
                });
            }
        }
    }

    /// Visits all matches in a part of the text, even if they do not count, each with the secrets that follow it.
    fn for_each_match(
        &self,
        text: &[u8],
        part: Range<usize>,
        mut on_match: impl FnMut(SecretMatch),
    ) {
        let Some(regex) = self.regex.get(self.rule.regex, false) else {
            return;
        };
        let (mut at, mut end) = (part.start, part.end);
        let mut step = end - at;
        while at < end
            && let Some(captures) = regex.captures_at(&text[..end], at)
        {
            let current = match_ranges(&captures, 0);
            let whole = captures.get_match();
            if whole.end() == end && end < text.len() && step < REACH {
                // The match may continue after the window.
                (at, end) = (whole.start(), text.len().min(end + step));
                step *= 2;
                continue;
            }
            let last = self.match_following(text, &current, &mut on_match);
            at = whole.end().max(last).max(at + 1);
            on_match(current);
        }
    }

    /// Finds the secrets directly after another secret. Returns the end of the last one.
    fn match_following(
        &self,
        text: &[u8],
        first: &SecretMatch,
        on_match: &mut impl FnMut(SecretMatch),
    ) -> usize {
        let mut at = first.secret.end;
        if self.rule.following.is_empty() {
            return at;
        }
        let Some(regex) = self.following_regex.get(self.rule.following, true) else {
            return at;
        };
        let AnchorPosition::Around { after, .. } = self.rule.position else {
            return at;
        };
        loop {
            let window = &text[at..text.len().min(at + after)];
            let Some(next) = regex
                .captures(window)
                .map(|captures| match_ranges(&captures, at))
            else {
                return at;
            };
            at = next.secret.end;
            on_match(next);
        }
    }

    /// Adds a match to the hits if it counts.
    fn add_hit(&self, text: &[u8], candidate: SecretMatch, hits: &mut Vec<SecretHit>) {
        if self.is_secret(text, &candidate) {
            hits.push(SecretHit {
                rule: self.rule.id,
                at: candidate.secret,
            });
        }
    }

    /// Adds a match in a section with escapes resolved that begins at `start`, if it counts.
    fn add_unescaped_hit(
        &self,
        plain: &UnescapedText,
        start: usize,
        candidate: SecretMatch,
        hits: &mut Vec<SecretHit>,
    ) {
        if self.is_secret(&plain.text, &candidate) {
            let at = plain.source_range(candidate.secret);
            hits.push(SecretHit {
                rule: self.rule.id,
                at: start + at.start..start + at.end,
            });
        }
    }

    /// Returns true if a match is a secret that no allow list or entropy limit excludes.
    fn is_secret(&self, text: &[u8], candidate: &SecretMatch) -> bool {
        let secret = &text[candidate.secret.clone()];
        if self.rule.entropy > 0.0 && allow_list::entropy(secret) <= self.rule.entropy {
            return false;
        }
        if allow_list::is_allowed_everywhere(secret)
            || self
                .false_positive
                .is_some_and(|is_false_positive| is_false_positive(text, candidate))
        {
            return false;
        }
        !self
            .rule
            .allow
            .iter()
            .zip(&self.allow)
            .any(|(list, regex)| {
                if list.stopwords && allow_list::has_stopword(secret) {
                    return true;
                }
                let target = match list.target {
                    AllowTarget::Secret => secret,
                    AllowTarget::Match => &text[candidate.whole.clone()],
                    AllowTarget::Line => &text[allow_list::line_range(text, &candidate.whole)],
                };
                !list.regex.is_empty()
                    && regex
                        .get(list.regex, false)
                        .is_some_and(|regex| regex.is_match(target))
            })
    }

    /// Returns true if all expressions of the rule compile.
    #[cfg(test)]
    pub(super) fn compiles(&self) -> bool {
        let anchored = matches!(self.rule.position, AnchorPosition::Here(_));
        self.regex.get(self.rule.regex, anchored).is_some()
            && (self.rule.following.is_empty()
                || self
                    .following_regex
                    .get(self.rule.following, true)
                    .is_some())
            && self
                .rule
                .allow
                .iter()
                .zip(&self.allow)
                .all(|(list, regex)| {
                    list.regex.is_empty() || regex.get(list.regex, false).is_some()
                })
    }

    /// Returns true if the main expression of the rule has been compiled.
    #[cfg(test)]
    pub(super) fn is_compiled(&self) -> bool {
        self.regex.0.get().is_some()
    }
}

/// Returns the ranges of a match and its secret, in a text that begins at `offset`. Line ends around a match are
/// excluded.
fn match_ranges(captures: &Captures<'_>, offset: usize) -> SecretMatch {
    let whole = captures.get_match();
    let mut groups = captures.iter().skip(1).flatten();
    let secret = match groups.find(|group| !group.is_empty()) {
        Some(group) => group.range(),
        None => {
            let is_end = |byte: &&u8| **byte == b'\n';
            let leading = whole.as_bytes().iter().take_while(is_end).count();
            let rest = &whole.as_bytes()[leading..];
            let trailing = rest.iter().rev().take_while(is_end).count();
            whole.start() + leading..whole.end() - trailing
        }
    };
    let moved = |range: Range<usize>| range.start + offset..range.end + offset;
    SecretMatch {
        whole: moved(whole.range()),
        secret: moved(secret),
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns true if a byte may be part of the identifier before an assignment.
pub(super) fn is_identifier(byte: u8) -> bool {
    is_word(byte) || byte == b'.' || byte == b'-'
}

fn is_boundary(text: &[u8], at: usize) -> bool {
    let before = at > 0 && is_word(text[at - 1]) && !json_escapes::ends_at(text, at);
    before != is_word(text[at])
}

/// Returns true if an assignment may follow an anchor that ends at `at`. This cheap check excludes most words of a
/// text.
fn is_assigned(text: &[u8], at: usize) -> bool {
    let near = &text[at..text.len().min(at + ASSIGNED_WITHIN)];
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r' | b'\'' | b'"' | b'\\');
    let may_precede = |byte: &u8| is_identifier(*byte) || is_space(*byte);
    match near.iter().find(|byte| !may_precede(byte)) {
        Some(byte) => matches!(byte, b'=' | b'>' | b':' | b'|' | b'?' | b','),
        None => false,
    }
}

/// Returns the start of the identifier that contains an anchor.
fn identifier_start(text: &[u8], at: usize) -> usize {
    let before = text[..at].iter().rev().take(IDENTIFIER_MAX);
    at - before.take_while(|byte| is_identifier(**byte)).count()
}
