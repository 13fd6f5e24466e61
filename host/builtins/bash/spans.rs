//! The ends of expansions in the text of a script.
//!
//! It is compiled as a module of bashkit (`../build/bash.rs`).

use std::iter::Peekable;
use std::str::Chars;

/// Moves an expansion at the current position, with everything nested in it. Returns true if there was one.
pub(crate) fn move_expansion(chars: &mut Peekable<Chars<'_>>, into: &mut String) -> bool {
    let (Some(first @ ('$' | '`')), rest) = (chars.peek().copied(), chars.clone().skip(1)) else {
        return false;
    };
    let rest: String = rest.collect();
    let end = match first {
        '`' => backquote_end(&rest),
        _ => expansion_end(&rest),
    };
    let Some(end) = end else {
        return false;
    };
    into.push(first);
    into.push_str(&rest[..end]);
    let moved = 1 + rest[..end].chars().count();
    chars.by_ref().take(moved).for_each(drop);
    true
}

/// Returns the position after a `(…)`, `((…))` or `{…}` at the start of a text.
pub(crate) fn expansion_end(text: &str) -> Option<usize> {
    if let Some(arithmetic) = text.strip_prefix("((") {
        let mut depth = 2;
        let is_end = |c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        };
        return arithmetic.find(is_end).map(|at| 2 + at + 1);
    }
    if let Some(commands) = text.strip_prefix('(') {
        return crate::parser::substitution_end(commands).map(|end| 1 + end);
    }
    text.strip_prefix('{')?;
    let mut in_quotes = false;
    let mut at = 1;
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        let rest = &text[next..];
        at = match c {
            '}' => return Some(next),
            '\\' | '\0' => next + rest.chars().next().map_or(0, char::len_utf8),
            '"' => {
                in_quotes = !in_quotes;
                next
            }
            '\'' if !in_quotes => rest.find('\'').map_or(next, |end| next + end + 1),
            '`' => backquote_end(rest).map_or(next, |end| next + end),
            '$' => expansion_end(rest).map_or(next, |end| next + end),
            _ => next,
        };
    }
    None
}

/// Returns the position after the backquote that ends a text.
pub(crate) fn backquote_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let is_end = |c: char| {
        let ends = c == '`' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    };
    text.find(is_end).map(|at| at + 1)
}
