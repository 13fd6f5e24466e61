//! Definitions of Python, Ruby and shell scripts, by lines and their indentation.

use super::{DefinitionParser, SymbolKind};
use crate::language::SourceLanguage;
use crate::lexer::TokenKind;

/// A class, module or function, up to a line with the same or less indentation.
struct IndentedScope<'t> {
    indent: usize,
    name: &'t str,
    is_type: bool,
    is_function: bool,
}

pub(super) fn parse(parser: &mut DefinitionParser<'_, '_>) {
    let mut scopes = Vec::new();
    for at in 0..parser.tokens.len() {
        match parser.tokens[at].kind {
            TokenKind::Mark(b'(' | b'[' | b'{') => parser.brackets += 1,
            TokenKind::Mark(b')' | b']' | b'}') => {
                parser.brackets = parser.brackets.saturating_sub(1);
            }
            TokenKind::Word => match parser.language {
                SourceLanguage::Python => declare_python(parser, &mut scopes, at),
                SourceLanguage::Ruby => declare_ruby(parser, &mut scopes, at),
                _ => declare_shell(parser, at),
            },
            _ => {}
        }
    }
}

/// Returns the number of bytes before a token on its line.
fn indent(parser: &DefinitionParser<'_, '_>, at: usize) -> usize {
    let start = parser.tokens[at].start as usize;
    let before = &parser.text.as_bytes()[..start];
    let spaces = before.iter().rev().take(400);
    spaces
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count()
}

fn leave_scopes(scopes: &mut Vec<IndentedScope<'_>>, indent: usize) {
    while scopes.last().is_some_and(|scope| scope.indent >= indent) {
        scopes.pop();
    }
}

fn declare_python<'t>(
    parser: &mut DefinitionParser<'t, '_>,
    scopes: &mut Vec<IndentedScope<'t>>,
    at: usize,
) {
    if !parser.begins_line(at) || parser.brackets > 0 {
        return;
    }
    let word = parser.word(at);
    let keyword_at = match word {
        Some("async") => at + 1,
        _ => at,
    };
    let keyword = parser.word(keyword_at);
    let column = indent(parser, at);
    if !matches!(keyword, Some("def" | "class")) {
        let is_plain = parser.mark(at + 1) == Some(b'=') && parser.mark(at + 2) != Some(b'=');
        let is_typed = parser.mark(at + 1) == Some(b':') && parser.name(at + 2).is_some();
        if is_plain || is_typed && !is_keyword(word) {
            leave_scopes(scopes, column);
            let container = scopes.last();
            if container.is_some_and(|scope| scope.is_function) || is_continued(parser, at) {
                return;
            }
            // A statement in a block is not indented as a member of the class or module.
            let is_constant = word.is_some_and(|word| {
                word.len() > 1 && !word.bytes().any(|byte| byte.is_ascii_lowercase())
            });
            let kind = if is_constant {
                SymbolKind::Constant
            } else {
                SymbolKind::Variable
            };
            let container = container.map(|scope| scope.name);
            parser.define_in(at, kind, container);
        }
        return;
    }
    let name_at = keyword_at + 1;
    let Some(name) = parser.name(name_at) else {
        return;
    };
    leave_scopes(scopes, column);
    let is_type = keyword == Some("class");
    let container = scopes.last();
    let kind = match container {
        _ if is_type => SymbolKind::Class,
        Some(scope) if scope.is_type => SymbolKind::Method,
        _ => SymbolKind::Function,
    };
    let container = container.map(|scope| scope.name);
    parser.define_in(name_at, kind, container);
    scopes.push(IndentedScope {
        indent: column,
        name,
        is_type,
        is_function: !is_type,
    });
}

/// Returns true for keywords of Python that a colon may follow.
fn is_keyword(word: Option<&str>) -> bool {
    matches!(
        word,
        Some("else" | "try" | "finally" | "lambda" | "except" | "match" | "case")
    )
}

/// Returns true if the line of a token continues the line before.
fn is_continued(parser: &DefinitionParser<'_, '_>, at: usize) -> bool {
    parser.mark_before(at) == Some(b'\\')
}

fn declare_ruby<'t>(
    parser: &mut DefinitionParser<'t, '_>,
    scopes: &mut Vec<IndentedScope<'t>>,
    at: usize,
) {
    let Some(word) = parser.word(at) else { return };
    match word {
        "def" if parser.mark_before(at) != Some(b'.') => {
            let mut name_at = at + 1;
            let mut owner = None;
            if parser.mark(name_at + 1) == Some(b'.') {
                owner = parser.word(name_at).filter(|name| *name != "self");
                name_at += 2;
            }
            let mut first = at;
            // Only a modifier such as `private` may precede it.
            while first > 0 && !parser.begins_line(first) && at - first < 4 {
                first -= 1;
            }
            leave_scopes(scopes, indent(parser, first));
            let scope = scopes.last();
            let kind = match scope {
                Some(_) => SymbolKind::Method,
                None => SymbolKind::Function,
            };
            let container = owner.or(scope.map(|scope| scope.name));
            if parser
                .tokens
                .get(name_at)
                .is_some_and(|token| token.line == parser.tokens[at].line)
            {
                parser.define_in(name_at, kind, container);
            }
        }
        "class" | "module" if parser.begins_line(at) => {
            let mut name_at = at + 1;
            while parser.mark(name_at + 1) == Some(b':')
                && parser.mark(name_at + 2) == Some(b':')
                && parser.name(name_at + 3).is_some()
            {
                name_at += 3;
            }
            let column = indent(parser, at);
            leave_scopes(scopes, column);
            let Some(name) = parser
                .name(name_at)
                .filter(|name| name.starts_with(char::is_uppercase))
            else {
                return;
            };
            let kind = match word {
                "class" => SymbolKind::Class,
                _ => SymbolKind::Module,
            };
            let container = scopes.last().map(|scope| scope.name);
            parser.define_in(name_at, kind, container);
            scopes.push(IndentedScope {
                indent: column,
                name,
                is_type: true,
                is_function: false,
            });
        }
        _ if parser.begins_line(at)
            && parser.brackets == 0
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && parser.mark(at + 1) == Some(b'=')
            && !matches!(parser.mark(at + 2), Some(b'=' | b'~' | b'>')) =>
        {
            leave_scopes(scopes, indent(parser, at));
            let container = scopes.last().map(|scope| scope.name);
            parser.define_in(at, SymbolKind::Constant, container);
        }
        _ => {}
    }
}

fn declare_shell(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let before = at.checked_sub(1);
    let begins_command = parser.begins_line(at)
        || matches!(parser.mark_before(at), Some(b';' | b'{' | b'}'))
        || before.is_some_and(|before| parser.is_word(before, "then"));
    if !begins_command {
        return;
    }
    if parser.is_word(at, "function") {
        parser.define(at + 1, SymbolKind::Function);
    } else if parser.mark(at + 1) == Some(b'(') && parser.mark(at + 2) == Some(b')') {
        parser.define(at, SymbolKind::Function);
    }
}
