//! The path arguments of git commands: pathspecs, and paths in revisions.

use crate::ShellWord;

use crate::glob_text::is_wild;
use crate::operands::PathOperand;

/// Options of commands that show changes with a text value, not a path.
const TEXTS: &[&str] = &[
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
const PROSE: &[&str] = &["commit", "merge", "notes", "revert", "stash", "tag"];

/// Flags of `git grep` without a value, which can be combined.
const FLAGS: &str = "EFGHILPWachilnopqrvwz";

/// The paths that a git command accesses, from all of its words.
pub(crate) fn operands(words: &[ShellWord]) -> Vec<PathOperand> {
    let mut all = Vec::new();
    let mut command = None;
    let mut before = None;
    let mut only_operands = false;
    let mut given = words.iter().filter_map(ShellWord::known).any(gives_pattern);
    for word in words.iter().skip(1) {
        if let Some(text) = word.known().filter(|_| !only_operands) {
            if text == "--" {
                only_operands = true;
                before = None;
                continue;
            }
            if text.len() > 1 && text.starts_with('-') {
                // After an option that takes any word, this may be its value; the next word is an operand then.
                let is_value =
                    before.is_some_and(|option| TEXTS.contains(&option) || takes_pattern(option));
                before = (!is_value).then_some(text);
                all.extend(lines(text));
                continue;
            }
        }
        let Some(command) = command else {
            command = word.known();
            continue;
        };
        let option = before.take();
        let skips = match command {
            "log" | "diff" | "show" => option.is_some_and(|option| TEXTS.contains(&option)),
            "grep" if option.is_some_and(takes_pattern) => true,
            // The first operand is the pattern.
            "grep" => !std::mem::replace(&mut given, true),
            _ => false,
        };
        if !skips {
            all.extend(pathspec_operands(word, !PROSE.contains(&command)));
        }
    }
    all
}

/// The possible paths of one operand; `shows` means that it is not a message.
fn pathspec_operands(word: &ShellWord, shows: bool) -> Vec<PathOperand> {
    let ShellWord::Known(text) = word else {
        // A glob that the shell does not expand is expanded by git itself.
        let is_glob = matches!(word, ShellWord::Glob(_) | ShellWord::GlobMatch(_));
        let all = is_glob.then(|| PathOperand::pattern(word.text().to_owned()));
        return all.into_iter().collect();
    };
    if !shows && text.contains(char::is_whitespace) {
        return Vec::new();
    }
    // Committed content is as secret as the file is now.
    let kept = of_revision(text).map(|path| PathOperand {
        certain: true,
        ..read(path)
    });
    let whole = (!text.starts_with(':')).then(|| read(text));
    // The file of `-L :function:file`.
    let last = text.rsplit_once(':').map(|(_, path)| read(path));
    let last = last.filter(|_| !is_left_out(text));
    kept.into_iter().chain(whole).chain(last).collect()
}

fn read(path: &str) -> PathOperand {
    match is_wild(path) {
        true => PathOperand::pattern(path.to_owned()),
        false => PathOperand::maybe(path.to_owned()),
    }
}

/// The file of `-L 1,5:file` in one word.
fn lines(option: &str) -> Option<PathOperand> {
    let (_, path) = option.strip_prefix("-L")?.rsplit_once(':')?;
    Some(PathOperand::maybe(path.to_owned()))
}

/// Returns true if the next word is a pattern of `git grep`.
fn takes_pattern(option: &str) -> bool {
    let letters = option
        .strip_prefix('-')
        .and_then(|set| set.strip_suffix('e'));
    letters.is_some_and(|set| set.chars().all(|c| FLAGS.contains(c)))
}

/// Returns true if a word gives `git grep` a pattern, so that no operand is one.
fn gives_pattern(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(['e', 'f'])
}

/// Returns true if a pathspec excludes paths.
fn is_left_out(text: &str) -> bool {
    text.starts_with(':') && of_revision(text).is_none()
}

/// The path in a revision path such as `HEAD~2:src/a`; `None` for an address, which has slashes or an `@` before the
/// colon.
fn of_revision(word: &str) -> Option<&str> {
    let (revision, path) = word.split_once(':')?;
    let path = match revision {
        "" => of_index(path)?,
        _ => path,
    };
    let is_address = path.starts_with("//") || revision.contains('@') && !revision.contains("@{");
    (!is_address && !path.is_empty()).then_some(path)
}

/// The path after a `:` without a revision: a file of the index, `:0:a`, or a pathspec with magic words, `:(top)a`.
/// `None` for one that excludes paths.
fn of_index(path: &str) -> Option<&str> {
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
