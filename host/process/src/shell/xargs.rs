//! What `xargs` makes of its options and of what it is fed.

use mimir_core::command::Word;

use super::options::Given;

/// The files that `xargs` reads its words from instead of its standard input.
pub(super) fn lists(options: &[Given<'_>]) -> Vec<Word> {
    let lists = options
        .iter()
        .filter(|option| matches!(option.name, "a" | "arg-file"));
    lists.filter_map(|option| option.value.clone()).collect()
}

/// Whether what `xargs` is fed comes to its command name by name, and not cut where no name ends.
pub(super) fn keeps_names(options: &[Given<'_>]) -> bool {
    let mut marks = options
        .iter()
        .filter(|option| matches!(option.name, "d" | "delimiter"));
    marks.all(|option| {
        let mark = option.value.as_ref().and_then(Word::known);
        mark.is_some_and(ends_names)
    })
}

/// Whether `xargs` takes this for the end of a line or a null character: no name that is found is cut there.
fn ends_names(mark: &str) -> bool {
    let Some(escape) = mark.strip_prefix('\\') else {
        return mark == "\n";
    };
    let is_short = escape.len() <= 4 && escape.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let code = match escape.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => u32::from_str_radix(escape, 8),
    };
    escape == "n" || is_short && matches!(code, Ok(0 | 10))
}

/// What `xargs` may put the words that it reads in place of, wherever that stands.
pub(super) fn replaced(options: &[Given<'_>]) -> Vec<Word> {
    let marks = options
        .iter()
        .filter(|option| matches!(option.name, "I" | "i" | "replace"));
    let mark = |option: &Given<'_>| option.value.clone();
    marks
        .map(|option| mark(option).unwrap_or_else(|| Word::Known("{}".to_owned())))
        .collect()
}
