//! Splits source code into names and punctuation. Strings and comments are skipped, so that words in them are not taken
//! for code.
//!
//! The result is exact for valid code. Invalid code may lose definitions, but takes linear time and bounded memory.

use crate::language::{Backtick, LexicalRules, SingleQuote, SourceLanguage};

/// Maximum depth of expressions in strings in expressions.
const MAX_NESTED_STRINGS: u32 = 8;

/// Maximum length of a regular expression in bytes, so that a line of slashes takes linear time.
const MAX_REGEX: usize = 500;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name, a keyword or a number.
    Word,
    /// An ASCII character that is neither.
    Mark(u8),
    /// A string.
    Text,
    /// A macro that the preprocessor defines. The token is its name.
    MacroName,
    /// The beginning of alternative code for the preprocessor.
    IfBranch,
    /// The next alternative.
    ElseBranch,
    /// The end of the alternatives.
    EndBranch,
}

/// A token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeToken {
    pub(crate) kind: TokenKind,
    /// The range of bytes.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The line, from 1.
    pub(crate) line: u32,
    /// True for the first token of a line.
    pub(crate) begins_line: bool,
}

/// Splits a text into tokens. The text must be shorter than 4 GiB.
pub(crate) fn tokenize(text: &str, language: SourceLanguage) -> Vec<CodeToken> {
    let mut lexer = CodeLexer {
        bytes: text.as_bytes(),
        language,
        rules: language.lexical_rules(),
        at: 0,
        line: 1,
        begins_line: true,
        tokens: Vec::with_capacity(text.len() / 6),
        templates: Vec::new(),
        heredocs: Vec::new(),
    };
    lexer.run();
    lexer.tokens
}

struct CodeLexer<'t> {
    bytes: &'t [u8],
    language: SourceLanguage,
    rules: LexicalRules,
    at: usize,
    line: u32,
    begins_line: bool,
    tokens: Vec<CodeToken>,
    /// For each open template, the number of open braces in its current expression.
    templates: Vec<u32>,
    /// The last lines of the heredocs that begin on the next line.
    heredocs: Vec<&'t [u8]>,
}

impl<'t> CodeLexer<'t> {
    fn run(&mut self) {
        if self.language == SourceLanguage::Php {
            self.skip_to_php();
        }
        if self.starts_with("#!") {
            self.skip_line();
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => self.end_line(),
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ if self.skip_comment(byte) => {}
                b'#' if self.begins_line
                    && matches!(
                        self.language,
                        SourceLanguage::C | SourceLanguage::Cpp | SourceLanguage::CSharp
                    ) =>
                {
                    self.read_directive();
                }
                b'"' | b'\'' | b'`' => self.read_quote(byte),
                b'/' if self.rules.regex_literals && self.may_begin_regex() => {
                    if !self.read_regex() {
                        self.push_mark(byte);
                    }
                }
                b'<' if self.begins_heredoc() => {}
                b'?' if self.language == SourceLanguage::Php && self.starts_with("?>") => {
                    self.skip_to_php();
                }
                b'%' if self.language == SourceLanguage::Ruby && self.skip_percent_literal() => {}
                _ if self.is_name_byte(byte) => self.read_word(),
                _ => self.read_mark(byte),
            }
        }
    }

    fn starts_with(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    fn is_name_byte(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || byte == b'_'
            || byte >= 0x80
            || byte == b'$' && self.rules.dollar_names
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "texts are shorter than 4 GiB"
        )]
        self.tokens.push(CodeToken {
            kind,
            start: start as u32,
            end: end as u32,
            line: self.line,
            begins_line: self.begins_line,
        });
        self.begins_line = false;
    }

    fn push_mark(&mut self, byte: u8) {
        self.push(TokenKind::Mark(byte), self.at, self.at + 1);
        self.at += 1;
    }

    fn end_line(&mut self) {
        self.at += 1;
        self.line += 1;
        self.begins_line = true;
        for end in std::mem::take(&mut self.heredocs) {
            self.skip_heredoc(end);
        }
    }

    /// Moves to `end`, and counts the lines on the way.
    fn move_to(&mut self, end: usize) {
        let end = end.min(self.bytes.len());
        let lines = memchr::memchr_iter(b'\n', &self.bytes[self.at..end]).count();
        self.line += u32::try_from(lines).unwrap_or(0);
        self.at = end;
    }

    /// Moves to the end of the line, before its line feed.
    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn skip_comment(&mut self, byte: u8) -> bool {
        if byte == b'/' && self.rules.block_comments && self.starts_with("/*") {
            self.skip_block_comment();
            return true;
        }
        if self.language == SourceLanguage::Ruby && self.begins_line && byte == b'=' {
            return self.skip_ruby_block();
        }
        let begins = |text: &&str| self.starts_with(text);
        let Some(comment) = self.rules.line_comments.iter().find(|text| begins(text)) else {
            return false;
        };
        if *comment == "#" {
            let before = self.at.checked_sub(1).map(|at| self.bytes[at]);
            let is_apart =
                before.is_none_or(|byte| byte.is_ascii_whitespace() || b";&|()".contains(&byte));
            if self.language == SourceLanguage::Shell && !is_apart {
                return false;
            }
            // An attribute.
            if self.language == SourceLanguage::Php && self.starts_with("#[") {
                return false;
            }
        }
        self.skip_line();
        true
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 1_u32;
        let mut at = self.at + 2;
        while depth > 0 {
            let Some(found) = memchr::memchr2(b'*', b'/', &self.bytes[at.min(self.bytes.len())..])
            else {
                at = self.bytes.len();
                break;
            };
            at += found;
            match &self.bytes[at..] {
                [b'*', b'/', ..] => {
                    depth -= 1;
                    at += 2;
                }
                [b'/', b'*', ..] if self.rules.nested_comments => {
                    depth += 1;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        self.move_to(at);
    }

    /// Skips a comment of Ruby between `=begin` and `=end`.
    fn skip_ruby_block(&mut self) -> bool {
        if !self.starts_with("=begin") {
            return false;
        }
        let end = memchr::memmem::find(&self.bytes[self.at..], b"\n=end");
        self.move_to(end.map_or(self.bytes.len(), |end| self.at + end + 1));
        self.skip_line();
        true
    }

    /// Reads a directive of the preprocessor, with its continued lines.
    fn read_directive(&mut self) {
        let start = self.at;
        let mut end = start;
        loop {
            let rest = &self.bytes[end..];
            let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
            end += line.len();
            let is_continued = line.trim_ascii_end().ends_with(b"\\") && !line.ends_with(b" ");
            if !is_continued || end >= self.bytes.len() {
                break;
            }
            end += 1;
        }
        let name_end = |from: usize| {
            let length = self.bytes[from..end]
                .iter()
                .take_while(|byte| self.is_name_byte(**byte))
                .count();
            from + length
        };
        let skip_spaces = |from: usize| {
            let length = self.bytes[from..end]
                .iter()
                .take_while(|byte| matches!(byte, b' ' | b'\t'))
                .count();
            from + length
        };
        let word = skip_spaces(start + 1);
        let word_end = name_end(word);
        match &self.bytes[word..word_end] {
            b"define" => {
                let name = skip_spaces(word_end);
                let name_end = name_end(name);
                if name_end > name && self.language != SourceLanguage::CSharp {
                    self.push(TokenKind::MacroName, name, name_end);
                }
            }
            b"if" | b"ifdef" | b"ifndef" => self.push(TokenKind::IfBranch, start, word_end),
            b"else" | b"elif" | b"elifdef" | b"elifndef" => {
                self.push(TokenKind::ElseBranch, start, word_end);
            }
            b"endif" => self.push(TokenKind::EndBranch, start, word_end),
            _ => {}
        }
        self.move_to(end);
    }

    fn read_quote(&mut self, quote: u8) {
        let start = self.at;
        match quote {
            b'\'' if self.rules.single_quote == SingleQuote::CharacterOrLifetime => {
                match self.character_end() {
                    Some(end) => self.at = end,
                    // A lifetime: its name is not a word.
                    None => {
                        self.at += 1;
                        while self.at < self.bytes.len() && self.is_name_byte(self.bytes[self.at]) {
                            self.at += 1;
                        }
                        return;
                    }
                }
                self.push(TokenKind::Text, start, self.at);
            }
            b'`' => match self.rules.backtick {
                Backtick::Other => self.push_mark(quote),
                Backtick::Name => self.at += 1,
                Backtick::Raw => {
                    let rest = &self.bytes[start + 1..];
                    let end = memchr::memchr(b'`', rest).map_or(rest.len(), |end| end + 1);
                    self.push(TokenKind::Text, start, start + 1);
                    self.move_to(start + 1 + end);
                }
                Backtick::Template => {
                    self.push(TokenKind::Text, start, start + 1);
                    self.at += 1;
                    self.skip_template();
                }
            },
            _ => {
                self.push(TokenKind::Text, start, start + 1);
                let end = self.string_end(start, quote, 0);
                self.move_to(end);
            }
        }
    }

    /// Returns the end of a character literal of Rust. `None` for a lifetime.
    fn character_end(&self) -> Option<usize> {
        let rest = &self.bytes[self.at + 1..];
        match rest {
            [b'\\', _, rest @ ..] => {
                let length = rest.iter().take(12).position(|byte| *byte == b'\'')?;
                Some(self.at + 3 + length + 1)
            }
            [first, ..] => {
                let width = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                (rest.get(width) == Some(&b'\'')).then_some(self.at + 1 + width + 1)
            }
            [] => None,
        }
    }

    /// Returns the end of a string that begins at `start`.
    fn string_end(&self, start: usize, quote: u8, depth: u32) -> usize {
        let is_raw_csharp = self.language == SourceLanguage::CSharp
            && self.bytes[..start]
                .iter()
                .rev()
                .take(2)
                .any(|byte| *byte == b'@');
        if is_raw_csharp && quote == b'"' {
            return self.doubled_quote_end(start);
        }
        let triple = [quote; 3];
        if self.rules.triple_quotes && self.bytes[start..].starts_with(&triple) {
            let mut from = start + 3;
            while let Some(found) = memchr::memmem::find(&self.bytes[from..], &triple) {
                let end = from + found;
                let slashes = self.bytes[start..end]
                    .iter()
                    .rev()
                    .take_while(|byte| **byte == b'\\');
                let is_escaped =
                    self.language != SourceLanguage::Kotlin && slashes.count() % 2 == 1;
                if !is_escaped {
                    return end + 3;
                }
                from = end + 1;
            }
            return self.bytes.len();
        }
        let has_lines = self.rules.multiline_strings;
        // Backslashes have no meaning between single quotes of a shell.
        let has_escapes = !(self.language == SourceLanguage::Shell && quote == b'\'');
        let interpolation = self.rules.interpolation.filter(|_| quote == b'"');
        let mut at = start + 1;
        while let Some(&byte) = self.bytes.get(at) {
            if let Some(opener) = interpolation
                && self.bytes[at..].starts_with(opener.as_bytes())
                && depth < MAX_NESTED_STRINGS
            {
                at = self.expression_end(at + opener.len(), depth + 1);
                continue;
            }
            match byte {
                b'\\' if has_escapes => at += 2,
                b'\n' if !has_lines => return at,
                byte if byte == quote => return at + 1,
                _ => at += 1,
            }
        }
        self.bytes.len()
    }

    /// Returns the end of an expression in a string, after the bracket that closes it.
    fn expression_end(&self, start: usize, depth: u32) -> usize {
        let mut open = 1_u32;
        let mut at = start;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'"' => {
                    at = self.string_end(at, byte, depth);
                    continue;
                }
                b'\n' if !self.rules.multiline_strings => return at,
                b'(' | b'{' => open += 1,
                b')' | b'}' => open -= 1,
                _ => {}
            }
            at += 1;
            if open == 0 {
                return at;
            }
        }
        self.bytes.len()
    }

    /// Returns the end of a string in which a doubled quote stands for a quote.
    fn doubled_quote_end(&self, start: usize) -> usize {
        let mut at = start + 1;
        while let Some(found) = memchr::memchr(b'"', &self.bytes[at..]) {
            at += found + 1;
            if self.bytes.get(at) != Some(&b'"') {
                return at;
            }
            at += 1;
        }
        self.bytes.len()
    }

    /// Skips the text of a template, up to its end or to its next expression.
    fn skip_template(&mut self) {
        let mut at = self.at;
        while let Some(found) =
            memchr::memchr3(b'`', b'\\', b'$', &self.bytes[at.min(self.bytes.len())..])
        {
            at += found;
            match &self.bytes[at..] {
                [b'`', ..] => {
                    self.move_to(at + 1);
                    return;
                }
                [b'$', b'{', ..] => {
                    self.templates.push(0);
                    self.move_to(at + 2);
                    return;
                }
                [b'\\', ..] => at += 2,
                _ => at += 1,
            }
        }
        self.move_to(self.bytes.len());
    }

    fn read_mark(&mut self, byte: u8) {
        match (byte, self.templates.last_mut()) {
            (b'{', Some(open)) => *open += 1,
            (b'}', Some(0)) => {
                self.templates.pop();
                self.at += 1;
                self.skip_template();
                return;
            }
            (b'}', Some(open)) => *open -= 1,
            _ => {}
        }
        self.push_mark(byte);
    }

    fn read_word(&mut self) {
        let start = self.at;
        while self.at < self.bytes.len() && self.is_name_byte(self.bytes[self.at]) {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        let next = self.bytes.get(self.at).copied();
        match self.language {
            SourceLanguage::Rust if matches!(word, b"r" | b"br" | b"cr") => {
                if let Some(end) = self.raw_string_end() {
                    self.push(TokenKind::Text, start, self.at);
                    self.move_to(end);
                    return;
                }
                // A raw name: the prefix is not part of it.
                if next == Some(b'#') {
                    self.at += 1;
                    return;
                }
            }
            SourceLanguage::Cpp | SourceLanguage::C
                if next == Some(b'"') && word.ends_with(b"R") && word.len() <= 3 =>
            {
                let end = self.raw_cpp_end();
                self.push(TokenKind::Text, start, self.at);
                self.move_to(end);
                return;
            }
            SourceLanguage::Ruby
                if matches!(next, Some(b'?' | b'!'))
                    && self.bytes.get(self.at + 1) != Some(&b'=') =>
            {
                self.at += 1;
            }
            // The prefix of a string, such as `b"…"`.
            SourceLanguage::Python if matches!(next, Some(b'"' | b'\'')) && word.len() <= 2 => {
                return;
            }
            SourceLanguage::Shell => {
                while matches!(self.bytes.get(self.at), Some(b'-' | b'.' | b':'))
                    && self
                        .bytes
                        .get(self.at + 1)
                        .is_some_and(|byte| self.is_name_byte(*byte))
                {
                    self.at += 1;
                    while self.at < self.bytes.len() && self.is_name_byte(self.bytes[self.at]) {
                        self.at += 1;
                    }
                }
            }
            _ => {}
        }
        self.push(TokenKind::Word, start, self.at);
    }

    /// Returns the end of a raw string of Rust, whose marks begin at the current position.
    fn raw_string_end(&self) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            return None;
        }
        let body = self.at + hashes + 1;
        let mut closing = vec![b'"'];
        closing.resize(hashes + 1, b'#');
        let found = memchr::memmem::find(&self.bytes[body..], &closing);
        Some(found.map_or(self.bytes.len(), |found| body + found + closing.len()))
    }

    /// Returns the end of a raw string of C++, whose quote is at the current position.
    fn raw_cpp_end(&self) -> usize {
        let rest = &self.bytes[self.at + 1..];
        let Some(open) = rest.iter().take(17).position(|byte| *byte == b'(') else {
            return self.at + 1;
        };
        let closing = [b")", &rest[..open], b"\""].concat();
        let found = memchr::memmem::find(rest, &closing);
        found.map_or(self.bytes.len(), |found| {
            self.at + 1 + found + closing.len()
        })
    }

    /// Returns true if a slash at the current position begins a regular expression: where an operand is expected.
    fn may_begin_regex(&self) -> bool {
        let Some(before) = self.tokens.last() else {
            return true;
        };
        match before.kind {
            TokenKind::Word => {
                let word = &self.bytes[before.start as usize..before.end as usize];
                let is_keyword = matches!(
                    word,
                    b"return"
                        | b"typeof"
                        | b"case"
                        | b"in"
                        | b"of"
                        | b"delete"
                        | b"void"
                        | b"throw"
                        | b"new"
                        | b"else"
                        | b"do"
                        | b"yield"
                        | b"await"
                        | b"and"
                        | b"or"
                        | b"not"
                        | b"if"
                        | b"unless"
                        | b"when"
                        | b"while"
                        | b"then"
                );
                // In Ruby, a call may have no brackets: `split /,/`.
                let is_ruby_argument = self.language == SourceLanguage::Ruby
                    && self
                        .at
                        .checked_sub(1)
                        .is_some_and(|at| self.bytes[at] == b' ')
                    && self
                        .bytes
                        .get(self.at + 1)
                        .is_some_and(|byte| *byte != b' ');
                is_keyword || is_ruby_argument
            }
            TokenKind::Mark(mark) => !matches!(mark, b')' | b']' | b'}'),
            _ => false,
        }
    }

    /// Reads a regular expression. Returns false if it does not end on its line.
    fn read_regex(&mut self) -> bool {
        let mut in_class = false;
        let mut at = self.at + 1;
        let limit = self.at + MAX_REGEX;
        while let Some(&byte) = self.bytes.get(at).filter(|_| at < limit) {
            match byte {
                b'\n' => return false,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.push(TokenKind::Text, self.at, at + 1);
                    self.at = at + 1;
                    while self.bytes.get(self.at).is_some_and(u8::is_ascii_alphabetic) {
                        self.at += 1;
                    }
                    return true;
                }
                _ => {}
            }
            at += 1;
        }
        false
    }

    /// Recognizes the beginning of a heredoc, whose lines are skipped at the end of this line.
    fn begins_heredoc(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let opener: &[u8] = match self.language {
            SourceLanguage::Shell | SourceLanguage::Ruby => b"<<",
            SourceLanguage::Php => b"<<<",
            _ => return false,
        };
        let Some(mut rest) = rest.strip_prefix(opener) else {
            return false;
        };
        // `<<<` of a shell passes one string.
        if self.language == SourceLanguage::Shell && rest.starts_with(b"<") {
            self.at += 3;
            return true;
        }
        let mut length = opener.len();
        let mut skip = |rest: &mut &'t [u8], marks: &[u8]| {
            let count = rest.iter().take_while(|byte| marks.contains(byte)).count();
            *rest = &rest[count..];
            length += count;
        };
        if self.language == SourceLanguage::Ruby {
            // Without a mark, `<<` appends; only names in capitals begin a heredoc then.
            let is_marked = matches!(rest.first(), Some(b'~' | b'-'));
            let is_capital = rest.first().is_some_and(u8::is_ascii_uppercase);
            if !is_marked && !is_capital {
                return false;
            }
            skip(&mut rest, b"~-");
        } else {
            skip(&mut rest, b"- \t");
        }
        skip(&mut rest, b"\"'\\");
        let name = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
        let name = name.count();
        if name == 0 || rest[0].is_ascii_digit() {
            return false;
        }
        self.heredocs.push(&rest[..name]);
        self.at += length + name;
        if matches!(self.bytes.get(self.at), Some(b'"' | b'\'')) {
            self.at += 1;
        }
        true
    }

    /// Skips lines up to the one that consists of `end`.
    fn skip_heredoc(&mut self, end: &[u8]) {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..length].trim_ascii();
            let is_end = if self.language == SourceLanguage::Php {
                line.starts_with(end)
            } else {
                line == end
            };
            self.at = (self.at + length + 1).min(self.bytes.len());
            self.line += 1;
            if is_end {
                return;
            }
        }
    }

    /// Skips the text outside of PHP code.
    fn skip_to_php(&mut self) {
        match memchr::memmem::find(&self.bytes[self.at..], b"<?") {
            Some(found) => {
                self.move_to(self.at + found + 2);
                if self.starts_with("php") {
                    self.at += 3;
                } else if self.starts_with("=") {
                    self.at += 1;
                }
            }
            None => self.move_to(self.bytes.len()),
        }
    }

    /// Skips a literal of Ruby such as `%w[a b]`.
    fn skip_percent_literal(&mut self) -> bool {
        let rest = &self.bytes[self.at + 1..];
        let kind = usize::from(matches!(
            rest.first(),
            Some(b'w' | b'W' | b'i' | b'I' | b'q' | b'Q' | b'r')
        ));
        let closing = match rest.get(kind) {
            Some(b'[') => b']',
            Some(b'(') if kind == 1 => b')',
            Some(b'{') => b'}',
            Some(b'<') if kind == 1 => b'>',
            Some(b'|') if kind == 1 => b'|',
            _ => return false,
        };
        let body = self.at + 1 + kind + 1;
        self.push(TokenKind::Text, self.at, body);
        let found = memchr::memchr(closing, &self.bytes[body..]);
        self.move_to(found.map_or(self.bytes.len(), |found| body + found + 1));
        true
    }
}
