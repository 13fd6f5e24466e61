//! Tokens of Go sources, as far as declarations of types need them.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoTokenKind<'a> {
    /// A comment with its `//` or `/*`.
    Comment(&'a str),
    /// A name, a keyword or a number.
    Word(&'a str),
    /// A string, a raw string or a rune.
    Literal,
    /// Any other character.
    Sign(char),
    /// The end of the source.
    End,
}

/// A token and the lines that it begins and ends on, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GoToken<'a> {
    pub(super) kind: GoTokenKind<'a>,
    pub(super) line: usize,
    pub(super) end_line: usize,
}

/// Splits a source into tokens. Every source has tokens, also one that Go does not accept.
pub(super) struct GoScanner<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> GoScanner<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self {
            rest: source.strip_prefix('\u{feff}').unwrap_or(source),
            line: 1,
        }
    }

    /// Returns the next token, and [`GoTokenKind::End`] again and again after the last one.
    pub(super) fn next_token(&mut self) -> GoToken<'a> {
        let token_start = self.rest.trim_start();
        let skipped = self.rest.len() - token_start.len();
        self.line += count_newlines(&self.rest[..skipped]);
        let length = token_length(token_start);
        let (text, rest) = token_start.split_at(length);
        let line = self.line;
        self.rest = rest;
        self.line += count_newlines(text);
        let kind = match text.chars().next() {
            None => GoTokenKind::End,
            Some('/') if length > 1 => GoTokenKind::Comment(text.trim_end()),
            Some('"' | '\'' | '`') => GoTokenKind::Literal,
            Some(first) if is_word(first) => GoTokenKind::Word(text),
            Some(first) => GoTokenKind::Sign(first),
        };
        GoToken {
            kind,
            line,
            end_line: self.line,
        }
    }
}

fn count_newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length in bytes of the token at the start of a text, 0 at its end.
fn token_length(text: &str) -> usize {
    let to_end = text.len();
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(to_end);
    }
    if let Some(comment) = text.strip_prefix("/*") {
        return comment.find("*/").map_or(to_end, |at| at + 4);
    }
    match text.chars().next() {
        None => 0,
        Some('`') => text[1..].find('`').map_or(to_end, |at| at + 2),
        Some(quote @ ('"' | '\'')) => quoted_length(text.as_bytes(), quote as u8),
        Some(first) if is_word(first) => text.find(|c| !is_word(c)).unwrap_or(to_end),
        Some(first) => first.len_utf8(),
    }
}

/// Returns the length of a literal that ends at its quote, or at the end of the line if the quote is missing.
fn quoted_length(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match *byte {
            b'\n' => return at,
            b'\\' if text.get(at + 1) != Some(&b'\n') => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<GoTokenKind<'_>> {
        let mut scanner = GoScanner::new(source);
        let tokens = std::iter::from_fn(|| Some(scanner.next_token().kind));
        tokens
            .take_while(|kind| *kind != GoTokenKind::End)
            .collect()
    }

    #[test]
    fn go_scanner_finds_no_comments_in_literals() {
        use GoTokenKind::{Comment, Literal, Sign, Word};
        let source = "a = \"// no \\\" /* no */\" + `// no\n/*` + '\\'' + '/' // yes\n/* and\n*/ b";
        assert_eq!(
            kinds(source),
            [
                Word("a"),
                Sign('='),
                Literal,
                Sign('+'),
                Literal,
                Sign('+'),
                Literal,
                Sign('+'),
                Literal,
                Comment("// yes"),
                Comment("/* and\n*/"),
                Word("b"),
            ]
        );
    }

    #[test]
    fn go_scanner_counts_lines_of_tokens() {
        let mut scanner = GoScanner::new("\u{feff}\r\n`a\r\nb` c // d\r\n");
        let literal = scanner.next_token();
        assert_eq!((literal.line, literal.end_line), (2, 3));
        assert_eq!(scanner.next_token().line, 3);
        assert_eq!(scanner.next_token().kind, GoTokenKind::Comment("// d"));
        assert_eq!(scanner.next_token().kind, GoTokenKind::End);
    }

    #[test]
    fn go_scanner_ends_at_unterminated_literals_and_comments() {
        use GoTokenKind::{Comment, Literal, Word};
        assert_eq!(kinds("\"open\nnext"), [Literal, Word("next")]);
        assert_eq!(kinds("\"ä\\"), [Literal]);
        assert_eq!(kinds("'\\ü"), [Literal]);
        assert_eq!(kinds("\"\\\nnext"), [Literal, Word("next")]);
        assert_eq!(kinds("`open\n"), [Literal]);
        assert_eq!(kinds("/* open\n"), [Comment("/* open")]);
    }
}
