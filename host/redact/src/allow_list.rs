//! Allow lists that exclude placeholders and words, and the entropy of a text.

use std::ops::Range;
use std::sync::LazyLock;

use super::pattern::LazyRegex;
use super::rules::GITLEAKS;

/// Maximum distance from a match in bytes up to which its line is examined, to bound the cost of very long lines.
const LINE_MAX: usize = 512;

/// Returns the Shannon entropy in bits per byte.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let total = bytes.len() as f64;
    let nonzero = counts.iter().filter(|count| **count > 0);
    nonzero
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Returns true if the allow list that applies to all rules matches the secret.
pub(super) fn is_allowed_everywhere(secret: &[u8]) -> bool {
    static REGEX: LazyLock<LazyRegex> = LazyLock::new(LazyRegex::default);
    let list = &GITLEAKS.allow;
    let regex = REGEX.get(list.regex, false);
    regex.is_some_and(|regex| regex.is_match(secret))
        || GITLEAKS.stopwords.iter().any(|word| {
            let mut windows = secret.windows(word.len());
            windows.any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
        })
}

/// Returns the range of the lines that contain a match.
pub(super) fn line_range(text: &[u8], found: &Range<usize>) -> Range<usize> {
    let is_end = |byte: &u8| *byte == b'\n';
    let floor = found.start.saturating_sub(LINE_MAX);
    let start = text[floor..found.start]
        .iter()
        .rposition(is_end)
        .map_or(floor, |at| floor + at + 1);
    let ceiling = text.len().min(found.end + LINE_MAX);
    let end = text[found.end..ceiling]
        .iter()
        .position(is_end)
        .map_or(ceiling, |at| found.end + at);
    start..end
}

/// gitleaks' stop words, sorted. A random secret contains none of them.
static STOPWORDS: &str = include_str!("gitleaks/stopwords.txt");

/// Length of the shortest stop word.
const STOPWORD_MIN: usize = 3;

/// Returns true if the secret contains a stop word, ignoring case.
pub(super) fn has_stopword(secret: &[u8]) -> bool {
    static SORTED: LazyLock<Vec<&[u8]>> =
        LazyLock::new(|| STOPWORDS.lines().map(str::as_bytes).collect());
    let lower = secret.to_ascii_lowercase();
    lower.windows(STOPWORD_MIN).enumerate().any(|(at, prefix)| {
        let first = SORTED.partition_point(|word| *word < prefix);
        let mut candidates = SORTED[first..]
            .iter()
            .take_while(|word| word.starts_with(prefix));
        candidates.any(|word| lower[at..].starts_with(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_shannon_entropy() {
        assert_eq!(entropy(b"aaaa"), 0.0);
        assert_eq!(entropy(b"abab"), 1.0);
        assert_eq!(entropy(b"abcdefgh"), 3.0);
    }

    #[test]
    fn stopwords_are_sorted_and_found_anywhere() {
        assert!(STOPWORDS.lines().is_sorted());
        assert!(STOPWORDS.lines().all(|word| word.len() >= STOPWORD_MIN));
        assert!(
            STOPWORDS
                .lines()
                .all(|word| has_stopword(format!("9x{}7", word.to_uppercase()).as_bytes()))
        );
        assert!(!has_stopword(b"q8X2zK91vB7w"));
        assert!(!has_stopword(b""));
    }

    #[test]
    fn allow_list_lines_have_a_maximum_length() {
        let text = b"first\nthe second\nthird";
        assert_eq!(line_range(text, &(10..12)), 6..16);
        let long = vec![b'x'; 4096];
        assert_eq!(
            line_range(&long, &(2000..2010)),
            2000 - LINE_MAX..2010 + LINE_MAX
        );
    }
}
