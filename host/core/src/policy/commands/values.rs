//! Paths in the options of a command: behind a `=`, behind a letter, and in the words that options take.

use crate::command::Word;

use super::globs::unbraced;
use super::operands::{Operand, leads_away};

/// Letters behind which programs take a file, among other letters: `grep -of FILE`, `file -bm FILE`.
const FILES: &str = "CLSXfmr";

/// As many letters as are looked at. A set of more is none.
const LETTERS_MAX: usize = 32;

/// Long options by which programs leave files out.
const LEAVES_OUT: &[&str] = &["--exclude", "--exclude-dir", "--ignore", "--ignore-dir"];

/// Options of `rg` and `grep` that say which files they look at.
const LOOKS_AT: &[&str] = &["--glob", "--iglob", "--include"];

/// What an option of a program may open. `is_shielded` says whether the path rules speak of a path.
pub(super) fn of(option: &str, is_shielded: impl Fn(&str) -> bool) -> Vec<Operand> {
    if option.starts_with("--") {
        let Some((name, value)) = option.split_once('=') else {
            return Vec::new();
        };
        return match name {
            name if LOOKS_AT.contains(&name) => patterns(value),
            name if LEAVES_OUT.contains(&name) && !leads_away(value) => Vec::new(),
            _ => vec![Operand::maybe(value.to_owned())],
        };
    }
    let mut all = Vec::new();
    let letters = option.char_indices().skip(1).take(LETTERS_MAX);
    for (at, letter) in letters {
        let value = &option[at + letter.len_utf8()..];
        if value.is_empty() {
            break;
        }
        // A slash alone is what words are cut at.
        let takes_file = at == 1 || FILES.contains(letter);
        if takes_file && value != "/" && (leads_away(value) || is_shielded(value)) {
            all.push(Operand::maybe(value.to_owned()));
        }
        if let Some(value) = value.strip_prefix('=') {
            all.push(Operand::maybe(value.to_owned()));
        }
        if !letter.is_ascii_alphanumeric() {
            break;
        }
    }
    all
}

/// Whether the next word says which files a search looks at.
pub(super) fn looks_at(program: &str, option: &str) -> bool {
    let long = option.starts_with("--") && LOOKS_AT.contains(&option);
    long || program == "rg" && !option.starts_with("--") && option.ends_with('g')
}

/// The files that a search looks at, as its own wildcards say.
pub(super) fn patterns(text: &str) -> Vec<Operand> {
    if text.starts_with('!') {
        return Vec::new();
    }
    match unbraced(text) {
        Some(all) => all.into_iter().map(Operand::pattern).collect(),
        None => vec![Operand {
            word: Word::Unknown(text.to_owned()),
            sure: true,
            ..Operand::maybe(String::new())
        }],
    }
}
