//! Detection of misspelt words: keys of a file, and members of the context.

/// Maximum length of a checked word in letters.
const MAX_KEY_LENGTH: usize = 30;

/// Returns true if a word equals a known one, or differs from it by at most a third of the known word's letters.
pub(crate) fn is_misspelt<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> bool {
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_key = word.len() <= MAX_KEY_LENGTH && word.chars().all(is_key_char);
    let mut known = known.into_iter();
    is_key && known.any(|other| distance(word.as_bytes(), other.as_bytes()) <= other.len() / 3)
}

/// Returns the edit distance of two words: the number of letters to change, add or remove.
fn distance(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = corner + usize::from(!a.eq_ignore_ascii_case(b));
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
