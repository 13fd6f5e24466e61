//! How the words of a program are skipped, up to the command that it runs.

use mimir_core::command::Word;

/// Options of a program, by whether a value follows.
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with one: written into the word, or the next word.
    pub(super) values: &'static str,
    /// Long options without a value.
    pub(super) long: &'static [&'static str],
    /// Long options with one: after `=`, or the next word.
    pub(super) long_values: &'static [&'static str],
}

/// Where the words after the options begin. Nothing if one of them is not known, or not known to the table.
pub(super) fn skip(words: &[Word], options: &Options) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.known()?;
        if text == "--" {
            return Some(at + 1);
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        at += 1 + usize::from(takes_next(text, options)?);
    }
    Some(words.len())
}

/// Whether the value of an option is the next word; nothing if the option is not in the table.
fn takes_next(text: &str, options: &Options) -> Option<bool> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        return match options.long_values.contains(&name) {
            true => Some(!value),
            false => (options.long.contains(&name) && !value).then_some(false),
        };
    }
    let mut letters = text[1..].chars();
    while let Some(letter) = letters.next() {
        if options.values.contains(letter) {
            return Some(letters.as_str().is_empty());
        }
        if !options.flags.contains(letter) {
            return None;
        }
    }
    Some(false)
}
