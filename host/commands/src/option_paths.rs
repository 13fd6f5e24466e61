//! Paths in the options of a command: after a `=`, and after a letter.

use super::operands::{PathOperand, leaves_directory};

/// Letters after which programs take a file, among other letters: `grep -of FILE`, `file -bm FILE`.
const FILES: &str = "CLSXfmr";

/// Maximum letters examined. A longer word is not a set of options.
const LETTERS_MAX: usize = 32;

/// Long options that exclude files.
const LEAVES_OUT: &[&str] = &["--exclude", "--exclude-dir", "--ignore", "--ignore-dir"];

/// The paths that an option may open. `is_shielded` returns true if a path rule matches.
pub(super) fn option_paths(option: &str, is_shielded: impl Fn(&str) -> bool) -> Vec<PathOperand> {
    if option.starts_with("--") {
        let Some((name, value)) = option.split_once('=') else {
            return Vec::new();
        };
        return match name {
            name if LEAVES_OUT.contains(&name) && !leaves_directory(value) => Vec::new(),
            _ => vec![PathOperand::maybe(value.to_owned())],
        };
    }
    let mut all = Vec::new();
    let letters = option.char_indices().skip(1).take(LETTERS_MAX);
    for (at, letter) in letters {
        let value = &option[at + letter.len_utf8()..];
        if value.is_empty() {
            break;
        }
        // Words are also split at a lone slash.
        let takes_file = at == 1 || FILES.contains(letter);
        if takes_file && value != "/" && (leaves_directory(value) || is_shielded(value)) {
            all.push(PathOperand::maybe(value.to_owned()));
        }
        if let Some(value) = value.strip_prefix('=') {
            all.push(PathOperand::maybe(value.to_owned()));
        }
        if !letter.is_ascii_alphanumeric() {
            break;
        }
    }
    all
}
