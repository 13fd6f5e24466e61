//! Scan of a text for the anchors of all rules in one pass, and matching of the rules whose anchors were found.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::json_escapes::UnescapedCache;
use super::keys;
use super::pattern::RulePattern;
use super::rules::{self, AnchorPosition};

/// Number of scanned bytes after which the faster automaton is built: it is three times as fast, but takes three times
/// as long to build, about a millisecond.
const FAST_AUTOMATON_MIN: usize = 256 << 10;

/// The purpose of an anchor word.
#[derive(Clone, Copy)]
enum AnchorUse {
    /// A match of the rule with this number may be here.
    Rule(usize),
    /// The rule with this number requires this word somewhere.
    RequiredWord(usize),
    /// A key of JSON text may be here.
    Key,
}

/// The anchors and rules. Rules are compiled on first use.
pub(super) struct SecretScanner {
    words: Vec<&'static str>,
    uses: Vec<Vec<AnchorUse>>,
    patterns: Vec<RulePattern>,
    scanned: AtomicUsize,
    compact: OnceLock<Option<AhoCorasick>>,
    fast: OnceLock<Option<AhoCorasick>>,
}

/// A secret that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretHit {
    /// The name of the rule.
    pub rule: &'static str,
    /// The range of the secret.
    pub at: Range<usize>,
}

/// Returns the process-wide scanner.
pub(super) fn scanner() -> &'static SecretScanner {
    static SCANNER: LazyLock<SecretScanner> = LazyLock::new(SecretScanner::new);
    &SCANNER
}

/// The state of a rule in the scan of a text.
#[derive(Clone, Default)]
struct RuleProgress {
    /// Minimum offset of the next match, because matches do not overlap.
    next: usize,
    /// Parts to be searched, in order and without overlaps.
    parts: Vec<Range<usize>>,
    /// True if the required word was found.
    has_required_word: bool,
}

/// The scan of one text.
struct TextScan<'a> {
    text: &'a [u8],
    progress: Vec<RuleProgress>,
    resolved: UnescapedCache,
    hits: Vec<SecretHit>,
}

impl SecretScanner {
    pub(super) fn new() -> Self {
        let patterns: Vec<RulePattern> = rules::all().map(RulePattern::new).collect();
        let mut uses: Vec<(&'static str, AnchorUse)> = Vec::with_capacity(2 * patterns.len());
        for (number, pattern) in patterns.iter().enumerate() {
            let anchors = pattern.rule.anchors.iter();
            uses.extend(anchors.map(|anchor| (*anchor, AnchorUse::Rule(number))));
            if !pattern.rule.required_word.is_empty() {
                uses.push((pattern.rule.required_word, AnchorUse::RequiredWord(number)));
            }
        }
        uses.extend(keys::LAST_WORDS.iter().map(|word| (*word, AnchorUse::Key)));
        // A stable sort, so that the rules of a word keep their order.
        uses.sort_by_key(|(word, _)| *word);
        let mut scanner = Self {
            words: Vec::new(),
            uses: Vec::new(),
            patterns,
            scanned: AtomicUsize::new(0),
            compact: OnceLock::new(),
            fast: OnceLock::new(),
        };
        for (word, anchor_use) in uses {
            match scanner.uses.last_mut() {
                Some(last) if scanner.words.last() == Some(&word) => last.push(anchor_use),
                _ => {
                    scanner.words.push(word);
                    scanner.uses.push(vec![anchor_use]);
                }
            }
        }
        scanner
    }

    fn automaton(&self, bytes: usize) -> Option<&AhoCorasick> {
        let build = |kind| {
            AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(kind))
                .build(&self.words)
                .inspect_err(|error| {
                    tracing::error!("cannot search for secrets by their format: {error}")
                })
                .ok()
        };
        let before = self.scanned.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > FAST_AUTOMATON_MIN {
            self.fast
                .get_or_init(|| build(AhoCorasickKind::DFA))
                .as_ref()
        } else {
            self.compact
                .get_or_init(|| build(AhoCorasickKind::ContiguousNFA))
                .as_ref()
        }
    }

    /// Finds all matches of the rules that count, in no particular order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretHit> {
        let mut scan = TextScan {
            text,
            progress: Vec::new(),
            resolved: UnescapedCache::default(),
            hits: Vec::new(),
        };
        let Some(automaton) = self.automaton(text.len()) else {
            return scan.hits;
        };
        let mut next_key = 0;
        for anchor in automaton.find_overlapping_iter(text) {
            // Most texts contain no anchor and need no state for all rules.
            if scan.progress.is_empty() {
                scan.progress = vec![RuleProgress::default(); self.patterns.len()];
            }
            for anchor_use in &self.uses[anchor.pattern().as_usize()] {
                match *anchor_use {
                    AnchorUse::Rule(number) => {
                        self.handle_anchor(&mut scan, number, anchor.range())
                    }
                    AnchorUse::RequiredWord(number) => {
                        scan.progress[number].has_required_word = true
                    }
                    AnchorUse::Key if anchor.start() >= next_key => {
                        for hit in keys::find_in_text(text, anchor.range()) {
                            next_key = hit.at.end;
                            scan.hits.push(hit);
                        }
                    }
                    AnchorUse::Key => {}
                }
            }
        }
        for (pattern, state) in self.patterns.iter().zip(scan.progress) {
            if !state.has_required_word && !pattern.rule.required_word.is_empty() {
                continue;
            }
            for part in state.parts {
                pattern.match_around(text, part, &mut scan.hits);
            }
        }
        scan.hits
    }

    /// Handles an anchor of a rule: matches the rule there, or records the part to be searched.
    fn handle_anchor(&self, scan: &mut TextScan<'_>, number: usize, anchor: Range<usize>) {
        let pattern = &self.patterns[number];
        let TextScan {
            text,
            progress,
            resolved,
            hits,
        } = scan;
        let state = &mut progress[number];
        if anchor.start < state.next {
            return;
        }
        match pattern.rule.position {
            AnchorPosition::Here(prefix) => {
                if let Some(end) = pattern.match_at_anchor(text, anchor, prefix, resolved, hits) {
                    state.next = end;
                }
            }
            AnchorPosition::Around { before, after } => {
                let start = anchor.start.saturating_sub(before);
                let end = text.len().min(anchor.end + after);
                match state.parts.last_mut() {
                    Some(last) if start <= last.end => last.end = last.end.max(end),
                    _ => state.parts.push(start..end),
                }
            }
        }
    }

    /// Returns the number of compiled rules, and true if an automaton has been built.
    #[cfg(test)]
    pub(super) fn compiled_state(&self) -> (usize, bool) {
        let compiled = self.patterns.iter().filter(|pattern| pattern.is_compiled());
        let built = self.compact.get().is_some() || self.fast.get().is_some();
        (compiled.count(), built)
    }

    /// Returns all rules.
    #[cfg(test)]
    pub(super) fn patterns(&self) -> &[RulePattern] {
        &self.patterns
    }
}

/// Maximum distance from the end at which an anchor can still be followed by its secret, if there is a space between
/// them.
const NEAR: usize = 40;

/// Maximum length of a token that may continue after the end of the text.
const TOKEN_MAX: usize = 4 << 10;

/// Minimum length of a prefix that counts as the beginning of an anchor: shorter ones occur at the end of too many
/// words.
const PREFIX_MIN: usize = 3;

impl SecretScanner {
    /// Returns the offset at which a secret may begin that continues beyond the end of the text.
    pub(super) fn open_secret_start(&self, text: &[u8]) -> Option<usize> {
        let tail = text.len().saturating_sub(TOKEN_MAX);
        let automaton = self.automaton(0)?;
        let may_continue = |start: usize| {
            let rest = &text[start..];
            rest.len() <= NEAR || !rest.iter().any(u8::is_ascii_whitespace)
        };
        let started = automaton
            .find_overlapping_iter(&text[tail..])
            .map(|anchor| tail + anchor.start())
            .find(|start| may_continue(*start));
        let partial_anchor = (text.len().saturating_sub(NEAR)
            ..text.len().saturating_sub(PREFIX_MIN - 1))
            .find(|at| {
                let rest = &text[*at..];
                let mut words = self.words.iter().map(|word| word.as_bytes());
                words.any(|word| {
                    word.len() > rest.len() && word[..rest.len()].eq_ignore_ascii_case(rest)
                })
            });
        [started, partial_anchor, open_private_key(text)]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Returns the offset of a private key without an end.
pub(super) fn open_private_key(text: &[u8]) -> Option<usize> {
    let find_last = |word: &[u8]| {
        text.windows(word.len())
            .rposition(|window| window.eq_ignore_ascii_case(word))
    };
    let begin = find_last(b"-----begin")?;
    let head = &text[begin..text.len().min(begin + 128)];
    let is_private = head
        .windows(7)
        .any(|window| window.eq_ignore_ascii_case(b"private"))
        || head.len() < 128;
    (is_private && find_last(b"-----end").is_none_or(|end| end < begin)).then_some(begin)
}
