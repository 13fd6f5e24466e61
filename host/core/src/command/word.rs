//! One word of a command: what is known of one that only the shell will know, by how it is written.
//!
//! Never here: what a program makes of it.

use super::Word;

/// Numbers that the shell itself has: neither an option nor more than one word.
const NUMBERS: [&str; 4] = ["$?", "$#", "$$", "$!"];

/// What the reader writes for the name of a pipe or a file of the shell's own.
const PIPE: &str = "<(…)";

impl Word {
    /// What the program will get, if that is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Word::Known(text) => Some(text),
            Word::Glob(_) | Word::Found(_) | Word::Unknown(_) => None,
        }
    }

    /// As a person reads it.
    pub fn text(&self) -> &str {
        match self {
            Word::Known(text) | Word::Glob(text) | Word::Found(text) | Word::Unknown(text) => text,
        }
    }

    /// Whether the program gets it as one word, whatever is in it: it is quoted, or a number of the shell's own.
    pub fn is_single(&self) -> bool {
        match self {
            Word::Known(_) | Word::Found(_) => true,
            Word::Glob(_) => false,
            Word::Unknown(raw) => raw == PIPE || is_number(raw) || is_quoted(raw),
        }
    }

    /// Whether the program may get a word for it that begins with a dash.
    pub fn may_be_option(&self) -> bool {
        match self {
            Word::Known(text) => text.starts_with('-'),
            Word::Glob(text) | Word::Found(text) => text.starts_with(['*', '?', '[', '-']),
            Word::Unknown(raw) if raw == PIPE || is_number(raw) => false,
            Word::Unknown(raw) => {
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
    NUMBERS.contains(&raw) || length.is_some_and(is_name)
}

/// Whether all that the shell puts in place stands between quotes. Of what is not plain that is not said.
fn is_quoted(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'"' => quoted(bytes, at + 1),
            b'\'' => end(bytes, at + 1, b'\''),
            b'$' if bytes.get(at + 1) == Some(&b'\'') => end(bytes, at + 2, b'\''),
            b'\\' => Some(at + 2),
            // A number, wherever the shell splits it.
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

/// Behind the double quote that ends what begins here; nothing if it may be several words all the same.
fn quoted(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', _) => return Some(at + 1),
            (b'\\', _) => at + 2,
            (b'`', _) => end(bytes, at + 1, b'`')?,
            (b'$', Some(b'$')) => at + 2,
            (b'$', Some(b'(')) => substitution(bytes, at + 2, 0)?,
            (b'$', Some(b'@')) => return None,
            (b'$', Some(b'{')) => {
                let close = end(bytes, at + 2, b'}')?;
                let odd = |byte: &u8| matches!(byte, b'@' | b'!' | b'"' | b'$' | b'`');
                if bytes[at + 2..close].iter().any(odd) {
                    return None;
                }
                close
            }
            _ => at + 1,
        }
    }
}

/// The deepest that quotes stand in substitutions. Texts that are deeper are not read at all.
const DEPTH_MAX: usize = 12;

/// Behind the parenthesis that ends what begins here.
fn substitution(bytes: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    let mut open = 0_usize;
    if depth > DEPTH_MAX {
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
            (b'\'', _) => end(bytes, at + 1, b'\'')?,
            (b'"', _) => {
                // What is split in there is split for the command in there.
                let mut inner = at + 1;
                loop {
                    inner = match (bytes.get(inner)?, bytes.get(inner + 1)) {
                        (b'"', _) => break inner + 1,
                        (b'\\', _) | (b'$', Some(b'$')) => inner + 2,
                        (b'$', Some(b'(')) => substitution(bytes, inner + 2, depth + 1)?,
                        _ => inner + 1,
                    }
                }
            }
            _ => at + 1,
        }
    }
}

/// Behind the next such byte.
fn end(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter()
        .position(|one| *one == byte)
        .map(|at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_one_word() {
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
            ("<(…)", true, false),
            ("…", false, true),
            ("{a,b}", false, true),
            ("\"$(", false, true),
            ("", false, true),
        ] {
            let word = Word::Unknown(raw.to_owned());
            let said = (word.is_single(), word.may_be_option());
            assert_eq!(said, (single, option), "{raw}");
        }
        assert!(Word::Glob("*.rs".into()).may_be_option());
        assert!(!Word::Glob("a*".into()).may_be_option());
        assert!(!Word::Glob("*.rs".into()).is_single());
        let found = Word::Found("*.rs".into());
        assert!(found.is_single() && found.may_be_option() && found.known().is_none());
    }
}
