//! The commands that run without a question if no mode is set: they read, print, or ask development tools for their
//! version. The files that they read are checked separately.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

mod read_only_commands;

use crate::git::strip_off_switches;
use crate::path_text::program_name;
use crate::{EnclosingCommand, InsertedText, ParsedCommand, ShellWord};
use read_only_commands::{EXACT, LIST, ReadOnlyCommand, STAGES};

/// Returns true if the command only reads.
pub fn only_reads(simple: &ParsedCommand) -> bool {
    let shown = without_find_placeholder(simple);
    let words = &*plain(&shown);
    let Some(program) = words.first().and_then(ShellWord::known) else {
        return false;
    };
    let exact = |line: &&str| {
        let mut line = line.split(' ');
        let same = |word: &ShellWord| word.known().is_some_and(|word| line.next() == Some(word));
        words.iter().all(same) && line.next().is_none()
    };
    let listed = BY_PROGRAM.get(program).is_some_and(|lists| {
        lists.exact.iter().any(exact) || lists.entries.iter().any(|entry| entry.covers(words))
    });
    listed && !has_extra_action(program, &words[1..]) || lists_processes(words)
}

/// Returns true if the command only adds files to the index of a repository. The commit itself is asked about.
pub fn only_stages(simple: &ParsedCommand) -> bool {
    STAGES.covers(&plain(&simple.words))
}

/// Returns true if a word makes a program do more than its options tell: set a date, read a list of arguments, load a
/// module.
fn has_extra_action(program: &str, rest: &[ShellWord]) -> bool {
    let mut words = rest.iter().map(ShellWord::text);
    match program {
        "date" => {
            let is_time = |c: char| c.is_ascii_digit() || c == '.';
            words.any(|word| !word.is_empty() && word.chars().all(is_time))
        }
        // A glob may match a file with such a name.
        "strings" => words.any(|word| word.starts_with(['@', '*', '?', '['])),
        "jq" => words.any(uses_modules),
        // An archive `host:file` is fetched with a remote shell, also one that a glob finds.
        "tar" => words.any(|word| word.contains([':', '*', '?', '['])),
        _ => false,
    }
}

/// Returns true if a `jq` program includes other programs or data by name. Those words are at its beginning, before
/// the text that names the file.
fn uses_modules(program: &str) -> bool {
    let begins = |at: usize| {
        let before = program[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == ';')
    };
    let names = |word: &str| {
        program.match_indices(word).any(|(at, _)| {
            let rest = program[at + word.len()..].trim_start();
            begins(at) && rest.starts_with(['"', '#', '@'])
        })
    };
    names("import") || names("include") || program.contains("modulemeta")
}

/// The lists for one program.
#[derive(Default)]
struct ReadOnlyLists {
    exact: Vec<&'static str>,
    entries: Vec<&'static ReadOnlyCommand>,
}

/// The lists by the first word of their lines.
static BY_PROGRAM: LazyLock<HashMap<&'static str, ReadOnlyLists>> = LazyLock::new(|| {
    let mut all = HashMap::<_, ReadOnlyLists>::new();
    let program = |line: &'static str| line.split(' ').next().unwrap_or_default();
    for line in EXACT {
        all.entry(program(line)).or_default().exact.push(line);
    }
    for entry in LIST {
        all.entry(program(entry.begins))
            .or_default()
            .entries
            .push(entry);
    }
    all
});

/// Checks that `ps` does not show the environment of other processes: by `e` among letters without a dash, by `E` on
/// macOS, or by `-e` together with a word that is not a set of dashed letters, since all are read without dashes then.
fn lists_processes(words: &[ShellWord]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return false;
    };
    let texts: Option<Vec<&str>> = rest.iter().map(ShellWord::known).collect();
    let Some(texts) = texts.filter(|_| program.known() == Some("ps")) else {
        return false;
    };
    if texts.iter().any(|text| text.contains("environ")) {
        return false;
    }
    // Long options are the same in both readings.
    let short: Vec<&str> = texts
        .into_iter()
        .filter(|text| !text.starts_with("--"))
        .collect();
    let of = |letters: &str, known: &str| letters.chars().all(|c| known.contains(c));
    let every = |letters: &str| of(letters, "AaefFjlLHPTyMcdw");
    match short.as_slice() {
        [letters] if letters.strip_prefix('-').is_some_and(every) => true,
        // The second word selects the columns.
        [letters, _] if letters.strip_suffix('o').is_some() => {
            let set = letters.trim_end_matches('o');
            set.strip_prefix('-').is_some_and(every) || of(set, "-AaxwflLjHTm")
        }
        all => !all.iter().any(|text| text.contains(['e', 'E'])),
    }
}

/// The words, where a file name that `find` inserts is a name that is not an option: it starts with its search folder.
fn without_find_placeholder(simple: &ParsedCommand) -> Cow<'_, [ShellWord]> {
    let is_mark = |word: &ShellWord| {
        let ShellWord::Inserted { source, .. } = word else {
            return false;
        };
        *source == InsertedText::FoundName
    };
    let by_find = matches!(simple.wrappers.last(), Some(EnclosingCommand::Find(_)));
    if !by_find || !simple.words.iter().any(is_mark) {
        return (&simple.words).into();
    }
    let each = simple.words.iter().map(|word| match word {
        word if is_mark(word) => ShellWord::Known("./{}".to_owned()),
        word => word.clone(),
    });
    each.collect()
}

/// The words without irrelevant parts: the folder of system programs, and git's display options.
fn plain(words: &[ShellWord]) -> Cow<'_, [ShellWord]> {
    let program = words.first().and_then(ShellWord::known).unwrap_or_default();
    let name = program_name(program);
    if name == program && name != "git" {
        return words.into();
    }
    let mut plain = words.to_vec();
    plain[0] = ShellWord::Known(name.to_owned());
    if name == "git" {
        strip_off_switches(&mut plain);
    }
    plain.into()
}

impl ReadOnlyCommand {
    fn covers(&self, words: &[ShellWord]) -> bool {
        let mut rest = words.iter();
        for begin in self.begins.split(' ') {
            if rest.next().and_then(ShellWord::known) != Some(begin) {
                return false;
            }
        }
        let rest = rest.as_slice();
        let limits = !self.but.is_empty() || self.only.is_some() || self.operands.is_some();
        let careful = limits && !self.lenient;
        // An unknown word may become an option; a glob with a literal prefix cannot.
        let strays = |word: &ShellWord| match word {
            ShellWord::Known(_) => false,
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                text.starts_with(['*', '?', '[', '-']) || self.operands.is_some()
            }
            ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => true,
        };
        if careful && rest.iter().any(strays) {
            return false;
        }
        let mut known = rest.iter().filter_map(ShellWord::known);
        if known
            .clone()
            .any(|word| self.but.iter().any(|option| is_option(word, option)))
        {
            return false;
        }
        let is_dash = |word: &&str| word.starts_with('-') && *word != "-";
        let is_one_of = |only: &[&str], word: &str| {
            let name = word.split('=').next().unwrap_or(word);
            only.contains(&name)
        };
        if self.only.is_some_and(|only| {
            let mut options = known.clone().filter(is_dash);
            options.any(|word| !is_one_of(only, word))
        }) {
            return false;
        }
        let all = known.clone().count();
        let before = known.clone().take_while(|word| *word != "--").count();
        // After `--`, no word is an option.
        let behind = all.saturating_sub(before + 1);
        let mut is_value = false;
        let operands = known.by_ref().take(before).filter(|word| {
            let counts = !is_dash(word) && !is_value;
            is_value = self.values.contains(word);
            counts
        });
        self.operands
            .is_none_or(|most| operands.count() + behind <= most)
    }
}

/// Returns true if the word is this option: alone, among other letters, with its value attached, or abbreviated as GNU
/// tools allow.
fn is_option(word: &str, option: &str) -> bool {
    // A separate option of git, and not an abbreviation of another.
    if word == "--text" {
        return false;
    }
    if let Some(long) = option.strip_prefix("--") {
        let name = word.split('=').next().unwrap_or(word);
        let name = name.strip_prefix("--").unwrap_or_default();
        return !name.is_empty() && long.starts_with(name);
    }
    match option.strip_prefix('-') {
        Some(letter) if letter.len() == 1 => {
            word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
        }
        _ => word == option,
    }
}
