//! Options and input of `xargs`.

use crate::ShellWord;

use super::option_table::GivenOption;

/// Returns the files from which `xargs` reads its words instead of its standard input.
pub(super) fn argument_files(options: &[GivenOption<'_>]) -> Vec<ShellWord> {
    let file_options = options
        .iter()
        .filter(|option| matches!(option.name, "a" | "arg-file"));
    file_options
        .filter_map(|option| option.value.clone())
        .collect()
}

/// Returns true if `xargs` never splits a name that it passes to the command.
pub(super) fn passes_whole_names(options: &[GivenOption<'_>]) -> bool {
    let mut delimiters = options
        .iter()
        .filter(|option| matches!(option.name, "d" | "delimiter"));
    delimiters.all(|option| {
        let delimiter = option.value.as_ref().and_then(ShellWord::known);
        delimiter.is_some_and(separates_names)
    })
}

/// Returns true for delimiters that do not split file names: a line end or a null character.
fn separates_names(delimiter: &str) -> bool {
    let Some(escape) = delimiter.strip_prefix('\\') else {
        return delimiter == "\n";
    };
    let is_short = escape.len() <= 4 && escape.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let code = match escape.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => u32::from_str_radix(escape, 8),
    };
    escape == "n" || is_short && matches!(code, Ok(0 | 10))
}

/// Returns the placeholders that `xargs` replaces with its input in the words of the command.
pub(super) fn placeholders(options: &[GivenOption<'_>]) -> Vec<ShellWord> {
    let replace_options = options
        .iter()
        .filter(|option| matches!(option.name, "I" | "i" | "replace"));
    let default = || ShellWord::Known("{}".to_owned());
    replace_options
        .map(|option| option.value.clone().unwrap_or_else(default))
        .collect()
}
