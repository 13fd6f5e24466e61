//! Search for the end of a word: skips quotes and substitutions, if all shells agree on where they end.

use super::{DEPTH_MAX, ShellFault};

/// Fault of a word that is split by a line continuation.
pub(super) const SPLIT_WORD: ShellFault = "a word that continues on the next line is not analyzed";

/// A construct that is open inside a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenDelimiter {
    /// `"…"`
    Double,
    /// `$(…)`, and parentheses in it.
    Paren,
    /// `${…}`
    Brace,
}

/// Checks the body of a here-document that the shell expands.
pub(in crate::shell) fn check_here_doc_body(text: &str) -> Result<(), ShellFault> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begins = match byte {
            b'\\' => {
                at += 2;
                continue;
            }
            b'$' if bytes.get(at + 1) == Some(&b'$') => {
                at += 2;
                continue;
            }
            b'$' => matches!(bytes.get(at + 1), Some(b'(' | b'{' | b'[')),
            byte => byte == b'`',
        };
        // Substitutions in the body follow the rules of double quotes.
        at += if begins {
            scan(&text[at..], vec![OpenDelimiter::Double])?
        } else {
            1
        };
    }
    Ok(())
}

/// Returns true if the text has an unquoted `$'` or `$"`.
pub(super) fn has_dollar_quote(text: &str) -> bool {
    let mut quote = None;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => drop(bytes.next()),
            (b'$', None | Some(b'"')) if bytes.peek() == Some(&b'$') => drop(bytes.next()),
            (b'$', None) if matches!(bytes.peek(), Some(b'\'' | b'"')) => return true,
            (b'\'' | b'"', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    false
}

/// Returns the length of the word at the start of the text.
pub(super) fn word_length(text: &str) -> Result<usize, ShellFault> {
    scan(text, Vec::new())
}

/// Returns the length of the word at the start of the text or, if `open` is not empty, of the substitution there.
fn scan(text: &str, mut open: Vec<OpenDelimiter>) -> Result<usize, ShellFault> {
    let bytes = text.as_bytes();
    let initial_depth = open.len();
    let mut at = 0;
    // True if a word of the inner text begins here.
    let mut at_word_start = false;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let top = open.last().copied();
        let was_word_start = std::mem::replace(&mut at_word_start, false);
        if open.len() > DEPTH_MAX {
            return Err("the script is nested too deeply to analyze");
        }
        match (byte, top) {
            (b'\\', None) if next == Some(b'\n') && continues_word(&bytes[at + 2..]) => {
                return Err(SPLIT_WORD);
            }
            (b'\\', _) => at += 1,
            (b'\'', Some(OpenDelimiter::Double)) => {}
            (b'\'', Some(OpenDelimiter::Brace)) if open.contains(&OpenDelimiter::Double) => {
                return Err(
                    "a quote inside of `\"${…}\"` has different meanings in different shells",
                );
            }
            (b'\'', _) => at += skip_single_quoted(&bytes[at..])?,
            (b'"', Some(OpenDelimiter::Double)) => {
                open.pop();
            }
            (b'"', _) => open.push(OpenDelimiter::Double),
            (b'`', _) => at += skip_backquoted(&bytes[at..])?,
            (b'$', _) if next == Some(b'\\') && bytes.get(at + 2) == Some(&b'\n') => {
                return Err(SPLIT_WORD);
            }
            // `$$` is the process id of the shell: its second dollar sign begins nothing.
            (b'$', _) if next == Some(b'$') => at += 1,
            (b'$', _) if next == Some(b'(') => {
                open.push(OpenDelimiter::Paren);
                at_word_start = true;
                at += 1;
            }
            (b'$', _) if next == Some(b'{') => {
                open.push(OpenDelimiter::Brace);
                at += 1;
            }
            (b'$', _) if next == Some(b'[') => {
                return Err("`$[` has different meanings in different shells");
            }
            (b'$', None | Some(OpenDelimiter::Paren)) if next == Some(b'\'') => {
                at += 1 + skip_ansi_quoted(&bytes[at + 1..])?
            }
            (b'}', Some(OpenDelimiter::Brace)) => {
                open.pop();
            }
            (b'<', Some(OpenDelimiter::Brace)) if next == Some(b'<') => {
                return Err("`<<` inside of `${…}` has different meanings in different shells");
            }
            // Newer shells run this substitution.
            (b'<' | b'>', Some(OpenDelimiter::Brace)) if next == Some(b'(') => {
                return Err("`<(…)` inside of `${…}` has different meanings in different shells");
            }
            (b'(', Some(OpenDelimiter::Paren)) => {
                open.push(OpenDelimiter::Paren);
                at_word_start = true;
            }
            (b')', Some(OpenDelimiter::Paren)) => {
                open.pop();
            }
            (b'#', Some(OpenDelimiter::Paren)) if was_word_start => {
                return Err("a comment inside of a substitution is not analyzed");
            }
            (b'c', Some(OpenDelimiter::Paren))
                if was_word_start && begins_with_word(&text[at..], "case") =>
            {
                return Err("`case` inside of a substitution is not analyzed");
            }
            (b'<', Some(OpenDelimiter::Paren))
                if next == Some(b'<') && bytes.get(at + 2) != Some(&b'<') =>
            {
                return Err("a here-document inside of a substitution is not analyzed");
            }
            (b'<', Some(OpenDelimiter::Paren)) if next == Some(b'<') => at += 2,
            (
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>',
                Some(OpenDelimiter::Paren),
            ) => at_word_start = true,
            (b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')', None) => {
                return Ok(at);
            }
            _ => {}
        }
        at += 1;
        if initial_depth > 0 && open.len() == initial_depth {
            return Ok(at);
        }
    }
    if open.is_empty() && at == bytes.len() {
        Ok(at)
    } else {
        Err("a quote or a substitution is not closed")
    }
}

/// Returns true if the next character belongs to the same word.
fn continues_word(bytes: &[u8]) -> bool {
    !matches!(bytes.first(), None | Some(b' ' | b'\t' | b'\n'))
}

/// Returns true if the text begins with this word and whitespace.
fn begins_with_word(text: &str, word: &str) -> bool {
    let after = text.strip_prefix(word);
    after.is_some_and(|after| after.starts_with([' ', '\t', '\n']))
}

/// Returns the distance from a single quote to the one that closes it.
fn skip_single_quoted(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = bytes[1..].iter().position(|byte| *byte == b'\'');
    end.map(|end| end + 1).ok_or("a quote is not closed")
}

/// Returns the distance to the quote that closes `$'…'`. Shells without that syntax may end it at another quote.
fn skip_ansi_quoted(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = skip_single_quoted(bytes)?;
    match bytes[..end].last() {
        Some(b'\\') => Err("`\\'` inside of `$'…'` has different meanings in different shells"),
        _ => Ok(end),
    }
}

/// Returns the distance from a backquote to the one that closes it.
fn skip_backquoted(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = bytes[1..].iter().position(|byte| *byte == b'`');
    let end = end.map(|end| end + 1).ok_or("a backquote is not closed")?;
    if bytes[..end].contains(&b'\\') {
        Err("a backslash inside of backquotes is not analyzed")
    } else {
        Ok(end)
    }
}
