//! The words of `find`: folders, names and commands. The names that `fd` looks for are here, too.

use crate::ShellWord;
use crate::operands::{PathOperand, leaves_directory};

/// Options that run a command for the files that are found.
pub(crate) const EXECUTES: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Returns true if `find` runs a command on its results.
fn runs_command(words: &[ShellWord]) -> bool {
    has(words, EXECUTES)
}

/// Returns true if `find` runs a command on files that its conditions do not select by name.
pub fn runs_on_unnamed_files(words: &[ShellWord]) -> bool {
    runs_command(words) && has(words, &["-inum", "-iregex", "-regex", "-samefile"])
}

fn has(words: &[ShellWord], options: &[&str]) -> bool {
    words.iter().any(|word| options.contains(&word.text()))
}

/// The folders that `find` searches, and the names that it looks for.
pub(crate) fn path_operands(words: &[ShellWord]) -> Vec<PathOperand> {
    let is_condition = |word: &&ShellWord| word.text().starts_with(['-', '(', '!', ')']);
    let links = |word: &&ShellWord| matches!(word.known(), Some("-H" | "-L" | "-P"));
    let folders = words.iter().skip(1).skip_while(links);
    let folders = folders.take_while(|word| !is_condition(word));
    let away = words.iter().skip(1).filter_map(ShellWord::known);
    let away = away.filter(|text| leaves_directory(text));
    let mut all: Vec<PathOperand> = away
        .map(|text| PathOperand::maybe(text.to_owned()))
        .collect();
    all.extend(folders.map(|word| PathOperand::sure(word, false)));
    // Names that are only printed are not read.
    if runs_command(words) {
        all.extend(searched_names(words));
    }
    all
}

/// Conditions of `find` about names.
const NAME_CONDITIONS: &[&str] = &[
    "-ilname",
    "-iname",
    "-ipath",
    "-iwholename",
    "-lname",
    "-name",
    "-path",
    "-wholename",
];

/// The names that a `find` or `fd` looks for.
pub fn searched_names(words: &[ShellWord]) -> Vec<PathOperand> {
    let text = |at: usize| words.get(at).map_or("", ShellWord::text);
    let is_not = |word: &str| matches!(word, "!" | "-not");
    let groups = || {
        words
            .windows(2)
            .any(|pair| is_not(pair[0].text()) && pair[1].text() == "(")
    };
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let before = |count: usize| at.checked_sub(count).map_or("", text);
        match text(0) {
            "fd" if matches!(before(1), "-e" | "--extension") => {
                all.push(PathOperand::pattern(format!("*.{}", word.text())));
            }
            // The search pattern is a regular expression.
            "fd" if !word.text().starts_with('-') => {
                all.push(PathOperand::pattern(format!("*{}*", word.text())));
            }
            "fd" => {}
            _ if NAME_CONDITIONS.contains(&before(1)) => {
                // An excluded name is not searched for.
                let left_out = is_not(before(2)) && !is_not(before(3)) && !groups();
                if !left_out {
                    all.push(PathOperand::pattern(word.text().to_owned()));
                }
            }
            _ => {}
        }
    }
    all
}
