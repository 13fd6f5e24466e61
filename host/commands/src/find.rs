//! Arguments of `find`: folders, names and commands; and the names that `fd` searches for.

use crate::ShellWord;
use crate::operands::{PathOperand, leaves_directory};

/// Options that run a command for the files found.
pub(crate) const EXECUTING_OPTIONS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Returns true if `find` runs a command on its results.
fn runs_command(words: &[ShellWord]) -> bool {
    has_any(words, EXECUTING_OPTIONS)
}

/// Returns true if `find` runs a command on files that it does not select by name.
pub fn runs_on_unnamed_files(words: &[ShellWord]) -> bool {
    runs_command(words) && has_any(words, &["-inum", "-iregex", "-regex", "-samefile"])
}

fn has_any(words: &[ShellWord], options: &[&str]) -> bool {
    words.iter().any(|word| options.contains(&word.text()))
}

/// Returns the folders that `find` searches, and the names that it searches for if it runs a command.
pub(crate) fn path_operands(words: &[ShellWord]) -> Vec<PathOperand> {
    let is_condition = |word: &&ShellWord| word.text().starts_with(['-', '(', '!', ')']);
    let is_link_option = |word: &&ShellWord| matches!(word.known(), Some("-H" | "-L" | "-P"));
    let folders = words.iter().skip(1).skip_while(is_link_option);
    let folders = folders.take_while(|word| !is_condition(word));
    let outside = words.iter().skip(1).filter_map(ShellWord::known);
    let outside = outside.filter(|text| leaves_directory(text));
    let mut paths: Vec<PathOperand> = outside
        .map(|text| PathOperand::possible(text.to_owned()))
        .collect();
    paths.extend(folders.map(|word| PathOperand::certain(word, false)));
    // Files that are only listed are not read.
    if runs_command(words) {
        paths.extend(searched_names(words));
    }
    paths
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

/// Returns the names that `find` or `fd` searches for.
pub fn searched_names(words: &[ShellWord]) -> Vec<PathOperand> {
    let text = |index: usize| words.get(index).map_or("", ShellWord::text);
    let is_not = |word: &str| matches!(word, "!" | "-not");
    let excludes_group = || {
        words
            .windows(2)
            .any(|pair| is_not(pair[0].text()) && pair[1].text() == "(")
    };
    let mut names = Vec::new();
    for (index, word) in words.iter().enumerate().skip(1) {
        let before = |count: usize| index.checked_sub(count).map_or("", text);
        match text(0) {
            "fd" if matches!(before(1), "-e" | "--extension") => {
                names.push(PathOperand::pattern(format!("*.{}", word.text())));
            }
            // The search pattern is a regular expression.
            "fd" if !word.text().starts_with('-') => {
                names.push(PathOperand::pattern(format!("*{}*", word.text())));
            }
            "fd" => {}
            _ if NAME_CONDITIONS.contains(&before(1)) => {
                // An excluded name is not searched for.
                let is_excluded = is_not(before(2)) && !is_not(before(3)) && !excludes_group();
                if !is_excluded {
                    names.push(PathOperand::pattern(word.text().to_owned()));
                }
            }
            _ => {}
        }
    }
    names
}
