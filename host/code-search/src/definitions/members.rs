//! Definitions of JavaScript and TypeScript, in which methods have no keyword.

use super::keywords::{define_function, define_type};
use super::{DefinitionParser, ScopeKind, SymbolKind};
use crate::language::SourceLanguage;

/// Words that are followed by a bracket without being the name of a method.
const STATEMENTS: [&str; 14] = [
    "if", "for", "while", "switch", "catch", "return", "function", "new", "typeof", "await",
    "super", "import", "else", "do",
];

/// Words before the name of a member.
const MODIFIERS: [&str; 13] = [
    "public",
    "private",
    "protected",
    "static",
    "async",
    "readonly",
    "abstract",
    "override",
    "get",
    "set",
    "accessor",
    "declare",
    "export",
];

pub(super) fn declare_script(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    let before = parser.mark_before(at);
    if before == Some(b'.') {
        declare_assigned(parser, at);
        return;
    }
    let is_typescript = parser.language == SourceLanguage::TypeScript;
    let mut next = at + 1;
    match word {
        "function" => {
            if parser.mark(next) == Some(b'*') {
                next += 1;
            }
            if parser.name(next).is_some() && parser.mark(next) != Some(b'(') {
                define_function(parser, next);
            } else {
                expect_body(parser);
            }
            return;
        }
        "class" if before != Some(b':') => {
            let name = parser
                .name(next)
                .filter(|name| *name != "extends" && *name != "implements");
            if name.is_some() {
                define_type(parser, next, SymbolKind::Class);
            } else {
                parser.expect_scope(ScopeKind::Type, None);
            }
            return;
        }
        "interface" | "enum" | "namespace" | "module" | "type"
            if is_typescript
                && parser.name(next).is_some()
                && parser.brackets == 0
                && !parser.begins_line(next) =>
        {
            match word {
                "interface" => define_type(parser, next, SymbolKind::Interface),
                "enum" => {
                    parser.define(next, SymbolKind::Enum);
                    parser.expect_scope(ScopeKind::Block, None);
                }
                "type" => {
                    let after = match parser.mark(next + 1) {
                        Some(b'<') => parser.after_group(next + 1, b'<', b'>'),
                        _ => next + 1,
                    };
                    if parser.mark(after) == Some(b'=') {
                        parser.define(next, SymbolKind::Type);
                        parser.expect_scope(ScopeKind::Block, None);
                    }
                }
                _ => {
                    let name = parser.name(next);
                    parser.define(next, SymbolKind::Module);
                    parser.expect_scope(ScopeKind::Module, name);
                }
            }
            return;
        }
        "const" | "let" | "var" if parser.scope_kind() != ScopeKind::Type => {
            declare_variable(parser, word, next);
            return;
        }
        _ => {}
    }
    if parser.brackets == 0 {
        match parser.scope_kind() {
            ScopeKind::Type => declare_member(parser, at),
            ScopeKind::Block => declare_object_member(parser, at),
            _ => {}
        }
    }
}

/// Expects the body of a function without a name of its own, unless a definition has named it.
fn expect_body(parser: &mut DefinitionParser<'_, '_>) {
    let is_named = parser.pending.is_some_and(|pending| {
        pending.kind == ScopeKind::Function && pending.brackets == parser.brackets
    });
    if !is_named {
        parser.expect_scope(ScopeKind::Function, None);
    }
}

/// Defines a variable, or a function that is assigned to one.
fn declare_variable(parser: &mut DefinitionParser<'_, '_>, keyword: &str, name_at: usize) {
    let Some(name) = parser.name(name_at) else {
        return;
    };
    if name == "enum" {
        return;
    }
    let value = value_after(parser, name_at + 1);
    if value.is_some_and(|value| is_function(parser, value)) {
        parser.define(name_at, SymbolKind::Function);
        parser.expect_scope(ScopeKind::Function, Some(name));
        return;
    }
    if value.is_some_and(|value| parser.is_word(value, "class")) {
        return;
    }
    if !parser.in_function() && parser.scope_kind() == ScopeKind::Module && parser.brackets == 0 {
        let kind = match keyword {
            "const" => SymbolKind::Constant,
            _ => SymbolKind::Variable,
        };
        parser.define(name_at, kind);
    }
}

/// Returns the position of the value that is assigned after a name and possibly a type.
fn value_after(parser: &DefinitionParser<'_, '_>, at: usize) -> Option<usize> {
    /// Maximum number of tokens of a type.
    const MAX_TYPE: usize = 200;
    let mut at = at;
    if parser.mark(at) == Some(b':') {
        let mut depth = 0_i32;
        let limit = at + MAX_TYPE;
        loop {
            at += 1;
            if at > limit {
                return None;
            }
            match parser.mark(at) {
                Some(b'(' | b'[' | b'{' | b'<') => depth += 1,
                Some(b'>') if parser.mark_before(at) == Some(b'=') => {}
                Some(b')' | b']' | b'}' | b'>') => depth -= 1,
                Some(b'=') if depth == 0 && parser.mark(at + 1) != Some(b'>') => break,
                Some(b';') => return None,
                None if parser.tokens.get(at).is_none() => return None,
                _ => {}
            }
            if depth < 0 {
                return None;
            }
        }
    }
    let is_assigned = parser.mark(at) == Some(b'=') && parser.mark(at + 1) != Some(b'=');
    is_assigned.then_some(at + 1)
}

/// Returns true if a function begins at `at`: `function`, `(…) =>`, `name =>`, each possibly after `async`.
fn is_function(parser: &DefinitionParser<'_, '_>, at: usize) -> bool {
    let mut at = at;
    if parser.is_word(at, "async") {
        at += 1;
    }
    if parser.is_word(at, "function") {
        return true;
    }
    let is_arrow = |at: usize| parser.mark(at) == Some(b'=') && parser.mark(at + 1) == Some(b'>');
    if parser.name(at).is_some() {
        return is_arrow(at + 1);
    }
    if parser.mark(at) == Some(b'<') {
        at = parser.after_group(at, b'<', b'>');
    }
    if parser.mark(at) != Some(b'(') {
        return false;
    }
    let mut after = parser.after_group(at, b'(', b')');
    if is_arrow(after) {
        return true;
    }
    if parser.mark(after) != Some(b':') {
        return false;
    }
    // The type of the result.
    for _ in 0..60 {
        after += 1;
        match parser.mark(after) {
            Some(b'=') => return parser.mark(after + 1) == Some(b'>'),
            Some(b';' | b')') => return false,
            _ => {}
        }
    }
    false
}

/// Defines a function that is assigned to a property, such as `exports.name = function`.
fn declare_assigned(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let is_value = parser.mark(at + 1) == Some(b'=') && is_function(parser, at + 2);
    if !is_value || parser.brackets > 0 {
        return;
    }
    let owner = at.checked_sub(2).and_then(|at| parser.word(at));
    let owner = match owner {
        Some("prototype") => at.checked_sub(4).and_then(|at| parser.word(at)),
        Some("exports" | "module" | "this" | "window" | "self") => None,
        owner => owner,
    };
    let kind = match owner {
        Some(_) => SymbolKind::Method,
        None => SymbolKind::Function,
    };
    let container = owner.or(parser.container());
    let name = parser.name(at);
    parser.define_in(at, kind, container);
    parser.expect_scope(ScopeKind::Function, name);
}

/// Returns true if a member of a class or an object may begin at `at`.
fn begins_member(parser: &DefinitionParser<'_, '_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return false;
    };
    match parser.mark(before) {
        Some(b'{' | b'}' | b';' | b'*' | b'#') => true,
        Some(b')' | b']') => parser.begins_line(at),
        Some(b',') => parser.scope_kind() == ScopeKind::Block,
        Some(_) => false,
        None => {
            parser
                .word(before)
                .is_some_and(|word| MODIFIERS.contains(&word))
                || parser.begins_line(at)
        }
    }
}

/// Defines a method of a class, or a property that is a function.
fn declare_member(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(name) = parser.name(at) else { return };
    if STATEMENTS.contains(&name) || !begins_member(parser, at) {
        return;
    }
    let mut next = at + 1;
    if matches!(parser.mark(next), Some(b'?' | b'!')) {
        next += 1;
    }
    let is_generic = parser.mark(next) == Some(b'<');
    let after = if is_generic {
        parser.after_group(next, b'<', b'>')
    } else {
        next
    };
    if parser.mark(after) == Some(b'(') {
        parser.define(at, SymbolKind::Method);
        parser.expect_scope(ScopeKind::Function, Some(name));
        return;
    }
    if value_after(parser, next).is_some_and(|value| is_function(parser, value)) {
        parser.define(at, SymbolKind::Method);
        parser.expect_scope(ScopeKind::Function, Some(name));
    }
}

/// Defines a function in an object: `name: function`, `name: (…) =>` or `name(…) {`.
fn declare_object_member(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(name) = parser.name(at) else { return };
    if STATEMENTS.contains(&name) || !begins_member(parser, at) {
        return;
    }
    let is_method = match parser.mark(at + 1) {
        Some(b':') => is_function(parser, at + 2),
        Some(b'(') => {
            let after = parser.after_group(at + 1, b'(', b')');
            parser.mark(after) == Some(b'{')
        }
        _ => false,
    };
    if is_method {
        parser.define(at, SymbolKind::Method);
        parser.expect_scope(ScopeKind::Function, Some(name));
    }
}
