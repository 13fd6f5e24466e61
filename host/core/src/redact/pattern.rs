//! A rule at work: its expressions are compiled when they are first needed, and a match counts only if the allow-lists
//! and the entropy agree.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::REACH;
use super::allow;
use super::rules::{Lead, Rule, Shape, Target};
use super::scan::Hit;

/// What one compiled expression may take: the largest rule needs a quarter of it. A rule that would need more is a
/// fault in the table, which a test finds.
const SIZE_MAX: usize = 1 << 20;

/// What the automaton of one expression may grow to as it is used, so that a hostile text that calls on all rules does
/// not fill the memory.
const CACHE_MAX: usize = 256 << 10;

/// The longest lead that belongs to a match, as gitleaks has it.
const IDENTIFIER_MAX: usize = 50;

/// What may stand between an anchor and its assignment: what some rules have behind their anchor, 20 characters more
/// of an identifier, 3 of space or quotes; and the assignment.
const ASSIGNED_WITHIN: usize = 12 + 20 + 3 + 1;

/// An expression, compiled at its first use.
#[derive(Default)]
pub(super) struct Lazy(OnceLock<Option<Regex>>);

impl Lazy {
    /// The expression; none if it does not compile.
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

/// A rule and what is compiled of it.
pub(super) struct Pattern {
    pub(super) rule: &'static Rule,
    regex: Lazy,
    more: Lazy,
    allow: Vec<Lazy>,
}

/// One match: where it is, and the secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    /// All that matched.
    pub whole: Range<usize>,
    /// What is to be masked.
    pub secret: Range<usize>,
}

impl Pattern {
    pub(super) fn new(rule: &'static Rule) -> Self {
        Self {
            rule,
            regex: Lazy::default(),
            more: Lazy::default(),
            allow: rule.allow.iter().map(|_| Lazy::default()).collect(),
        }
    }

    /// The match that begins at an anchor, whether or not it counts.
    pub(super) fn here(&self, text: &[u8], anchor: Range<usize>, lead: Lead) -> Option<Match> {
        let at = anchor.start;
        match lead {
            Lead::Free => {}
            Lead::Word if is_boundary(text, at) => {}
            Lead::Identifier if is_assigned(text, anchor.end) => {}
            _ => return None,
        }
        let regex = self.regex.get(self.rule.regex, true)?;
        // One byte more than a match can have: what stands behind it tells whether it is one.
        let end = text.len().min(at + self.rule.width + 1);
        let window = &text[at..end];
        // Most anchors begin nothing, and that is told much faster without the groups.
        regex.find(window)?;
        let mut found = outline(&regex.captures(window)?, at);
        if lead == Lead::Identifier {
            found.whole.start = identifier_start(text, at);
        }
        Some(found)
    }

    /// All matches in a part of the text, whether or not they count, each with the secrets that follow it.
    pub(super) fn within(&self, text: &[u8], part: Range<usize>, mut found: impl FnMut(Match)) {
        let Some(regex) = self.regex.get(self.rule.regex, false) else {
            return;
        };
        let (mut at, mut end) = (part.start, part.end);
        let mut step = end - at;
        while at < end
            && let Some(captures) = regex.captures_at(&text[..end], at)
        {
            let one = outline(&captures, 0);
            let whole = captures.get_match();
            if whole.end() == end && end < text.len() && step < REACH {
                // It may only end here because the window does.
                (at, end) = (whole.start(), text.len().min(end + step));
                step *= 2;
                continue;
            }
            let last = self.follow(text, &one, &mut found);
            at = whole.end().max(last).max(at + 1);
            found(one);
        }
    }

    /// The secrets right behind another; where the last of them ends.
    fn follow(&self, text: &[u8], first: &Match, found: &mut impl FnMut(Match)) -> usize {
        let mut at = first.secret.end;
        if self.rule.more.is_empty() {
            return at;
        }
        let Some(regex) = self.more.get(self.rule.more, true) else {
            return at;
        };
        let Shape::Around { after, .. } = self.rule.shape else {
            return at;
        };
        loop {
            let window = &text[at..text.len().min(at + after)];
            let Some(next) = regex
                .captures(window)
                .map(|captures| outline(&captures, at))
            else {
                return at;
            };
            at = next.secret.end;
            found(next);
        }
    }

    /// Adds a match to the hits if it counts.
    pub(super) fn keep(&self, text: &[u8], found: Match, hits: &mut Vec<Hit>) {
        if self.counts(text, &found) {
            hits.push(Hit {
                rule: self.rule.id,
                at: found.secret,
            });
        }
    }

    /// Whether a match is a secret and none of what may pass.
    fn counts(&self, text: &[u8], found: &Match) -> bool {
        let secret = &text[found.secret.clone()];
        if self.rule.entropy > 0.0 && allow::entropy(secret) <= self.rule.entropy {
            return false;
        }
        if allow::everywhere(secret) {
            return false;
        }
        !self
            .rule
            .allow
            .iter()
            .zip(&self.allow)
            .any(|(list, regex)| {
                if list.stopwords && allow::has_stopword(secret) {
                    return true;
                }
                let target = match list.target {
                    Target::Secret => secret,
                    Target::Match => &text[found.whole.clone()],
                    Target::Line => &text[allow::lines(text, &found.whole)],
                };
                !list.regex.is_empty()
                    && regex
                        .get(list.regex, false)
                        .is_some_and(|regex| regex.is_match(target))
            })
    }

    /// Whether all its expressions compile.
    #[cfg(test)]
    pub(super) fn compiles(&self) -> bool {
        let anchored = matches!(self.rule.shape, Shape::Here(_));
        self.regex.get(self.rule.regex, anchored).is_some()
            && (self.rule.more.is_empty() || self.more.get(self.rule.more, true).is_some())
            && self
                .rule
                .allow
                .iter()
                .zip(&self.allow)
                .all(|(list, regex)| {
                    list.regex.is_empty() || regex.get(list.regex, false).is_some()
                })
    }

    /// Whether its main expression has been compiled.
    #[cfg(test)]
    pub(super) fn is_compiled(&self) -> bool {
        self.regex.0.get().is_some()
    }
}

/// Where a match and its secret are, in a text that begins `offset` bytes before. Line ends around a match do not
/// belong to it.
fn outline(captures: &Captures<'_>, offset: usize) -> Match {
    let whole = captures.get_match();
    let mut groups = captures.iter().skip(1).flatten();
    let secret = match groups.find(|group| !group.is_empty()) {
        Some(group) => group.range(),
        None => {
            let is_end = |byte: &&u8| **byte == b'\n';
            let front = whole.as_bytes().iter().take_while(is_end).count();
            let rest = &whole.as_bytes()[front..];
            let back = rest.iter().rev().take_while(is_end).count();
            whole.start() + front..whole.end() - back
        }
    };
    let moved = |range: Range<usize>| range.start + offset..range.end + offset;
    Match {
        whole: moved(whole.range()),
        secret: moved(secret),
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a byte may be part of the identifier in front of an assignment.
pub(super) fn is_identifier(byte: u8) -> bool {
    is_word(byte) || byte == b'.' || byte == b'-'
}

fn is_boundary(text: &[u8], at: usize) -> bool {
    let before = at > 0 && is_word(text[at - 1]);
    before != is_word(text[at])
}

/// Whether an assignment may follow an anchor that ends at `at`: most words of a text are told apart by this alone.
fn is_assigned(text: &[u8], at: usize) -> bool {
    let near = &text[at..text.len().min(at + ASSIGNED_WITHIN)];
    let between =
        |byte: &u8| is_identifier(*byte) || matches!(byte, b' ' | b'\t'..=b'\r' | b'\'' | b'"');
    match near.iter().find(|byte| !between(byte)) {
        Some(byte) => matches!(byte, b'=' | b'>' | b':' | b'|' | b'?' | b','),
        None => false,
    }
}

/// Where the identifier begins that an anchor is in.
fn identifier_start(text: &[u8], at: usize) -> usize {
    let lead = text[..at].iter().rev().take(IDENTIFIER_MAX);
    at - lead.take_while(|byte| is_identifier(**byte)).count()
}
