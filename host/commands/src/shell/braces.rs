//! Brace expansion of bash, which expands a word to several.

/// Maximum number of words in a brace expansion.
const MAX_WORDS: usize = 16;

/// Maximum number of brace characters to examine. With more, [`may_expand`] errs towards true.
const MAX_BRACES: usize = 32;

/// Returns true if the shell may expand the brace at the start of the text, which needs a comma or `..` before its
/// closing brace.
pub(super) fn may_expand(text: &str) -> bool {
    let seems_to_expand = || text.contains('}') && (text.contains(',') || text.contains(".."));
    let (mut depth, mut has_parts, mut examined) = (0_usize, false, 0);
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(c) = rest.chars().next() {
        examined += usize::from(matches!(c, '{' | '}'));
        if examined > MAX_BRACES {
            return seems_to_expand();
        }
        match c {
            '}' if depth == 0 && has_parts => return true,
            '}' => depth = depth.saturating_sub(1),
            '{' => depth += 1,
            ',' => has_parts |= depth == 0,
            '.' if rest.starts_with("..") => has_parts |= depth == 0,
            // A brace that is quoted or in a substitution may not count.
            '\\' | '"' | '\'' | '$' | '`' => return seems_to_expand(),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    false
}

/// Returns the words to which bash expands a word, if the word has one pair of braces and otherwise plain text.
pub(super) fn expand_words(raw: &str) -> Option<Vec<String>> {
    let (before, rest) = raw.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./=+@%:-".contains(c);
    let all_plain = [before, after]
        .iter()
        .all(|text| text.chars().all(is_plain))
        && inside.chars().all(|c| c == ',' || is_plain(c));
    let parts: Vec<&str> = inside.split(',').take(MAX_WORDS + 1).collect();
    if !all_plain || !(2..=MAX_WORDS).contains(&parts.len()) {
        return None;
    }
    let words = parts.iter().map(|one| format!("{before}{one}{after}"));
    // The shell drops empty words, so such an expansion is not analyzed.
    words
        .map(|word| (!word.is_empty()).then_some(word))
        .collect()
}
