//! Finds the definitions in source code: functions, types, constants and their like, with the types that contain them.
//!
//! `keywords` is for languages in which a keyword begins a definition, `statements` for those in which its form tells
//! what it is, and `lines` for those in which lines and their indentation count. None of them validates code.

mod keywords;
mod lines;
mod members;
mod statements;

use crate::language::SourceLanguage;
use crate::lexer::{CodeToken, TokenKind, tokenize};

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// A class.
    Class,
    /// A constant.
    Constant,
    /// An enumeration.
    Enum,
    /// A function outside of a type.
    Function,
    /// An interface or a protocol.
    Interface,
    /// A macro.
    Macro,
    /// A function of a type.
    Method,
    /// A module, a package or a namespace.
    Module,
    /// A property.
    Property,
    /// A structure, a record or a union.
    Struct,
    /// A trait.
    Trait,
    /// A name for another type.
    Type,
    /// A variable outside of functions.
    Variable,
}

/// All kinds, in the order of their codes in a stored index. New ones are appended.
pub const SYMBOL_KINDS: [SymbolKind; 13] = [
    SymbolKind::Class,
    SymbolKind::Constant,
    SymbolKind::Enum,
    SymbolKind::Function,
    SymbolKind::Interface,
    SymbolKind::Macro,
    SymbolKind::Method,
    SymbolKind::Module,
    SymbolKind::Property,
    SymbolKind::Struct,
    SymbolKind::Trait,
    SymbolKind::Type,
    SymbolKind::Variable,
];

impl SymbolKind {
    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Constant => "constant",
            Self::Enum => "enum",
            Self::Function => "function",
            Self::Interface => "interface",
            Self::Macro => "macro",
            Self::Method => "method",
            Self::Module => "module",
            Self::Property => "property",
            Self::Struct => "struct",
            Self::Trait => "trait",
            Self::Type => "type",
            Self::Variable => "variable",
        }
    }

    /// Returns true if a search for `wanted` finds this kind: a search for functions finds methods, one for types finds
    /// all kinds of types, and one for classes or interfaces what other languages have instead.
    pub fn is_a(self, wanted: Self) -> bool {
        use SymbolKind as Kind;
        match wanted {
            Kind::Function => matches!(self, Kind::Function | Kind::Method),
            Kind::Class | Kind::Struct => matches!(self, Kind::Class | Kind::Struct),
            Kind::Interface | Kind::Trait => matches!(self, Kind::Interface | Kind::Trait),
            Kind::Type => self.is_type(),
            Kind::Variable => {
                matches!(self, Kind::Variable | Kind::Constant | Kind::Property)
            }
            wanted => self == wanted,
        }
    }

    /// Returns true for all kinds of types.
    pub fn is_type(self) -> bool {
        matches!(
            self,
            Self::Class | Self::Enum | Self::Interface | Self::Struct | Self::Trait | Self::Type
        )
    }
}

/// A definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundDefinition<'t> {
    pub(crate) name: &'t str,
    pub(crate) kind: SymbolKind,
    /// The line of the name, from 1.
    pub(crate) line: u32,
    /// The type or module that contains it.
    pub(crate) container: Option<&'t str>,
}

/// Maximum number of definitions in a file. More are only in generated code.
pub(crate) const MAX_DEFINITIONS: usize = 20_000;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 200;

/// Finds the definitions in a file, in the order of their lines.
pub(crate) fn find_definitions(text: &str, language: SourceLanguage) -> Vec<FoundDefinition<'_>> {
    let language = language.by_content(text);
    let tokens = tokenize(text, language);
    let mut parser = DefinitionParser {
        text,
        language,
        tokens: &tokens,
        scopes: Vec::new(),
        pending: None,
        brackets: 0,
        go_group: None,
        definitions: Vec::new(),
    };
    match language {
        SourceLanguage::C | SourceLanguage::Cpp | SourceLanguage::CSharp | SourceLanguage::Java => {
            statements::parse(&mut parser);
        }
        SourceLanguage::Python | SourceLanguage::Ruby | SourceLanguage::Shell => {
            lines::parse(&mut parser);
        }
        _ => keywords::parse(&mut parser),
    }
    let mut definitions = parser.definitions;
    definitions.sort_by_key(|definition| definition.line);
    definitions
}

/// The kind of a region of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeKind {
    /// A module.
    Module,
    /// The members of a type.
    Type,
    /// The body of a function.
    Function,
    /// Anything else between braces.
    Block,
}

/// A region of code between braces.
#[derive(Debug, Clone, Copy)]
struct CodeScope<'t> {
    kind: ScopeKind,
    /// The name of the innermost scope that has one: this scope, or one around it.
    name: Option<&'t str>,
    /// The number of open brackets at its beginning, which its end restores.
    brackets: u32,
    /// True in a function, and in anything in a function.
    in_function: bool,
}

struct DefinitionParser<'t, 'k> {
    text: &'t str,
    language: SourceLanguage,
    tokens: &'k [CodeToken],
    scopes: Vec<CodeScope<'t>>,
    /// The scope that the next brace opens, if it follows as many open brackets.
    pending: Option<CodeScope<'t>>,
    /// Open parentheses and square brackets in the current scope.
    brackets: u32,
    /// In Go, the keyword of the group between parentheses that began last.
    go_group: Option<&'t str>,
    definitions: Vec<FoundDefinition<'t>>,
}

impl<'t> DefinitionParser<'t, '_> {
    fn word(&self, at: usize) -> Option<&'t str> {
        let token = self.tokens.get(at)?;
        (token.kind == TokenKind::Word).then(|| self.slice(token))
    }

    fn slice(&self, token: &CodeToken) -> &'t str {
        let range = token.start as usize..token.end as usize;
        self.text.get(range).unwrap_or_default()
    }

    /// Returns a word that can be the name of a definition.
    fn name(&self, at: usize) -> Option<&'t str> {
        self.word(at)
            .filter(|word| word.len() <= MAX_NAME)
            .filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()))
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.word(at) == Some(word)
    }

    fn mark(&self, at: usize) -> Option<u8> {
        match self.tokens.get(at)?.kind {
            TokenKind::Mark(mark) => Some(mark),
            _ => None,
        }
    }

    fn mark_before(&self, at: usize) -> Option<u8> {
        self.mark(at.checked_sub(1)?)
    }

    fn word_before(&self, at: usize) -> Option<&'t str> {
        self.word(at.checked_sub(1)?)
    }

    fn begins_line(&self, at: usize) -> bool {
        self.tokens.get(at).is_none_or(|token| token.begins_line)
    }

    fn scope_kind(&self) -> ScopeKind {
        self.scopes
            .last()
            .map_or(ScopeKind::Module, |scope| scope.kind)
    }

    fn in_function(&self) -> bool {
        self.scopes.last().is_some_and(|scope| scope.in_function)
    }

    /// Returns the name of the innermost scope that has one.
    fn container(&self) -> Option<&'t str> {
        self.scopes.last().and_then(|scope| scope.name)
    }

    fn define(&mut self, name_at: usize, kind: SymbolKind) {
        let container = self.container();
        self.define_in(name_at, kind, container);
    }

    fn define_in(&mut self, name_at: usize, kind: SymbolKind, container: Option<&'t str>) {
        if let (Some(name), Some(token)) = (self.name(name_at), self.tokens.get(name_at)) {
            self.add_definition(token, name, kind, container);
        }
    }

    fn add_definition(
        &mut self,
        token: &CodeToken,
        name: &'t str,
        kind: SymbolKind,
        container: Option<&'t str>,
    ) {
        if self.definitions.len() < MAX_DEFINITIONS && name.len() <= MAX_NAME {
            self.definitions.push(FoundDefinition {
                name,
                kind,
                line: token.line,
                container: container.filter(|name| name.len() <= MAX_NAME),
            });
        }
    }

    /// Expects the scope of a definition.
    fn expect_scope(&mut self, kind: ScopeKind, name: Option<&'t str>) {
        self.pending = Some(CodeScope {
            kind,
            name: name.or(self.container()),
            brackets: self.brackets,
            in_function: self.in_function() || kind == ScopeKind::Function,
        });
    }

    fn open_brace(&mut self) {
        let matching = self
            .pending
            .take_if(|pending| pending.brackets == self.brackets);
        let scope = matching.unwrap_or(CodeScope {
            kind: ScopeKind::Block,
            name: self.container(),
            brackets: self.brackets,
            in_function: self.in_function(),
        });
        self.scopes.push(scope);
        self.brackets = 0;
    }

    fn close_brace(&mut self) {
        self.pending = None;
        if let Some(scope) = self.scopes.pop() {
            self.brackets = scope.brackets;
        }
    }

    fn end_statement(&mut self) {
        let brackets = self.brackets;
        self.pending.take_if(|pending| pending.brackets == brackets);
    }

    /// Returns the position after the group that begins at `at` with this opening mark. A group ends at the end of a
    /// statement at the latest, because `<` may be an operator.
    fn after_group(&self, at: usize, open: u8, close: u8) -> usize {
        /// Maximum number of tokens of a group, so that a file of opening marks takes linear time.
        const MAX_GROUP: usize = 1_000;
        const MAX_ANGLE_GROUP: usize = 200;
        let limit = if open == b'<' {
            MAX_ANGLE_GROUP
        } else {
            MAX_GROUP
        };
        let limit = self.tokens.len().min(at + limit);
        let mut depth = 0_u32;
        for next in at..limit {
            match self.mark(next) {
                Some(mark) if mark == open => depth += 1,
                Some(mark) if mark == close => {
                    // The end of an arrow is not a bracket.
                    let is_arrow =
                        close == b'>' && matches!(self.mark_before(next), Some(b'-' | b'='));
                    if !is_arrow {
                        depth = depth.saturating_sub(1);
                    }
                    if depth == 0 {
                        return next + 1;
                    }
                }
                Some(b';' | b'{') if open == b'<' => return next,
                _ => {}
            }
        }
        limit
    }
}

#[cfg(test)]
mod tests;
