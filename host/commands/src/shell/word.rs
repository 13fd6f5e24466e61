//! One word: the value that the program receives, and the commands of its substitutions.

use crate::ShellWord;

use super::braces;
use super::lexer::ShellFault;
use super::variables::{VariableScope, is_plain};

/// The result of reading a word.
pub(super) struct WordParts<'a> {
    pub(super) word: ShellWord,
    /// Texts of substitutions that the shell runs.
    pub(super) runs: Vec<&'a str>,
    /// Reasons why the word may run something that is not known.
    pub(super) unknown: Vec<ShellFault>,
}

/// The quoting around the text.
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
    at: usize,
    text: String,
    glob: bool,
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
        glob: false,
        expands: false,
        parts: WordParts {
            word: ShellWord::Known(String::new()),
            runs: Vec::new(),
            unknown: Vec::new(),
        },
    };
    scan.run(context);
    let WordScanner {
        text,
        glob,
        expands,
        mut parts,
        ..
    } = scan;
    parts.word = if expands {
        ShellWord::Unknown(raw.to_owned())
    } else if glob {
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

    fn run(&mut self, context: QuoteContext) {
        let mut double = context == QuoteContext::Body;
        if context != QuoteContext::Body && self.raw.starts_with('~') {
            self.expands = true;
        }
        while let Some(c) = self.rest().chars().next() {
            let after = &self.rest()[c.len_utf8()..];
            match c {
                '\\' => self.escape(double),
                '"' if context != QuoteContext::Body => {
                    double = !double;
                    self.at += 1;
                }
                '\'' if !double => {
                    let end = after.find('\'').unwrap_or(after.len());
                    self.text.push_str(&after[..end]);
                    self.at += end + 2;
                    self.at = self.at.min(self.raw.len());
                }
                '`' => {
                    let end = after.find('`').unwrap_or(after.len());
                    self.parts.runs.push(&after[..end]);
                    self.expands = true;
                    self.at = (self.at + end + 2).min(self.raw.len());
                }
                '$' => self.dollar(double),
                '*' | '?' if !double && context == QuoteContext::Plain => self.wild(c),
                '[' if !double && context == QuoteContext::Plain && after.contains(']') => {
                    self.wild(c)
                }
                '{' if !double
                    && context == QuoteContext::Plain
                    && braces::may_expand(self.rest()) =>
                {
                    self.expands = true;
                    self.take(c);
                }
                // For a path in a list, and a value; bash expands `a=~` in any position.
                '~' if !double && self.text.ends_with([':', '=']) => {
                    self.expands = true;
                    self.take(c);
                }
                c => self.take(c),
            }
        }
    }

    fn take(&mut self, c: char) {
        self.text.push(c);
        self.at += c.len_utf8();
    }

    fn wild(&mut self, c: char) {
        self.glob = true;
        self.take(c);
    }

    fn escape(&mut self, double: bool) {
        let next = self.rest()[1..].chars().next();
        self.at += 1;
        match next {
            Some('\n') => self.at += 1,
            Some(c) if double && !matches!(c, '$' | '`' | '"' | '\\') => self.text.push('\\'),
            Some(c) => self.take(c),
            None => self.text.push('\\'),
        }
    }

    /// Reads an expansion that begins with a dollar sign.
    fn dollar(&mut self, double: bool) {
        let after = &self.rest()[1..];
        let Some(next) = after.chars().next() else {
            return self.take('$');
        };
        match next {
            '(' => self.substitution(),
            '{' => self.parameter(double),
            '\'' if !double => {
                let end = after[1..].find('\'').map_or(after.len(), |end| end + 2);
                self.expands = true;
                self.at += 1 + end;
            }
            '"' if !double => {
                self.expands = true;
                self.at += 1;
                // The shell expands the translation again, and a variable sets where translations are found.
                self.parts
                    .unknown
                    .push("`$\"…\"` is translated, and a translation may run a command");
            }
            c if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len()).max(1);
                self.at += 1 + end;
                self.variable(&after[..end], double);
            }
            _ => self.take('$'),
        }
    }

    /// `$(…)`, or `$((…))`.
    fn substitution(&mut self) {
        self.expands = true;
        let inner = &self.rest()[2..];
        let length = closing(inner, b'(', b')');
        let text = &inner[..length];
        self.end(length);
        if !text.starts_with('(') {
            return self.parts.runs.push(text);
        }
        // Variables hold expressions, and those may hold commands: only numbers are sure to be harmless.
        let is_number = |c: char| c.is_ascii_digit() || " \t+-*/%<>=!&|?:,^~()".contains(c);
        if !text.chars().all(is_number) || !text.ends_with(')') {
            self.parts
                .unknown
                .push("arithmetic may run a command that a variable holds");
        }
    }

    /// Continues after a substitution of this length.
    fn end(&mut self, length: usize) {
        self.at += 2 + length + 1;
        if self.at > self.raw.len() {
            self.at = self.raw.len();
            self.parts
                .unknown
                .push("a substitution in it is not closed");
        }
    }

    /// Adds the value of a variable.
    fn variable(&mut self, name: &str, double: bool) {
        let quoted = double || self.context == QuoteContext::Value;
        match self.variables.get(name) {
            Some(ShellWord::Known(text)) if quoted || is_plain(text) => self.text.push_str(text),
            _ => self.expands = true,
        }
    }

    /// `${…}`
    fn parameter(&mut self, double: bool) {
        let inner = &self.rest()[2..];
        let length = closing(inner, b'{', b'}');
        let text = &inner[..length];
        self.end(length);
        if self.variables.get(text).is_some() {
            return self.variable(text, double);
        }
        self.expands = true;
        let name = text.strip_prefix('#').unwrap_or(text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, rest) = name.split_at(name.find(|c| !is_name(c)).unwrap_or(name.len()));
        let plain = match rest.as_bytes() {
            [] => true,
            [b':', b'-' | b'+' | b'?', ..]
            | [b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',', ..] => true,
            [b':', slice @ ..] => slice
                .iter()
                .all(|byte| byte.is_ascii_digit() || b" :-".contains(byte)),
            _ => false,
        };
        if name.is_empty() || !plain {
            self.parts
                .unknown
                .push("this kind of `${…}` may set a variable or run a command that one holds");
        }
        let inner = read_word(rest, QuoteContext::Value, self.variables);
        self.parts.runs.extend(inner.runs);
        self.parts.unknown.extend(inner.unknown);
    }
}

/// Returns the distance to the character that closes a substitution that has just begun.
fn closing(text: &str, open: u8, close: u8) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at, mut double) = (0usize, 0, false);
    // The enclosing substitutions: whether each is in double quotes, and the byte that closes it.
    let mut outer: Vec<(bool, u8)> = vec![];
    while let Some(&byte) = bytes.get(at) {
        let quoted = double;
        match byte {
            b'\\' => at += 1,
            b'\'' if !quoted => {
                at += bytes[at + 1..]
                    .iter()
                    .position(|byte| *byte == b'\'')
                    .map_or(0, |end| end + 1)
            }
            b'"' => double = !double,
            b'`' => {
                at += bytes[at + 1..]
                    .iter()
                    .position(|byte| *byte == b'`')
                    .map_or(0, |end| end + 1)
            }
            b'$' if bytes.get(at + 1) == Some(&b'$') => at += 1,
            b'$' if matches!(bytes.get(at + 1), Some(b'(' | b'{')) => {
                let ends = if bytes[at + 1] == b'(' { b')' } else { b'}' };
                outer.push((double, ends));
                double = false;
                at += 1;
            }
            byte if !quoted && outer.last().is_some_and(|(_, ends)| *ends == byte) => {
                double = outer.pop().is_some_and(|(double, _)| double);
            }
            byte if !quoted && outer.is_empty() && byte == close => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
            }
            b'(' if !quoted && outer.last().is_some_and(|(_, ends)| *ends == b')') => {
                outer.push((false, b')'))
            }
            byte if !quoted && outer.is_empty() && byte == open && open == b'(' => depth += 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
