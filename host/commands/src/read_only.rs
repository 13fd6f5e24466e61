//! Read-only commands, which run without approval if no mode is set: they read files, print text, or print the version
//! of a development tool. The files that they read are checked separately.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

mod read_only_commands;

use crate::git::strip_off_switches;
use crate::path_text::program_name;
use crate::{EnclosingCommand, InsertedText, ParsedCommand, ShellWord};
use read_only_commands::{EXACT_COMMANDS, GIT_ADD, READ_ONLY_COMMANDS, ReadOnlyCommand};

/// Returns true if the command only reads.
pub fn only_reads(command: &ParsedCommand) -> bool {
    let all_words = without_find_placeholder(command);
    let words = &*normalize_program(&all_words);
    let Some(program) = words.first().and_then(ShellWord::known) else {
        return false;
    };
    let is_exact = |line: &&str| {
        let mut expected = line.split(' ');
        let matches_next = |word: &ShellWord| {
            word.known()
                .is_some_and(|text| expected.next() == Some(text))
        };
        words.iter().all(matches_next) && expected.next().is_none()
    };
    let is_listed = BY_PROGRAM.get(program).is_some_and(|lists| {
        lists.exact.iter().any(is_exact) || lists.entries.iter().any(|entry| entry.covers(words))
    });
    is_listed && !has_extra_action(program, &words[1..]) || is_ps_without_environment(words)
}

/// Returns true if the command only adds files to the index of a repository. Committing still needs approval.
pub fn only_stages(command: &ParsedCommand) -> bool {
    GIT_ADD.covers(&normalize_program(&command.words))
}

/// Returns true if an argument makes a program do more than its options show: set the date, read a list of arguments,
/// load a module.
fn has_extra_action(program: &str, arguments: &[ShellWord]) -> bool {
    let mut words = arguments.iter().map(ShellWord::text);
    match program {
        "date" => {
            let is_time = |c: char| c.is_ascii_digit() || c == '.';
            words.any(|word| !word.is_empty() && word.chars().all(is_time))
        }
        // A glob may match a file with such a name.
        "strings" => words.any(|word| word.starts_with(['@', '*', '?', '['])),
        "jq" => words.any(uses_modules),
        // An archive `host:file`, which may also come from a glob, is fetched with a remote shell.
        "tar" => words.any(|word| word.contains([':', '*', '?', '['])),
        _ => false,
    }
}

/// Returns true if a `jq` program loads other programs or data: by a keyword at the start of a statement, followed by
/// the file name.
fn uses_modules(program: &str) -> bool {
    let begins_statement = |at: usize| {
        let before = program[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == ';')
    };
    let has_statement = |keyword: &str| {
        program.match_indices(keyword).any(|(at, _)| {
            let rest = program[at + keyword.len()..].trim_start();
            begins_statement(at) && rest.starts_with(['"', '#', '@'])
        })
    };
    has_statement("import") || has_statement("include") || program.contains("modulemeta")
}

/// Entries for one program.
#[derive(Default)]
struct ReadOnlyLists {
    exact: Vec<&'static str>,
    entries: Vec<&'static ReadOnlyCommand>,
}

/// Entries by program name.
static BY_PROGRAM: LazyLock<HashMap<&'static str, ReadOnlyLists>> = LazyLock::new(|| {
    let mut lists = HashMap::<_, ReadOnlyLists>::new();
    let program = |line: &'static str| line.split(' ').next().unwrap_or_default();
    for line in EXACT_COMMANDS {
        lists.entry(program(line)).or_default().exact.push(line);
    }
    for entry in READ_ONLY_COMMANDS {
        lists
            .entry(program(entry.prefix))
            .or_default()
            .entries
            .push(entry);
    }
    lists
});

/// Returns true for a `ps` that does not show the environment of other processes. `e` among letters without a dash, and
/// `E` on macOS, show it. `-e` does too if another word is not a cluster with a dash, since `ps` then reads all
/// clusters as if they had no dash.
fn is_ps_without_environment(words: &[ShellWord]) -> bool {
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
    // Long options have one meaning in both readings.
    let short: Vec<&str> = texts
        .into_iter()
        .filter(|text| !text.starts_with("--"))
        .collect();
    let has_only = |letters: &str, allowed: &str| letters.chars().all(|c| allowed.contains(c));
    let are_safe = |letters: &str| has_only(letters, "AaefFjlLHPTyMcdw");
    match short.as_slice() {
        [letters] if letters.strip_prefix('-').is_some_and(are_safe) => true,
        // The second word selects the columns.
        [letters, _] if letters.strip_suffix('o').is_some() => {
            let set = letters.trim_end_matches('o');
            set.strip_prefix('-').is_some_and(are_safe) || has_only(set, "-AaxwflLjHTm")
        }
        texts => !texts.iter().any(|text| text.contains(['e', 'E'])),
    }
}

/// Returns the words with an ordinary path in place of each `{}` of `find`. An inserted name begins with the search
/// folder, so it is never an option.
fn without_find_placeholder(command: &ParsedCommand) -> Cow<'_, [ShellWord]> {
    let is_placeholder = |word: &ShellWord| {
        let ShellWord::Inserted { source, .. } = word else {
            return false;
        };
        *source == InsertedText::FoundName
    };
    let is_run_by_find = matches!(command.wrappers.last(), Some(EnclosingCommand::Find(_)));
    if !is_run_by_find || !command.words.iter().any(is_placeholder) {
        return (&command.words).into();
    }
    let words = command.words.iter().map(|word| match word {
        word if is_placeholder(word) => ShellWord::Known("./{}".to_owned()),
        word => word.clone(),
    });
    words.collect()
}

/// Returns the words without the system folder of the program, and without options of git that only disable something.
fn normalize_program(words: &[ShellWord]) -> Cow<'_, [ShellWord]> {
    let program = words.first().and_then(ShellWord::known).unwrap_or_default();
    let name = program_name(program);
    if name == program && name != "git" {
        return words.into();
    }
    let mut normalized = words.to_vec();
    normalized[0] = ShellWord::Known(name.to_owned());
    if name == "git" {
        strip_off_switches(&mut normalized);
    }
    normalized.into()
}

impl ReadOnlyCommand {
    /// Returns true if the words are this command, and no argument writes or runs something.
    fn covers(&self, words: &[ShellWord]) -> bool {
        let mut rest = words.iter();
        for expected in self.prefix.split(' ') {
            if rest.next().and_then(ShellWord::known) != Some(expected) {
                return false;
            }
        }
        let arguments = rest.as_slice();
        let has_limits =
            !self.forbidden.is_empty() || self.permitted.is_some() || self.max_operands.is_some();
        // An unknown word may become an option; a glob with a literal prefix cannot.
        let is_unclear = |word: &ShellWord| match word {
            ShellWord::Known(_) => false,
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                text.starts_with(['*', '?', '[', '-']) || self.max_operands.is_some()
            }
            ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => true,
        };
        if has_limits && !self.lenient && arguments.iter().any(is_unclear) {
            return false;
        }
        let mut known = arguments.iter().filter_map(ShellWord::known);
        if known
            .clone()
            .any(|word| self.forbidden.iter().any(|option| is_option(word, option)))
        {
            return false;
        }
        let has_dash = |word: &&str| word.starts_with('-') && *word != "-";
        let is_permitted = |permitted: &[&str], word: &str| {
            let name = word.split('=').next().unwrap_or(word);
            permitted.contains(&name)
        };
        if self.permitted.is_some_and(|permitted| {
            let mut options = known.clone().filter(has_dash);
            options.any(|word| !is_permitted(permitted, word))
        }) {
            return false;
        }
        let count = known.clone().count();
        let before_dashes = known.clone().take_while(|word| *word != "--").count();
        // After `--`, no word is an option.
        let after_dashes = count.saturating_sub(before_dashes + 1);
        let mut is_value = false;
        let operands = known.by_ref().take(before_dashes).filter(|word| {
            let is_operand = !has_dash(word) && !is_value;
            is_value = self.options_with_value.contains(word);
            is_operand
        });
        self.max_operands
            .is_none_or(|max| operands.count() + after_dashes <= max)
    }
}

/// Returns true if the word is this option: alone, in a cluster, with its value attached, or abbreviated as GNU tools
/// allow.
fn is_option(word: &str, option: &str) -> bool {
    // `--text` is a separate option of git, not an abbreviation.
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
