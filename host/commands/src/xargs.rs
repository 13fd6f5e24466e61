//! Options and input of `xargs`.

use crate::ShellWord;

use super::option_table::GivenOption;

/// Returns the files from which `xargs` reads its words instead of its standard input.
pub(super) fn argument_files(options: &[GivenOption<'_>]) -> Vec<ShellWord> {
    let lists = options
        .iter()
        .filter(|option| matches!(option.name, "a" | "arg-file"));
    lists.filter_map(|option| option.value.clone()).collect()
}

/// Returns true if `xargs` passes its input to the command name by name, without splitting a name.
pub(super) fn keeps_names(options: &[GivenOption<'_>]) -> bool {
    let mut marks = options
        .iter()
        .filter(|option| matches!(option.name, "d" | "delimiter"));
    marks.all(|option| {
        let mark = option.value.as_ref().and_then(ShellWord::known);
        mark.is_some_and(ends_names)
    })
}

/// Returns true for a delimiter that is a line end or a null character: it does not split file names.
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

/// Returns the placeholders that `xargs` replaces with the words that it reads, at any position.
pub(super) fn replacement_words(options: &[GivenOption<'_>]) -> Vec<ShellWord> {
    let marks = options
        .iter()
        .filter(|option| matches!(option.name, "I" | "i" | "replace"));
    let mark = |option: &GivenOption<'_>| option.value.clone();
    marks
        .map(|option| mark(option).unwrap_or_else(|| ShellWord::Known("{}".to_owned())))
        .collect()
}
