//! Path arguments of git commands: pathspecs, and paths in revisions.

use crate::ShellWord;

use crate::glob_text::is_wild;
use crate::operands::PathOperand;

/// Options with a text value, of commands that show changes.
const TEXT_OPTIONS: &[&str] = &[
    "--after",
    "--author",
    "--before",
    "--committer",
    "--grep",
    "--since",
    "--until",
    "-G",
    "-S",
];

/// Commands whose operand may be a message.
const MESSAGE_COMMANDS: &[&str] = &["commit", "merge", "notes", "revert", "stash", "tag"];

/// Flags of `git grep` without a value, which can be combined.
const GREP_FLAGS: &str = "EFGHILPWachilnopqrvwz";

/// Returns the paths that a git command may access.
pub(crate) fn operands(words: &[ShellWord]) -> Vec<PathOperand> {
    let mut paths = Vec::new();
    let mut command = None;
    let mut last_option = None;
    let mut only_operands = false;
    let mut has_pattern = words.iter().filter_map(ShellWord::known).any(gives_pattern);
    for word in words.iter().skip(1) {
        if let Some(text) = word.known().filter(|_| !only_operands) {
            if text == "--" {
                only_operands = true;
                last_option = None;
                continue;
            }
            if text.len() > 1 && text.starts_with('-') {
                // After an option that takes any word, this may be its value, and the next word is an operand.
                let is_value = last_option
                    .is_some_and(|option| TEXT_OPTIONS.contains(&option) || takes_pattern(option));
                last_option = (!is_value).then_some(text);
                paths.extend(line_range_file(text));
                continue;
            }
        }
        let Some(command) = command else {
            command = word.known();
            continue;
        };
        let option = last_option.take();
        let is_text = match command {
            "log" | "diff" | "show" => option.is_some_and(|option| TEXT_OPTIONS.contains(&option)),
            "grep" if option.is_some_and(takes_pattern) => true,
            // The first operand is the pattern.
            "grep" => !std::mem::replace(&mut has_pattern, true),
            _ => false,
        };
        if !is_text {
            paths.extend(pathspec_operands(word, MESSAGE_COMMANDS.contains(&command)));
        }
    }
    paths
}

/// Returns the possible paths of an operand. With `may_be_message`, text with whitespace is not a path.
fn pathspec_operands(word: &ShellWord, may_be_message: bool) -> Vec<PathOperand> {
    let ShellWord::Known(text) = word else {
        // Git itself expands a glob that the shell has left unexpanded.
        let is_glob = matches!(word, ShellWord::Glob(_) | ShellWord::GlobMatch(_));
        let pattern = is_glob.then(|| PathOperand::pattern(word.text().to_owned()));
        return pattern.into_iter().collect();
    };
    if may_be_message && text.contains(char::is_whitespace) {
        return Vec::new();
    }
    // Committed content is as secret as the current file.
    let committed = revision_path(text).map(|path| PathOperand {
        certain: true,
        ..possible_path(path)
    });
    let whole_text = (!text.starts_with(':')).then(|| possible_path(text));
    // The file in `-L :function:file`.
    let last = text.rsplit_once(':').map(|(_, path)| possible_path(path));
    let last = last.filter(|_| !is_excluding(text));
    committed
        .into_iter()
        .chain(whole_text)
        .chain(last)
        .collect()
}

fn possible_path(path: &str) -> PathOperand {
    if is_wild(path) {
        PathOperand::pattern(path.to_owned())
    } else {
        PathOperand::possible(path.to_owned())
    }
}

/// Returns the file in `-L1,5:file`.
fn line_range_file(option: &str) -> Option<PathOperand> {
    let (_, path) = option.strip_prefix("-L")?.rsplit_once(':')?;
    Some(PathOperand::possible(path.to_owned()))
}

/// Returns true if the next word is the pattern of `git grep`.
fn takes_pattern(option: &str) -> bool {
    let letters = option
        .strip_prefix('-')
        .and_then(|set| set.strip_suffix('e'));
    letters.is_some_and(|set| set.chars().all(|c| GREP_FLAGS.contains(c)))
}

/// Returns true if an option gives `git grep` its pattern, so that no operand is one.
fn gives_pattern(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(['e', 'f'])
}

/// Returns true if a pathspec excludes paths.
fn is_excluding(text: &str) -> bool {
    text.starts_with(':') && revision_path(text).is_none()
}

/// Returns the path in a revision path such as `HEAD~2:src/a`. Returns `None` for a repository address, which has
/// slashes after the colon or an `@` before it.
fn revision_path(word: &str) -> Option<&str> {
    let (revision, path) = word.split_once(':')?;
    let path = match revision {
        "" => index_path(path)?,
        _ => path,
    };
    let is_address = path.starts_with("//") || revision.contains('@') && !revision.contains("@{");
    (!is_address && !path.is_empty()).then_some(path)
}

/// Returns the path after a `:` without a revision: a file of the index, `:0:a`, or a pathspec with magic words,
/// `:(top)a`. Returns `None` for an excluding pathspec.
fn index_path(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix('(') {
        let (magic, path) = rest.split_once(')')?;
        return (!magic.split(',').any(|word| word == "exclude")).then_some(path);
    }
    if path.starts_with(['!', '^']) {
        return None;
    }
    let staged = path.split_once(':');
    let staged = staged.filter(|(stage, _)| matches!(*stage, "0" | "1" | "2" | "3"));
    Some(staged.map_or(path, |(_, path)| path))
}
