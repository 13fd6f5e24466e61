//! Detection of misspelt words: keys of a file, and members of the context.

/// Maximum length of a word that is checked, in letters.
const MAX_KEY_LENGTH: usize = 30;

/// Returns true if a word differs from a known one by at most a third of its letters.
pub(crate) fn is_misspelt<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = word.len() <= MAX_KEY_LENGTH && word.chars().all(fits);
    let mut known = known.into_iter();
    plain && known.any(|one| distance(word.as_bytes(), one.as_bytes()) <= one.len() / 3)
}

/// Returns the edit distance of two words: letters to change, add or remove.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut corner = at;
        row[0] = at + 1;
        for (to, b) in other.iter().enumerate() {
            let changed = corner + usize::from(!a.eq_ignore_ascii_case(b));
            corner = row[to + 1];
            row[to + 1] = changed.min(corner + 1).min(row[to] + 1);
        }
    }
    row[other.len()]
}
