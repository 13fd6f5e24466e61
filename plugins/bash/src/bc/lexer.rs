//! Tokens of bc programs.

/// Reserved words.
const KEYWORDS: [&str; 20] = [
    "auto", "break", "continue", "define", "else", "for", "halt", "ibase", "if", "last", "length",
    "obase", "print", "quit", "read", "return", "scale", "sqrt", "void", "while",
];

/// Operators and punctuation. An operator comes before those that are a prefix of it.
const SYMBOLS: [&str; 32] = [
    "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "==", "!=", "<=", ">=", "&&", "||", "+", "-",
    "*", "/", "%", "^", "=", "<", ">", "!", "(", ")", "[", "]", "{", "}", ",", ";",
];

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BcToken {
    /// Digits, as written.
    Number(String),
    Name(String),
    Keyword(&'static str),
    Text(String),
    Symbol(&'static str),
    Newline,
    End,
}

/// A position in a program, from which tokens are read.
#[derive(Debug, Clone)]
pub struct BcLexer<'a> {
    rest: &'a str,
    line: usize,
    /// Messages about characters that were skipped.
    pub messages: Vec<String>,
}

impl<'a> BcLexer<'a> {
    /// Starts at the beginning of a program.
    pub fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            line: 1,
            messages: Vec::new(),
        }
    }

    /// Returns the current line number, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Reads the next `bytes` bytes, which must end at a character boundary.
    fn take_bytes(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Reads characters as long as they match.
    fn take_while(&mut self, matches: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !matches(c));
        self.take_bytes(end.unwrap_or(self.rest.len()))
    }

    /// Reads the next token. Characters that cannot begin a token are reported and skipped.
    pub fn read_token(&mut self) -> BcToken {
        loop {
            let Some(first) = self.rest.chars().next() else {
                return BcToken::End;
            };
            if self.rest.starts_with("\\\n") {
                self.take_bytes(2);
            } else if self.rest.starts_with("\\\r\n") {
                self.take_bytes(3);
            } else if self.rest.starts_with("/*") {
                self.skip_comment();
            } else {
                match first {
                    '\n' => {
                        self.take_bytes(1);
                        return BcToken::Newline;
                    }
                    ' ' | '\t' | '\r' | '\u{b}' | '\u{c}' => {
                        self.take_bytes(1);
                    }
                    '#' => {
                        self.take_while(|c| c != '\n');
                    }
                    'a'..='z' => return self.read_word(),
                    '0'..='9' | 'A'..='Z' | '.' => return self.read_number(),
                    '"' if self.rest[1..].contains('"') => {
                        self.take_bytes(1);
                        let text = self.take_while(|c| c != '"').to_owned();
                        self.take_bytes(1);
                        return BcToken::Text(text);
                    }
                    _ => {
                        if let Some(symbol) = self.read_symbol() {
                            return BcToken::Symbol(symbol);
                        }
                        self.report_character(first);
                    }
                }
            }
        }
    }

    fn skip_comment(&mut self) {
        let end = self.rest[2..].find("*/");
        if end.is_none() {
            self.messages
                .push("EOF encountered in a comment.".to_owned());
        }
        self.take_bytes(end.map_or(self.rest.len(), |end| end + 4));
    }

    fn read_symbol(&mut self) -> Option<&'static str> {
        let symbol = SYMBOLS
            .into_iter()
            .find(|symbol| self.rest.starts_with(symbol))?;
        self.take_bytes(symbol.len());
        Some(symbol)
    }

    fn report_character(&mut self, character: char) {
        self.messages
            .push(format!("illegal character: {character}"));
        self.take_bytes(character.len_utf8());
    }

    fn read_word(&mut self) -> BcToken {
        let word = self.take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        match KEYWORDS.into_iter().find(|keyword| *keyword == word) {
            Some(keyword) => BcToken::Keyword(keyword),
            None => BcToken::Name(word.to_owned()),
        }
    }

    /// Reads a number, which may continue after a backslash at the end of a line. A point alone means `last`.
    fn read_number(&mut self) -> BcToken {
        let mut text = String::new();
        loop {
            let has_point = text.contains('.');
            let digits = self.take_while(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
            text.push_str(digits);
            if !has_point && self.rest.starts_with('.') {
                text.push('.');
                self.take_bytes(1);
            } else if self.rest.starts_with("\\\n") {
                self.take_bytes(2);
            } else {
                break;
            }
        }
        if text == "." {
            return BcToken::Keyword("last");
        }
        BcToken::Number(text)
    }
}
