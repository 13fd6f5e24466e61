//! The shell's own commands that set something: variables that programs obey, or how the shell reads what follows.

use mimir_core::command::{Simple, Word};

/// `set` with anything but what makes a script stricter.
pub(super) fn sets(words: &[Word]) -> Option<String> {
    let harmless = [
        "pipefail",
        "errexit",
        "nounset",
        "xtrace",
        "verbose",
        "noglob",
        "noclobber",
        "-o",
        "+o",
    ];
    let is_harmless = |word: &Word| {
        word.known().is_some_and(|text| {
            harmless.contains(&text)
                || text
                    .strip_prefix(['-', '+'])
                    .is_some_and(|set| set.chars().all(|c| "euxvfCo".contains(c)))
        })
    };
    let odd = !words.iter().skip(1).all(is_harmless);
    odd.then(|| "`set` changes how the shell reads commands, or what `$1` is".to_owned())
}

/// `export NAME=value` and the like set variables.
pub(super) fn declares(simple: &mut Simple) {
    let mut odd = Vec::new();
    let mut set = Vec::new();
    for word in simple.words.iter().skip(1) {
        let text = word.text();
        match text.split_once('=') {
            Some((name, value)) if is_name(name) => {
                set.push((name.to_owned(), Word::Unknown(value.to_owned())))
            }
            None if is_name(text) => set.push((text.to_owned(), Word::Unknown(String::new()))),
            // `-i` makes values arithmetic, `-n` names others, `-f` are functions.
            None if text.starts_with('-') && text[1..].chars().all(|c| "xrpgt".contains(c)) => {}
            _ => odd.push(format!(
                "`{text}` sets something in a way that is not followed"
            )),
        }
    }
    simple.assignments.extend(set);
    simple.unknown.extend(odd);
}

/// `read NAME` and the like set variables.
pub(super) fn names(simple: &mut Simple) {
    let mut set = Vec::new();
    let mut odd = false;
    for word in simple.words.iter().skip(1) {
        match word.known() {
            Some(text) if is_name(text) => {
                set.push((text.to_owned(), Word::Unknown("…".to_owned())))
            }
            Some(text) if !text.contains('[') => {}
            _ => odd = true,
        }
    }
    simple.assignments.extend(set);
    if odd {
        simple
            .unknown
            .push("which variable it sets only the shell will know".to_owned());
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.chars().all(is_letter)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
