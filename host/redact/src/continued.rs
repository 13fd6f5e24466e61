//! Search for secrets that are whole in the texts of a result, but split in its structured value between the end of one
//! string and the beginning of another. For example, `stderr` may come before `stdout` in the text and after it in the
//! value.

use std::collections::HashMap;

use super::invisible::StrippedText;
use super::known_values::{LONG_MIN, on_one_line};
use super::mask::{JoinedTexts, SecretFinding};

/// Maximum number of secrets whose fragments are searched, known values first. Each is compared with the ends of all
/// strings, so this bounds the cost.
const SECRETS_MAX: usize = 16;

/// The secrets of the texts of a result.
#[derive(Default)]
pub(super) struct WholeSecrets(Vec<(SecretFinding, Vec<u8>)>);

impl WholeSecrets {
    /// Adds the findings that are completely in the first `texts` texts, without their line ends.
    pub(super) fn add(&mut self, joined: &JoinedTexts, findings: &[SecretFinding], texts: usize) {
        for finding in findings {
            if joined.parts_of(finding).any(|(number, _)| number >= texts) {
                continue;
            }
            let bytes = joined.fragments(finding).flatten().copied();
            let secret: Vec<u8> = bytes
                .filter(|byte| !matches!(byte, b'\r' | b'\n'))
                .collect();
            if secret.len() >= LONG_MIN {
                self.0.push((finding.clone(), secret));
            }
        }
    }

    /// Finds the fragments of the secrets in strings, each with the number of its string.
    pub(super) fn find_fragments<'a>(
        mut self,
        strings: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Vec<(usize, SecretFinding)> {
        self.0
            .sort_by(|(a, one), (b, other)| (a.rank(), one).cmp(&(b.rank(), other)));
        self.0.dedup_by(|(_, one), (_, other)| one == other);
        self.0.truncate(SECRETS_MAX);
        if self.0.is_empty() {
            return Vec::new();
        }
        let strings: Vec<(usize, StrippedText)> = strings
            .map(|(number, text)| (number, on_one_line(text)))
            .collect();
        let mut fragments = Vec::new();
        for (finding, secret) in &self.0 {
            find_fragments_of(finding, secret, &strings, &mut fragments);
        }
        fragments
    }
}

/// Finds the fragments of one secret: the longest at each end of a string. The beginning of a secret counts only if
/// another string begins with its rest.
fn find_fragments_of(
    finding: &SecretFinding,
    secret: &[u8],
    strings: &[(usize, StrippedText)],
    fragments: &mut Vec<(usize, SecretFinding)>,
) {
    let backwards: Vec<u8> = secret.iter().rev().copied().collect();
    let (forward_borders, backward_borders) = (borders(secret), borders(&backwards));
    // The offsets in the secret at which a string ends or begins.
    let ends_of = |text: &[u8]| {
        let end = &text[text.len().saturating_sub(secret.len())..];
        overlaps(secret, &forward_borders, end.iter())
    };
    let starts_of = |text: &[u8]| {
        let start = &text[..text.len().min(secret.len())];
        let mut cuts = overlaps(&backwards, &backward_borders, start.iter().rev());
        cuts.iter_mut().for_each(|cut| *cut = secret.len() - *cut);
        cuts
    };
    let (mut ends, mut starts) = (CutOwners::default(), CutOwners::default());
    for (index, (_, string)) in strings.iter().enumerate() {
        ends.add(index, ends_of(&string.text));
        starts.add(index, starts_of(&string.text));
    }
    if !ends.0.keys().any(|cut| starts.0.contains_key(cut)) {
        return;
    }
    for (index, (number, string)) in strings.iter().enumerate() {
        let length = string.text.len();
        // Longest fragments come first.
        let mut cuts = ends_of(&string.text).into_iter();
        let head = cuts.find(|cut| starts.has_other(*cut, index));
        let head = head.map(|cut| length - cut..length);
        let mut cuts = starts_of(&string.text).into_iter();
        let tail = cuts.find(|cut| ends.has_other(*cut, index));
        let tail = tail.map(|cut| 0..secret.len() - cut);
        for at in [head, tail].into_iter().flatten() {
            let fragment = SecretFinding::new(finding.rule.clone(), string.source_range(at));
            fragments.push((*number, fragment));
        }
    }
}

/// The offsets in a secret at which strings end or begin, each with the first such string, and true if there are more.
#[derive(Default)]
struct CutOwners(HashMap<usize, (usize, bool)>);

impl CutOwners {
    fn add(&mut self, index: usize, cuts: Vec<usize>) {
        for cut in cuts {
            let owner = self.0.entry(cut).or_insert((index, false));
            owner.1 |= owner.0 != index;
        }
    }

    /// Returns true if another string has the offset, because a string does not continue itself.
    fn has_other(&self, cut: usize, index: usize) -> bool {
        self.0
            .get(&cut)
            .is_some_and(|(first, is_shared)| *is_shared || *first != index)
    }
}

/// Returns, for each prefix of a word, the length of its longest proper prefix that is also its suffix (the table of
/// Knuth, Morris and Pratt).
fn borders(word: &[u8]) -> Vec<usize> {
    let mut table = vec![0; word.len()];
    let mut length = 0;
    for (at, byte) in word.iter().enumerate().skip(1) {
        while length > 0 && *byte != word[length] {
            length = table[length - 1];
        }
        length += usize::from(*byte == word[length]);
        table[at] = length;
    }
    table
}

/// Returns the lengths of all proper prefixes of a word with which a text ends.
fn overlaps<'a>(word: &[u8], borders: &[usize], text: impl Iterator<Item = &'a u8>) -> Vec<usize> {
    let mut length = 0;
    for byte in text {
        while length > 0 && (length == word.len() || *byte != word[length]) {
            length = borders[length - 1];
        }
        length += usize::from(*byte == word[length]);
    }
    if length == word.len() {
        length = borders[length - 1];
    }
    let mut lengths = Vec::new();
    while length > 0 {
        lengths.push(length);
        length = borders[length - 1];
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_all_beginnings_at_the_end() {
        let of = |word: &str, text: &str| {
            let word = word.as_bytes();
            overlaps(word, &borders(word), text.as_bytes().iter())
        };
        assert_eq!(of("abcabd", "xxabcab"), [5, 2]);
        assert_eq!(of("abcabd", "abcabd"), [0; 0]);
        assert_eq!(of("aaaa", "aaaaaa"), [3, 2, 1]);
        assert_eq!(of("abab", "abab"), [2]);
        assert_eq!(of("abc", ""), [0; 0]);
        assert_eq!(of("abc", "xyz"), [0; 0]);
    }
}
