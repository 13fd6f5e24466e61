//! Parser of the type declarations at the top level of a Go file.

use std::collections::BTreeMap;

use super::comment_text::comment_text;
use super::go_scanner::{GoScanner, GoToken, GoTokenKind};
use super::{DocBudget, GoTypeDocs};

/// Returns the documentation of the types that a source declares. Of declarations that Go does not accept, the
/// compiler reports the fault.
pub(super) fn parse_types(source: &str, budget: &mut DocBudget) -> BTreeMap<String, GoTypeDocs> {
    let mut parser = TypeParser::new(source, budget);
    parser.parse_file();
    parser.types
}

struct TypeParser<'a, 'b> {
    scanner: GoScanner<'a>,
    budget: &'b mut DocBudget,
    token: GoToken<'a>,
    /// True if the current token begins a statement: it is on a new line, after a token that can end a statement.
    is_statement_start: bool,
    /// Comments that end on the line above the current token.
    lead: Vec<&'a str>,
    /// Comments between the previous token and the end of its line.
    trailing: Vec<&'a str>,
    types: BTreeMap<String, GoTypeDocs>,
}

impl<'a, 'b> TypeParser<'a, 'b> {
    fn new(source: &'a str, budget: &'b mut DocBudget) -> Self {
        let start = GoToken {
            kind: GoTokenKind::Sign(';'),
            line: 0,
            end_line: 0,
        };
        let mut parser = Self {
            scanner: GoScanner::new(source),
            budget,
            token: start,
            is_statement_start: true,
            lead: Vec::new(),
            trailing: Vec::new(),
            types: BTreeMap::new(),
        };
        parser.advance();
        parser
    }

    /// Goes to the next token that is not a comment.
    fn advance(&mut self) {
        let previous = self.token;
        self.lead.clear();
        self.trailing.clear();
        let mut lead_end = 0;
        self.token = self.scanner.next_token();
        while let GoTokenKind::Comment(text) = self.token.kind {
            if self.token.line == previous.end_line {
                self.trailing.push(text);
            } else {
                if self.token.line > lead_end + 1 {
                    self.lead.clear();
                }
                self.lead.push(text);
                lead_end = self.token.end_line;
            }
            self.token = self.scanner.next_token();
        }
        if lead_end + 1 != self.token.line {
            self.lead.clear();
        }
        self.is_statement_start = self.token.line > previous.end_line
            && match previous.kind {
                GoTokenKind::Sign(sign) => matches!(sign, ')' | ']' | '}' | ';'),
                _ => true,
            };
    }

    fn is_sign(&self, sign: char) -> bool {
        self.token.kind == GoTokenKind::Sign(sign)
    }

    fn is_end(&self) -> bool {
        self.token.kind == GoTokenKind::End
    }

    fn parse_file(&mut self) {
        while !self.is_end() {
            match self.token.kind {
                GoTokenKind::Word("type") => self.parse_declaration(),
                // Bodies of functions, and groups of other declarations.
                GoTokenKind::Sign('(' | '[' | '{') => self.skip_brackets(),
                _ => self.advance(),
            }
        }
    }

    /// Parses `type NAME …` and `type ( … )`.
    fn parse_declaration(&mut self) {
        let doc = comment_text(&self.lead);
        self.advance();
        if !self.is_sign('(') {
            self.parse_type(&doc);
            return;
        }
        self.advance();
        while !self.is_end() && !self.is_sign(')') {
            let own_doc = comment_text(&self.lead);
            // The comment of the group describes the types without comments of their own.
            self.parse_type(if own_doc.is_empty() { &doc } else { &own_doc });
        }
        self.advance();
    }

    /// Parses `NAME TYPE`, to the end of the statement. Moves by one token at least.
    fn parse_type(&mut self, doc: &str) {
        let Some(name) = self.take_word() else {
            if !self.is_sign(')') {
                self.skip_token();
            }
            return;
        };
        let mut docs = GoTypeDocs::default();
        if self.budget.take(name, doc) {
            docs.doc = doc.to_owned();
        }
        if self.is_sign('[') {
            // Type parameters.
            self.skip_brackets();
        }
        if self.is_sign('=') {
            self.advance();
        }
        if self.token.kind == GoTokenKind::Word("struct") {
            self.advance();
            if self.is_sign('{') {
                self.parse_fields(&mut docs);
            }
        } else {
            docs.inherits.extend(self.parse_type_name());
        }
        while !self.is_end() && !self.is_sign(')') {
            if self.is_sign(';') {
                self.advance();
                break;
            }
            if self.is_statement_start {
                break;
            }
            self.skip_token();
        }
        self.types.entry(name.to_owned()).or_insert(docs);
    }

    fn take_word(&mut self) -> Option<&'a str> {
        match self.token.kind {
            GoTokenKind::Word(word) => {
                self.advance();
                Some(word)
            }
            _ => None,
        }
    }

    /// Parses `NAME` or `package.NAME`. Returns the name.
    fn parse_type_name(&mut self) -> Option<String> {
        let mut name = self.take_word()?;
        while self.is_sign('.') {
            self.advance();
            name = self.take_word()?;
        }
        Some(name.to_owned())
    }

    /// Parses the fields of a struct, from its `{` to after its `}`.
    fn parse_fields(&mut self, docs: &mut GoTypeDocs) {
        self.advance();
        while !self.is_end() && !self.is_sign('}') {
            if self.is_sign(';') {
                self.advance();
            } else {
                self.parse_field(docs);
            }
        }
        self.advance();
    }

    /// Parses one line of fields, to the end of the statement. Moves by one token at least.
    fn parse_field(&mut self, docs: &mut GoTypeDocs) {
        let lead = comment_text(&self.lead);
        let mut tokens = Vec::new();
        loop {
            // Literals are tags.
            if self.token.kind != GoTokenKind::Literal {
                tokens.push(self.token.kind);
            }
            self.skip_token();
            let is_last = self.is_statement_start || self.is_sign(';') || self.is_sign('}');
            if is_last || self.is_end() {
                break;
            }
        }
        let doc = if lead.is_empty() {
            comment_text(&self.trailing)
        } else {
            lead
        };
        let names = field_names(&tokens);
        if names.is_embedded {
            docs.inherits
                .extend(names.names.iter().map(|name| (*name).to_owned()));
        }
        if doc.is_empty() {
            return;
        }
        for name in names.names {
            if self.budget.take(name, &doc) {
                docs.fields
                    .entry(name.to_owned())
                    .or_insert_with(|| doc.clone());
            }
        }
    }

    /// Skips a token, or everything in brackets.
    fn skip_token(&mut self) {
        match self.token.kind {
            GoTokenKind::Sign('(' | '[' | '{') => self.skip_brackets(),
            _ => self.advance(),
        }
    }

    /// Skips brackets and what they enclose. The kinds of brackets are not compared.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while !self.is_end() {
            match self.token.kind {
                GoTokenKind::Sign('(' | '[' | '{') => depth += 1,
                GoTokenKind::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
            if depth == 0 {
                return;
            }
        }
    }
}

/// Names that a line of fields declares.
struct FieldNames<'a> {
    names: Vec<&'a str>,
    is_embedded: bool,
}

/// Returns the names of `A, B TYPE` or of an embedded type: `A`, `*A`, `package.A`, `A[TYPE]`. `tokens` has one sign for
/// brackets and what they enclose.
fn field_names<'a>(tokens: &[GoTokenKind<'a>]) -> FieldNames<'a> {
    let word = |token: &GoTokenKind<'a>| match token {
        GoTokenKind::Word(word) => Some(*word),
        _ => None,
    };
    let mut names = Vec::new();
    let mut rest = tokens;
    while let [first, others @ ..] = rest
        && let Some(name) = word(first)
    {
        names.push(name);
        rest = others;
        match rest {
            [GoTokenKind::Sign(','), others @ ..] => rest = others,
            _ => break,
        }
    }
    let is_embedded = match rest {
        [] | [GoTokenKind::Sign('[')] => names.len() == 1,
        [GoTokenKind::Sign('.'), ..] => true,
        [GoTokenKind::Sign('*'), ..] => names.is_empty(),
        _ => false,
    };
    if is_embedded {
        names = tokens
            .iter()
            .filter_map(word)
            .next_back()
            .into_iter()
            .collect();
    }
    FieldNames { names, is_embedded }
}
