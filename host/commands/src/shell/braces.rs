//! Brace expansion of bash, which makes several words of one.

/// Maximum number of words that one brace may expand to.
const WORDS_MAX: usize = 16;

/// Maximum number of brace characters examined for one expansion: above that, the result is a guess on the safe side.
const BRACES_MAX: usize = 32;

/// Returns true if the shell may expand the brace at the start of the text: that takes a comma or two dots between it
/// and the brace that closes it. Braces with neither close nothing.
pub(super) fn may_expand(text: &str) -> bool {
    let unsure = || text.contains('}') && (text.contains(',') || text.contains(".."));
    let (mut depth, mut parts, mut seen) = (0_usize, false, 0);
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(c) = rest.chars().next() {
        seen += usize::from(matches!(c, '{' | '}'));
        if seen > BRACES_MAX {
            return unsure();
        }
        match c {
            '}' if depth == 0 && parts => return true,
            '}' => depth = depth.saturating_sub(1),
            '{' => depth += 1,
            ',' => parts |= depth == 0,
            '.' if rest.starts_with("..") => parts |= depth == 0,
            // A quoted brace, or one in a substitution, may not count as a brace.
            '\\' | '"' | '\'' | '$' | '`' => return unsure(),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    false
}

/// Returns the words that bash expands one word to, if it holds only one pair of braces and plain text.
pub(super) fn expand_words(raw: &str) -> Option<Vec<String>> {
    let (before, rest) = raw.split_once('{')?;
    let (inside, behind) = rest.split_once('}')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./=+@%:-".contains(c);
    let plain = [before, behind]
        .iter()
        .all(|text| text.chars().all(is_plain))
        && inside.chars().all(|c| c == ',' || is_plain(c));
    let each: Vec<&str> = inside.split(',').take(WORDS_MAX + 1).collect();
    if !plain || !(2..=WORDS_MAX).contains(&each.len()) {
        return None;
    }
    let words = each.iter().map(|one| format!("{before}{one}{behind}"));
    // The shell drops an empty word.
    words
        .map(|word| (!word.is_empty()).then_some(word))
        .collect()
}
