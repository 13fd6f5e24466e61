//! Parser for the options of a program, up to the command that it runs.

use crate::ShellWord;

/// Options of a program, by the form of their value.
pub(super) struct OptionTable {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with a value, in the same or the next word.
    pub(super) values: &'static str,
    /// Letters with an optional value, only in the same word.
    pub(super) optional: &'static str,
    /// Long options without a value.
    pub(super) long: &'static [&'static str],
    /// Long options with a value, after `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
    /// Long options with an optional value, only after `=`.
    pub(super) long_optional: &'static [&'static str],
}

impl OptionTable {
    /// Table without options.
    pub(super) const NONE: Self = Self {
        flags: "",
        values: "",
        optional: "",
        long: &[],
        long_values: &[],
        long_optional: &[],
    };
}

/// An option on the command line.
pub(super) struct GivenOption<'a> {
    /// The letter or long name, without dashes.
    pub(super) name: &'a str,
    pub(super) value: Option<ShellWord>,
}

/// Returns the options and the index of the first word after them. Returns `None` if a word is unknown or an option is
/// not in the table.
pub(super) fn parse_options<'a>(
    words: &'a [ShellWord],
    options: &OptionTable,
) -> Option<(Vec<GivenOption<'a>>, usize)> {
    let mut given = Vec::new();
    let mut next = 1;
    while let Some(word) = words.get(next) {
        let text = word.known()?;
        if text == "--" {
            return Some((given, next + 1));
        }
        if !text.starts_with('-') || text == "-" {
            return Some((given, next));
        }
        next += 1;
        if value_is_next_word(text, options, &mut given)? {
            let value = words.get(next);
            // A value that may expand to several words would shift the following ones.
            if value.is_some_and(|word| !word.is_single()) {
                return None;
            }
            if let Some(last) = given.last_mut() {
                last.value = value.cloned();
            }
            next += 1;
        }
    }
    Some((given, words.len()))
}

/// Adds the options in a word to `given`. Returns true if the value of the last one is the next word, or `None` if an
/// option is not in the table.
fn value_is_next_word<'a>(
    text: &'a str,
    options: &OptionTable,
    given: &mut Vec<GivenOption<'a>>,
) -> Option<bool> {
    let known = |text: &str| Some(ShellWord::Known(text.to_owned()));
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, known(value)),
            None => (long, None),
        };
        let attached = value.is_some();
        given.push(GivenOption { name, value });
        return if options.long_values.contains(&name) {
            Some(!attached)
        } else {
            let is_known =
                options.long_optional.contains(&name) || options.long.contains(&name) && !attached;
            is_known.then_some(false)
        };
    }
    let mut letters = text[1..].char_indices();
    while let Some((at, letter)) = letters.next() {
        let rest = letters.as_str();
        let name = &text[1 + at..text.len() - rest.len()];
        let takes_value = options.values.contains(letter);
        if takes_value || options.optional.contains(letter) {
            let value = known(rest).filter(|_| !rest.is_empty());
            let is_next = takes_value && value.is_none();
            given.push(GivenOption { name, value });
            return Some(is_next);
        }
        if !options.flags.contains(letter) {
            return None;
        }
        given.push(GivenOption { name, value: None });
    }
    Some(false)
}
