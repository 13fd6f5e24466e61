//! Braces of which bash makes several words.

/// The most words that are made of one.
const WORDS_MAX: usize = 16;

/// As many braces as are looked at for one: of more, one that may be several words is.
const BRACES_MAX: usize = 32;

/// Whether the brace that the text begins with may be one that the shell makes several words of: it has to have a comma
/// or two dots between itself and what closes it, and braces with neither close nothing.
pub(super) fn expand(text: &str) -> bool {
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
            // Quoted, or in a substitution, it may be no brace.
            '\\' | '"' | '\'' | '$' | '`' => return unsure(),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    false
}

/// The words that bash makes of one, where there is nothing but one pair of braces and plain text.
pub(super) fn words(raw: &str) -> Option<Vec<String>> {
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
    // The shell leaves out a word that is empty.
    words
        .map(|word| (!word.is_empty()).then_some(word))
        .collect()
}
