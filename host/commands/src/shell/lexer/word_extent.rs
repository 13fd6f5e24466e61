//! The end of a word: finds the quotes and substitutions in it, as far as every shell would end them in the same
//! place.

use super::{DEPTH_MAX, ShellFault};

/// The fault of a word that a line continuation splits: a shell joins such lines before it reads them.
pub(super) const SPLIT: ShellFault = "a word that continues on the next line is not analyzed";

/// A construct that is open inside of a word.
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
        // A substitution is read as it would be in double quotes.
        at += if begins {
            scan(&text[at..], vec![OpenDelimiter::Double])?
        } else {
            1
        };
    }
    Ok(())
}

/// Returns true if there is a dollar sign before a quote that is not itself quoted.
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

/// Returns the length of the word at the start of the text or, if something is already open, of the one substitution
/// there.
fn scan(text: &str, mut open: Vec<OpenDelimiter>) -> Result<usize, ShellFault> {
    let bytes = text.as_bytes();
    let outside = open.len();
    let mut at = 0;
    // True if a word of the inner text begins here.
    let mut begins = false;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let top = open.last().copied();
        let began = std::mem::replace(&mut begins, false);
        if open.len() > DEPTH_MAX {
            return Err("it is nested too deep to be read");
        }
        match (byte, top) {
            (b'\\', None) if next == Some(b'\n') && goes_on(&bytes[at + 2..]) => return Err(SPLIT),
            (b'\\', _) => at += 1,
            (b'\'', Some(OpenDelimiter::Double)) => {}
            (b'\'', Some(OpenDelimiter::Brace)) if open.contains(&OpenDelimiter::Double) => {
                return Err(
                    "a quote inside of `\"${…}\"` has different meanings in different shells",
                );
            }
            (b'\'', _) => at += skip_single(&bytes[at..])?,
            (b'"', Some(OpenDelimiter::Double)) => {
                open.pop();
            }
            (b'"', _) => open.push(OpenDelimiter::Double),
            (b'`', _) => at += skip_back(&bytes[at..])?,
            (b'$', _) if next == Some(b'\\') && bytes.get(at + 2) == Some(&b'\n') => {
                return Err(SPLIT);
            }
            // `$$` is the process id of the shell: its second dollar sign does not begin anything.
            (b'$', _) if next == Some(b'$') => at += 1,
            (b'$', _) if next == Some(b'(') => {
                open.push(OpenDelimiter::Paren);
                begins = true;
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
                at += 1 + skip_ansi(&bytes[at + 1..])?
            }
            (b'}', Some(OpenDelimiter::Brace)) => {
                open.pop();
            }
            (b'<', Some(OpenDelimiter::Brace)) if next == Some(b'<') => {
                return Err("`<<` inside of `${…}` has different meanings in different shells");
            }
            // In newer shells it is a substitution in there, too.
            (b'<' | b'>', Some(OpenDelimiter::Brace)) if next == Some(b'(') => {
                return Err("`<(…)` inside of `${…}` has different meanings in different shells");
            }
            (b'(', Some(OpenDelimiter::Paren)) => {
                open.push(OpenDelimiter::Paren);
                begins = true;
            }
            (b')', Some(OpenDelimiter::Paren)) => {
                open.pop();
            }
            (b'#', Some(OpenDelimiter::Paren)) if began => {
                return Err("a comment inside of a substitution is not analyzed");
            }
            (b'c', Some(OpenDelimiter::Paren)) if began && is_word(&text[at..], "case") => {
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
            ) => begins = true,
            (b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')', None) => {
                return Ok(at);
            }
            _ => {}
        }
        at += 1;
        if outside > 0 && open.len() == outside {
            return Ok(at);
        }
    }
    match open.is_empty() && at == bytes.len() {
        true => Ok(at),
        false => Err("a quote or a substitution is not closed"),
    }
}

/// Returns true if the next character is not a blank.
fn goes_on(bytes: &[u8]) -> bool {
    !matches!(bytes.first(), None | Some(b' ' | b'\t' | b'\n'))
}

fn is_word(text: &str, word: &str) -> bool {
    let after = text.strip_prefix(word);
    after.is_some_and(|after| after.starts_with([' ', '\t', '\n']))
}

/// Returns the distance from a single quote to the one that closes it.
fn skip_single(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = bytes[1..].iter().position(|byte| *byte == b'\'');
    end.map(|end| end + 1).ok_or("a quote is not closed")
}

/// Returns the distance to the quote that closes `$'…'`. Shells without that form end it at another quote.
fn skip_ansi(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = skip_single(bytes)?;
    match bytes[..end].last() {
        Some(b'\\') => Err("`\\'` inside of `$'…'` has different meanings in different shells"),
        _ => Ok(end),
    }
}

/// Returns the distance from a backquote to the one that closes it.
fn skip_back(bytes: &[u8]) -> Result<usize, ShellFault> {
    let end = bytes[1..].iter().position(|byte| *byte == b'`');
    let end = end.map(|end| end + 1).ok_or("a backquote is not closed")?;
    match bytes[..end].contains(&b'\\') {
        true => Err("a backslash inside of backquotes is not analyzed"),
        false => Ok(end),
    }
}
