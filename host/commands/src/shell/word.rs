//! Reader for one word: its value for the program, and the commands in its substitutions.

use crate::ShellWord;

use super::braces;
use super::lexer::ShellFault;
use super::variables::{VariableScope, is_plain};

/// Reason why arithmetic with variables is not analyzed.
pub(super) const UNKNOWN_ARITHMETIC: ShellFault =
    "arithmetic evaluates variables and may run a command stored in one";

/// Result of reading a word.
pub(super) struct WordParts<'a> {
    pub(super) word: ShellWord,
    /// Texts of substitutions that the shell runs.
    pub(super) substitutions: Vec<&'a str>,
    /// Reasons why the word may run something unknown.
    pub(super) unknown: Vec<ShellFault>,
}

/// Quoting context of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuoteContext {
    /// A word of a command.
    Plain,
    /// The body of a here-document: quotes are ordinary characters.
    Body,
    /// A word without splitting and file name expansion, such as the value of a variable.
    Value,
}

struct WordScanner<'a, 'v> {
    raw: &'a str,
    context: QuoteContext,
    variables: &'v VariableScope,
    /// Position in `raw`.
    at: usize,
    /// Text so far, without quotes.
    text: String,
    has_wildcard: bool,
    /// True if the value is unknown until the shell runs.
    expands: bool,
    parts: WordParts<'a>,
}

/// Reads a word from its source text.
pub(super) fn read_word<'a>(
    raw: &'a str,
    context: QuoteContext,
    variables: &VariableScope,
) -> WordParts<'a> {
    let mut scan = WordScanner {
        raw,
        context,
        variables,
        at: 0,
        text: String::new(),
        has_wildcard: false,
        expands: false,
        parts: WordParts {
            word: ShellWord::Known(String::new()),
            substitutions: Vec::new(),
            unknown: Vec::new(),
        },
    };
    scan.read_all();
    let WordScanner {
        text,
        has_wildcard,
        expands,
        mut parts,
        ..
    } = scan;
    parts.word = if expands {
        ShellWord::Unknown(raw.to_owned())
    } else if has_wildcard {
        ShellWord::Glob(text)
    } else {
        ShellWord::Known(text)
    };
    parts
}

impl<'a> WordScanner<'a, '_> {
    fn rest(&self) -> &'a str {
        &self.raw[self.at..]
    }

    fn read_all(&mut self) {
        let context = self.context;
        let mut in_double_quotes = context == QuoteContext::Body;
        if context != QuoteContext::Body && self.raw.starts_with('~') {
            self.expands = true;
        }
        while let Some(c) = self.rest().chars().next() {
            let after = &self.rest()[c.len_utf8()..];
            match c {
                '\\' => self.read_escape(in_double_quotes),
                '"' if context != QuoteContext::Body => {
                    in_double_quotes = !in_double_quotes;
                    self.at += 1;
                }
                '\'' if !in_double_quotes => {
                    let end = after.find('\'').unwrap_or(after.len());
                    self.text.push_str(&after[..end]);
                    self.at += end + 2;
                    self.at = self.at.min(self.raw.len());
                }
                '`' => {
                    let end = after.find('`').unwrap_or(after.len());
                    self.parts.substitutions.push(&after[..end]);
                    self.expands = true;
                    self.at = (self.at + end + 2).min(self.raw.len());
                }
                '$' => self.read_dollar(in_double_quotes),
                '*' | '?' if !in_double_quotes && context == QuoteContext::Plain => {
                    self.take_wildcard(c)
                }
                '[' if !in_double_quotes
                    && context == QuoteContext::Plain
                    && after.contains(']') =>
                {
                    self.take_wildcard(c)
                }
                '{' if !in_double_quotes
                    && context == QuoteContext::Plain
                    && braces::may_expand(self.rest()) =>
                {
                    self.expands = true;
                    self.take(c);
                }
                // The shell expands `~` in lists of paths and in values; bash expands `a=~` in any position.
                '~' if !in_double_quotes && self.text.ends_with([':', '=']) => {
                    self.expands = true;
                    self.take(c);
                }
                c => self.take(c),
            }
        }
    }

    /// Adds an ordinary character.
    fn take(&mut self, c: char) {
        self.text.push(c);
        self.at += c.len_utf8();
    }

    fn take_wildcard(&mut self, c: char) {
        self.has_wildcard = true;
        self.take(c);
    }

    fn read_escape(&mut self, in_double_quotes: bool) {
        let next = self.rest()[1..].chars().next();
        self.at += 1;
        match next {
            Some('\n') => self.at += 1,
            Some(c) if in_double_quotes && !matches!(c, '$' | '`' | '"' | '\\') => {
                self.text.push('\\')
            }
            Some(c) => self.take(c),
            None => self.text.push('\\'),
        }
    }

    /// Reads an expansion that begins with a dollar sign.
    fn read_dollar(&mut self, in_double_quotes: bool) {
        let after = &self.rest()[1..];
        let Some(next) = after.chars().next() else {
            return self.take('$');
        };
        match next {
            '(' => self.read_substitution(),
            '{' => self.read_parameter(in_double_quotes),
            '\'' if !in_double_quotes => {
                let end = after[1..].find('\'').map_or(after.len(), |end| end + 2);
                self.expands = true;
                self.at += 1 + end;
            }
            '"' if !in_double_quotes => {
                self.expands = true;
                self.at += 1;
                // The shell expands the translated text again, and a variable sets the location of translations.
                self.parts
                    .unknown
                    .push("`$\"…\"` is translated, and a translation may run a command");
            }
            c if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len()).max(1);
                self.at += 1 + end;
                self.add_variable(&after[..end], in_double_quotes);
            }
            _ => self.take('$'),
        }
    }

    /// Reads `$(…)` or `$((…))`.
    fn read_substitution(&mut self) {
        self.expands = true;
        let inner = &self.rest()[2..];
        let length = closing_position(inner, b'(', b')');
        let text = &inner[..length];
        self.skip_delimited(length);
        if !text.starts_with('(') {
            return self.parts.substitutions.push(text);
        }
        // Variables may contain expressions, and those may contain commands: only numbers are certainly harmless.
        let is_number = |c: char| c.is_ascii_digit() || " \t+-*/%<>=!&|?:,^~()".contains(c);
        if !text.chars().all(is_number) || !text.ends_with(')') {
            self.parts.unknown.push(UNKNOWN_ARITHMETIC);
        }
    }

    /// Skips a substitution with inner text of this length, and its delimiters.
    fn skip_delimited(&mut self, length: usize) {
        self.at += 2 + length + 1;
        if self.at > self.raw.len() {
            self.at = self.raw.len();
            self.parts.unknown.push("a substitution is not closed");
        }
    }

    /// Adds the value of a variable.
    fn add_variable(&mut self, name: &str, in_double_quotes: bool) {
        let quoted = in_double_quotes || self.context == QuoteContext::Value;
        match self.variables.get(name) {
            Some(ShellWord::Known(text)) if quoted || is_plain(text) => self.text.push_str(text),
            _ => self.expands = true,
        }
    }

    /// Reads `${…}`.
    fn read_parameter(&mut self, in_double_quotes: bool) {
        let inner = &self.rest()[2..];
        let length = closing_position(inner, b'{', b'}');
        let text = &inner[..length];
        self.skip_delimited(length);
        if self.variables.get(text).is_some() {
            return self.add_variable(text, in_double_quotes);
        }
        self.expands = true;
        let name = text.strip_prefix('#').unwrap_or(text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, rest) = name.split_at(name.find(|c| !is_name(c)).unwrap_or(name.len()));
        let is_harmless = match rest.as_bytes() {
            [] => true,
            [b':', b'-' | b'+' | b'?', ..]
            | [b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',', ..] => true,
            [b':', slice @ ..] => slice
                .iter()
                .all(|byte| byte.is_ascii_digit() || b" :-".contains(byte)),
            _ => false,
        };
        if name.is_empty() || !is_harmless {
            self.parts
                .unknown
                .push("this kind of `${…}` may set a variable, or run a command stored in one");
        }
        let inner = read_word(rest, QuoteContext::Value, self.variables);
        self.parts.substitutions.extend(inner.substitutions);
        self.parts.unknown.extend(inner.unknown);
    }
}

/// Returns the position of the character that closes a substitution, whose inner text begins here, or the length of the
/// text.
fn closing_position(text: &str, open: u8, close: u8) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at, mut in_double_quotes) = (0usize, 0, false);
    // For each enclosing substitution: true if it is in double quotes, and the byte that closes it.
    let mut enclosing: Vec<(bool, u8)> = vec![];
    while let Some(&byte) = bytes.get(at) {
        let quoted = in_double_quotes;
        match byte {
            b'\\' => at += 1,
            b'\'' if !quoted => {
                at += bytes[at + 1..]
                    .iter()
                    .position(|byte| *byte == b'\'')
                    .map_or(0, |end| end + 1)
            }
            b'"' => in_double_quotes = !in_double_quotes,
            b'`' => {
                at += bytes[at + 1..]
                    .iter()
                    .position(|byte| *byte == b'`')
                    .map_or(0, |end| end + 1)
            }
            b'$' if bytes.get(at + 1) == Some(&b'$') => at += 1,
            b'$' if matches!(bytes.get(at + 1), Some(b'(' | b'{')) => {
                let close_byte = if bytes[at + 1] == b'(' { b')' } else { b'}' };
                enclosing.push((in_double_quotes, close_byte));
                in_double_quotes = false;
                at += 1;
            }
            byte if !quoted
                && enclosing
                    .last()
                    .is_some_and(|(_, close_byte)| *close_byte == byte) =>
            {
                in_double_quotes = enclosing
                    .pop()
                    .is_some_and(|(in_double_quotes, _)| in_double_quotes);
            }
            byte if !quoted && enclosing.is_empty() && byte == close => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
            }
            b'(' if !quoted
                && enclosing
                    .last()
                    .is_some_and(|(_, close_byte)| *close_byte == b')') =>
            {
                enclosing.push((false, b')'))
            }
            byte if !quoted && enclosing.is_empty() && byte == open && open == b'(' => depth += 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
