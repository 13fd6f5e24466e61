//! Patterns of commands, matched word by word against an argument vector.
//!
//! A word of a pattern is a glob over one word of the command; `*` stops at `/`. A lone `*` at the end matches all
//! remaining words, or none. Words that only the shell can expand are matched by that last `*` alone: a variable or a
//! glob may turn into any word, an option too, or into none. So `git log *` covers `git log $x`, and `cargo test *.rs`
//! does not cover `cargo test $x`.

use globset::{GlobBuilder, GlobMatcher};

use super::ShellWord;

/// A pattern of commands.
#[derive(Debug, Clone)]
pub struct CommandPattern {
    words: Vec<PatternWord>,
    written: String,
}

/// One word of a pattern.
#[derive(Debug, Clone)]
enum PatternWord {
    /// All remaining words, or none.
    Rest,
    Glob(GlobMatcher),
}

/// Maximum characters of a pattern in a message.
const QUOTED_MAX: usize = 100;

impl CommandPattern {
    /// Parses a pattern. The error is the reason why it is not valid.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let parts: Vec<&str> = pattern.split_whitespace().collect();
        let Some((program, _)) = parts.split_first() else {
            return Err("the pattern is empty".into());
        };
        if program.contains(['*', '?', '[', '{']) {
            return Err(format!(
                "the first word of `{}` must be the name of a program, without wildcards; to allow every command, set `mode: full`",
                crate::text::visible(crate::text::prefix(pattern, QUOTED_MAX))
            ));
        }
        let last = parts.len() - 1;
        let parse_word = |(at, part): (usize, &&str)| {
            if at == last && *part == "*" {
                return Ok(PatternWord::Rest);
            }
            let glob = GlobBuilder::new(part).literal_separator(true).build();
            glob.map(|glob| PatternWord::Glob(glob.compile_matcher()))
                .map_err(|error| format!("`{part}` is not a valid glob: {}", error.kind()))
        };
        Ok(Self {
            words: parts
                .iter()
                .enumerate()
                .map(parse_word)
                .collect::<Result<_, _>>()?,
            written: parts.join(" "),
        })
    }

    /// The pattern in its original spelling.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns true if it covers the command, however the shell expands unknown words.
    pub fn matches(&self, words: &[ShellWord]) -> bool {
        let mut words = words.iter();
        for part in &self.words {
            match (part, words.next()) {
                (PatternWord::Rest, _) => return true,
                (PatternWord::Glob(glob), Some(ShellWord::Known(word))) if glob.is_match(word) => {}
                _ => return false,
            }
        }
        words.next().is_none()
    }

    /// Returns true if it covers the command for some expansion of unknown words.
    pub fn may_match(&self, words: &[ShellWord]) -> bool {
        let mut words = words.iter();
        for part in &self.words {
            match (part, words.next()) {
                (PatternWord::Rest, _) => return true,
                (_, Some(word)) if word.known().is_none() => return true,
                (PatternWord::Glob(glob), Some(ShellWord::Known(word))) if glob.is_match(word) => {}
                _ => return false,
            }
        }
        // Unknown words may expand to nothing.
        words.all(|word| word.known().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<ShellWord> {
        let word = |text: &str| {
            if text.starts_with('$') {
                ShellWord::Unknown(text.to_owned())
            } else {
                ShellWord::Known(text.to_owned())
            }
        };
        text.split(' ').map(word).collect()
    }

    #[test]
    fn command_pattern_matches_word_by_word() {
        for (pattern, command, covers, may) in [
            ("git status *", "git status", true, true),
            ("git status *", "git status -s a", true, true),
            ("git status *", "git push", false, false),
            ("git status *", "git status $x", true, true),
            ("git status *", "git $x", false, true),
            ("git status *", "$x status", false, true),
            ("ls", "ls", true, true),
            ("ls", "ls -l", false, false),
            ("ls", "ls $x", false, true),
            ("ls", "lsof", false, false),
            ("ls", "/bin/ls", false, false),
            ("cargo test *.rs", "cargo test a.rs", true, true),
            ("cargo test *.rs", "cargo test a/b.rs", false, false),
            ("cargo test *.rs", "cargo test $x", false, true),
            ("cargo test *.rs", "cargo test a.rs --x", false, false),
        ] {
            let pattern = CommandPattern::parse(pattern).unwrap();
            let matches = (
                pattern.matches(&words(command)),
                pattern.may_match(&words(command)),
            );
            assert_eq!(
                matches,
                (covers, may),
                "{} over {command}",
                pattern.as_str()
            );
        }
    }

    #[test]
    fn command_pattern_invalid_text_is_rejected() {
        for bad in ["", " ", "*", "g*t status", "ls [", "{rm,ls} a"] {
            assert!(CommandPattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
