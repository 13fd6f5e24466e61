//! Normalized form of a command: the bare program name, followed by the subcommand. `/usr/bin/git -C . log` becomes
//! `git log`. Rules that forbid a command check this form in addition to the original.
//!
//! Out of scope: permissions of commands, and shell expansion.

use crate::ShellWord;

/// Options of `git` itself whose value is the next word.
const GIT_VALUE_OPTIONS: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--config-env",
    "--attr-source",
    "--list-cmds",
];

/// A normalized command.
pub struct PlainCommand {
    /// The program without its folder, extension and options before the subcommand; then the other words.
    pub words: Vec<ShellWord>,
    /// Alternative readings, for unknown options that may take the next word, and for options that may change the
    /// meaning of the rest.
    pub alternatives: Vec<Vec<ShellWord>>,
}

impl PlainCommand {
    /// Normalizes a command.
    pub fn normalize(words: &[ShellWord]) -> Self {
        let Some((first, rest)) = words.split_first() else {
            return Self {
                words: Vec::new(),
                alternatives: Vec::new(),
            };
        };
        let program = match first {
            ShellWord::Known(program) => ShellWord::Known(base_name(program).to_owned()),
            unknown => unknown.clone(),
        };
        let with_program = |rest: &[ShellWord]| {
            let mut words = vec![program.clone()];
            words.extend_from_slice(rest);
            words
        };
        let value_options = match program.known() {
            Some("git") => GIT_VALUE_OPTIONS,
            _ => &[],
        };
        let (mut start, mut sets_alias) = (0, false);
        while let Some(option) = rest.get(start).and_then(ShellWord::known) {
            if !option.starts_with('-') || option == "-" {
                break;
            }
            start += 1;
            if option == "--" {
                break;
            }
            if value_options.contains(&option) {
                let value = rest
                    .get(start)
                    .and_then(ShellWord::known)
                    .unwrap_or_default();
                sets_alias |= value.to_ascii_lowercase().starts_with("alias.");
                start += 1;
            }
        }
        let start = start.min(rest.len());
        let mut alternatives = Vec::new();
        if start > 0 && value_options.is_empty() {
            // Any word after an option may be its value.
            alternatives.extend((1..rest.len()).map(|from| with_program(&rest[from..])));
        }
        if sets_alias {
            alternatives.push(vec![program.clone(), ShellWord::Unknown(String::new())]);
        }
        Self {
            words: with_program(&rest[start..]),
            alternatives,
        }
    }
}

/// Returns the name of a program without its folder and the extension `.exe`.
fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let end = name.len().checked_sub(".exe".len());
    match end.and_then(|end| name.split_at_checked(end)) {
        Some((stem, end)) if !stem.is_empty() && end.eq_ignore_ascii_case(".exe") => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<ShellWord> {
        let word = |word: &str| {
            if word.starts_with('$') {
                ShellWord::Unknown(word.to_owned())
            } else {
                ShellWord::Known(word.to_owned())
            }
        };
        text.split(' ').map(word).collect()
    }

    #[test]
    fn plain_command_drops_options_before_the_subcommand() {
        for (written, normalized) in [
            ("git log -3", "git log -3"),
            ("/usr/bin/git log", "git log"),
            ("C:\\bin\\Git.EXE log", "Git log"),
            ("git -C . log", "git log"),
            ("git -C $x log", "git log"),
            ("git -c a.b=c --no-pager --git-dir=x log", "git log"),
            ("git --work-tree x log", "git log"),
            ("git -- log", "git log"),
            ("git -C", "git"),
            ("git", "git"),
            ("docker -D rm x", "docker rm x"),
            ("cat - x", "cat - x"),
        ] {
            assert_eq!(
                PlainCommand::normalize(&words(written)).words,
                words(normalized),
                "{written}"
            );
        }
        assert!(PlainCommand::normalize(&[]).words.is_empty());
    }

    #[test]
    fn plain_command_unknown_options_yield_alternatives() {
        let others = PlainCommand::normalize(&words("docker --context x rm y")).alternatives;
        assert!(others.contains(&words("docker rm y")), "{others:?}");
        assert!(
            PlainCommand::normalize(&words("git -C . log"))
                .alternatives
                .is_empty()
        );
        assert_eq!(
            PlainCommand::normalize(&words("git -c alias.x=log x"))
                .alternatives
                .len(),
            1
        );
    }
}
