//! Properties of a word of a command that follow from its syntax, even if its value is unknown.
//!
//! Out of scope: the meaning of the word to a program.

use crate::ShellWord;

/// Shell variables with a number. They expand to one word that is not an option.
const NUMERIC_VARIABLES: [&str; 4] = ["$?", "$#", "$$", "$!"];

impl ShellWord {
    /// Returns the exact text that the program receives, if known.
    pub fn known(&self) -> Option<&str> {
        match self {
            ShellWord::Known(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text to display.
    pub fn text(&self) -> &str {
        match self {
            ShellWord::Known(text)
            | ShellWord::Glob(text)
            | ShellWord::GlobMatch(text)
            | ShellWord::Unknown(text)
            | ShellWord::Inserted { text, .. } => text,
            ShellWord::PipeName => "<(…)",
        }
    }

    /// Returns true if the word remains one word whatever its value: it is quoted, or a numeric shell variable.
    pub fn is_single(&self) -> bool {
        match self {
            ShellWord::Known(_) | ShellWord::GlobMatch(_) | ShellWord::PipeName => true,
            ShellWord::Glob(_) | ShellWord::Inserted { .. } => false,
            ShellWord::Unknown(raw) => is_number(raw) || is_quoted(raw),
        }
    }

    /// Returns true if the word may expand to a word with a leading dash.
    pub fn may_be_option(&self) -> bool {
        match self {
            ShellWord::Known(text) => text.starts_with('-'),
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                text.starts_with(['*', '?', '[', '-'])
            }
            ShellWord::Inserted { .. } => true,
            ShellWord::PipeName => false,
            ShellWord::Unknown(raw) if is_number(raw) => false,
            ShellWord::Unknown(raw) => {
                let first = raw.strip_prefix('"').unwrap_or(raw);
                !self.is_single() || first.starts_with(['-', '$', '`', '"', '\'', '\\'])
            }
        }
    }
}

fn is_number(raw: &str) -> bool {
    let raw = raw
        .strip_prefix('"')
        .map_or(raw, |rest| rest.trim_end_matches('"'));
    let length = raw
        .strip_prefix("${#")
        .and_then(|rest| rest.strip_suffix('}'));
    let is_name = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    NUMERIC_VARIABLES.contains(&raw) || length.is_some_and(is_name)
}

/// Returns true if all expansions are quoted. Returns false in case of doubt.
fn is_quoted(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'"' => skip_quoted(bytes, at + 1),
            b'\'' => position_after(bytes, at + 1, b'\''),
            b'$' if bytes.get(at + 1) == Some(&b'\'') => position_after(bytes, at + 2, b'\''),
            b'\\' => Some(at + 2),
            // A number is a single word even without quotes.
            b'$' if matches!(bytes.get(at + 1), Some(b'?' | b'#' | b'$' | b'!')) => Some(at + 2),
            b'$' | b'`' | b'{' | b'*' | b'?' | b'[' | b'<' | b'>' | 0x80.. => None,
            _ => Some(at + 1),
        };
        match end {
            Some(end) => at = end,
            None => return false,
        }
    }
    !raw.is_empty()
}

/// Returns the position after the closing double quote, or `None` if the quoted text may expand to several words.
fn skip_quoted(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', _) => return Some(at + 1),
            (b'\\', _) => at + 2,
            (b'`', _) => position_after(bytes, at + 1, b'`')?,
            (b'$', Some(b'$')) => at + 2,
            (b'$', Some(b'(')) => skip_substitution(bytes, at + 2, 0)?,
            (b'$', Some(b'@')) => return None,
            (b'$', Some(b'{')) => {
                let close = position_after(bytes, at + 2, b'}')?;
                let is_risky = |byte: &u8| matches!(byte, b'@' | b'!' | b'"' | b'$' | b'`');
                if bytes[at + 2..close].iter().any(is_risky) {
                    return None;
                }
                close
            }
            _ => at + 1,
        }
    }
}

/// Maximum nesting of quotes in substitutions. Deeper text is not parsed.
const MAX_DEPTH: usize = 12;

/// Returns the position after the closing parenthesis.
fn skip_substitution(bytes: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    let mut open = 0_usize;
    if depth > MAX_DEPTH {
        return None;
    }
    loop {
        at = match (bytes.get(at)?, bytes.get(at + 1)) {
            (b')', _) if open == 0 => return Some(at + 1),
            (b')', _) => {
                open -= 1;
                at + 1
            }
            (b'(', _) => {
                open += 1;
                at + 1
            }
            (b'\\', _) => at + 2,
            (b'\'', _) => position_after(bytes, at + 1, b'\'')?,
            (b'"', _) => {
                // Word splitting inside affects only the inner command.
                let mut inner = at + 1;
                loop {
                    inner = match (bytes.get(inner)?, bytes.get(inner + 1)) {
                        (b'"', _) => break inner + 1,
                        (b'\\', _) | (b'$', Some(b'$')) => inner + 2,
                        (b'$', Some(b'(')) => skip_substitution(bytes, inner + 2, depth + 1)?,
                        _ => inner + 1,
                    }
                }
            }
            _ => at + 1,
        }
    }
}

/// Returns the position after the next occurrence of `byte`.
fn position_after(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter()
        .position(|one| *one == byte)
        .map(|at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InsertedText;

    #[test]
    fn shell_word_quoting_decides_single_word_and_option() {
        for (raw, single, option) in [
            ("\"$x\"", true, true),
            ("\"$x\\n\"", true, true),
            ("\"a$x\"", true, false),
            ("a\"$x\"", true, false),
            ("\"-$x\"", true, true),
            ("\"$x\"$y\"$z\"", false, true),
            ("$x", false, true),
            ("a$x", false, true),
            ("\"$@\"", false, true),
            ("\"$$(\"$@\")\"", false, true),
            ("\"$$\"", true, false),
            ("\"${x[@]}\"", false, true),
            ("\"${x}\"", true, true),
            ("\"$(git -C \"$x\" log '\"')\"", true, true),
            ("\"a$(echo \"$@\")\"", true, false),
            ("$(ls)", false, true),
            ("$?", true, false),
            ("\"$#\"", true, false),
            ("${#x}", true, false),
            ("~/x", true, false),
            ("{a,b}", false, true),
            ("\"$(", false, true),
            ("", false, true),
        ] {
            let word = ShellWord::Unknown(raw.to_owned());
            let properties = (word.is_single(), word.may_be_option());
            assert_eq!(properties, (single, option), "{raw}");
        }
        let inserted = ShellWord::Inserted {
            text: "…".to_owned(),
            source: InsertedText::ReadName,
        };
        assert!(!inserted.is_single() && inserted.may_be_option());
        assert!(ShellWord::PipeName.is_single() && !ShellWord::PipeName.may_be_option());
        assert!(ShellWord::Glob("*.rs".into()).may_be_option());
        assert!(!ShellWord::Glob("a*".into()).may_be_option());
        assert!(!ShellWord::Glob("*.rs".into()).is_single());
        let glob_match = ShellWord::GlobMatch("*.rs".into());
        assert!(
            glob_match.is_single() && glob_match.may_be_option() && glob_match.known().is_none()
        );
    }
}
