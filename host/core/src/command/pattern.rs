//! Command patterns, matched word by word against an argument vector.
//!
//! Each word of a pattern is a glob for one word of the command; `*` does not match `/`. A lone `*` at the end matches
//! any number of remaining words. Only this last `*` matches words that the shell expands, because a variable or a glob
//! may expand to any words, including options, or to none. So `git log *` matches `git log $x`, and `cargo test *.rs`
//! does not match `cargo test $x`.

use globset::{GlobBuilder, GlobMatcher};

use super::ShellWord;

/// A command pattern.
#[derive(Debug, Clone)]
pub struct CommandPattern {
    words: Vec<PatternWord>,
    written: String,
}

/// One word of a pattern.
#[derive(Debug, Clone)]
enum PatternWord {
    /// Matches any number of remaining words.
    Rest,
    Glob(GlobMatcher),
}

/// Maximum length of a pattern in a message, in characters.
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

    /// Returns the pattern as written, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns true if the pattern matches the command for every expansion of unknown words.
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

    /// Returns true if the pattern matches the command for some expansion of unknown words.
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
