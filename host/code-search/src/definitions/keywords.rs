//! Definitions that a keyword begins: Rust, Go, Kotlin, Swift, Zig, PHP, JavaScript and TypeScript.

use super::{DefinitionParser, ScopeKind, SymbolKind, members};
use crate::language::SourceLanguage;
use crate::lexer::TokenKind;

pub(super) fn parse(parser: &mut DefinitionParser<'_, '_>) {
    let declare = match parser.language {
        SourceLanguage::Rust => declare_rust,
        SourceLanguage::Go => declare_go,
        SourceLanguage::Kotlin => declare_kotlin,
        SourceLanguage::Swift => declare_swift,
        SourceLanguage::Zig => declare_zig,
        SourceLanguage::Php => declare_php,
        _ => members::declare_script,
    };
    let mut at = 0;
    while let Some(token) = parser.tokens.get(at) {
        match token.kind {
            TokenKind::Mark(b'(' | b'[') => parser.brackets += 1,
            TokenKind::Mark(b')' | b']') => parser.brackets = parser.brackets.saturating_sub(1),
            TokenKind::Mark(b'{') => parser.open_brace(),
            TokenKind::Mark(b'}') => parser.close_brace(),
            TokenKind::Mark(b';') => parser.end_statement(),
            TokenKind::Word => declare(parser, at),
            _ => {}
        }
        at += 1;
    }
}

/// Returns the kind of a function in the current scope.
pub(super) fn function_kind(parser: &DefinitionParser<'_, '_>) -> SymbolKind {
    match parser.scope_kind() {
        ScopeKind::Type => SymbolKind::Method,
        _ => SymbolKind::Function,
    }
}

/// Defines a type whose name is at `name_at`, and expects its members.
pub(super) fn define_type(parser: &mut DefinitionParser<'_, '_>, name_at: usize, kind: SymbolKind) {
    if let Some(name) = parser.name(name_at) {
        parser.define(name_at, kind);
        parser.expect_scope(ScopeKind::Type, Some(name));
    }
}

/// Defines a function whose name is at `name_at`, and expects its body.
pub(super) fn define_function(parser: &mut DefinitionParser<'_, '_>, name_at: usize) {
    if let Some(name) = parser.name(name_at) {
        let kind = function_kind(parser);
        parser.define(name_at, kind);
        parser.expect_scope(ScopeKind::Function, Some(name));
    }
}

fn declare_rust(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    if parser.mark_before(at) == Some(b'.') {
        return;
    }
    let next = at + 1;
    match word {
        "fn" => define_function(parser, next),
        "struct" => define_type(parser, next, SymbolKind::Struct),
        "enum" => define_type(parser, next, SymbolKind::Enum),
        "trait" => define_type(parser, next, SymbolKind::Trait),
        "union" if matches!(parser.mark(at + 2), Some(b'{' | b'<')) => {
            define_type(parser, next, SymbolKind::Struct);
        }
        "mod" => {
            if let Some(name) = parser.name(next) {
                parser.define(next, SymbolKind::Module);
                parser.expect_scope(ScopeKind::Module, Some(name));
            }
        }
        "type" if parser.name(next).is_some() => parser.define(next, SymbolKind::Type),
        "macro_rules" if parser.mark(next) == Some(b'!') => {
            parser.define(at + 2, SymbolKind::Macro);
            parser.expect_scope(ScopeKind::Function, None);
        }
        "const" | "static" if !parser.in_function() => {
            let name_at = next + usize::from(parser.is_word(next, "mut"));
            let is_item = parser.mark(name_at + 1) == Some(b':')
                && parser.mark(name_at + 2) != Some(b':')
                && parser.brackets == 0
                && parser.name(name_at).is_some_and(|name| name != "_");
            // A parameter of a type, such as `<const N: usize>`.
            let is_parameter = matches!(parser.mark_before(at), Some(b'<' | b','));
            if is_item && !is_parameter {
                let kind = match word {
                    "static" => SymbolKind::Variable,
                    _ => SymbolKind::Constant,
                };
                parser.define(name_at, kind);
            }
        }
        "impl" => {
            let begins_item = match at.checked_sub(1) {
                None => true,
                Some(before) => {
                    matches!(parser.mark(before), Some(b'}' | b';' | b'{' | b']'))
                        || parser.begins_line(at) && parser.mark(before).is_none()
                        || matches!(parser.word(before), Some("unsafe" | "default"))
                }
            };
            if begins_item && parser.brackets == 0 {
                let name = impl_type(parser, next);
                parser.expect_scope(ScopeKind::Type, name);
            }
        }
        _ => {}
    }
}

/// Maximum number of tokens between an `impl` and the name of its type.
const MAX_IMPL: usize = 300;

/// Returns the name of the type that an `impl` is for.
fn impl_type<'t>(parser: &DefinitionParser<'t, '_>, start: usize) -> Option<&'t str> {
    let mut at = start;
    if parser.mark(at) == Some(b'<') {
        at = parser.after_group(at, b'<', b'>');
    }
    let mut name = None;
    // An unmatched `<` has a group of many tokens.
    while at < start + MAX_IMPL {
        match parser.word(at) {
            Some("for") => name = None,
            Some("where") => break,
            Some("dyn" | "mut" | "const" | "unsafe") => {}
            Some(word) => name = Some(word),
            None => match parser.mark(at) {
                Some(b'<') => {
                    at = parser.after_group(at, b'<', b'>');
                    continue;
                }
                Some(b'{' | b';') | None
                    if parser
                        .tokens
                        .get(at)
                        .is_none_or(|token| token.kind != TokenKind::Text) =>
                {
                    break;
                }
                _ => {}
            },
        }
        at += 1;
    }
    name
}

fn declare_go(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    // A name after a comma belongs to the list that began before it.
    let begins_item =
        parser.scopes.is_empty() && parser.begins_line(at) && parser.mark_before(at) != Some(b',');
    if !begins_item {
        return;
    }
    match (parser.brackets, parser.go_group) {
        (0, _) => parser.go_group = None,
        // In a group, each line begins with a name.
        (1, Some(keyword)) => return define_go(parser, keyword, at),
        _ => return,
    }
    let next = at + 1;
    match word {
        "func" if parser.mark(next) == Some(b'(') => {
            let name_at = parser.after_group(next, b'(', b')');
            // The receiver is a name and a type, or a type alone; a generic type has brackets.
            let words: Vec<&str> = (next..name_at)
                .take_while(|at| parser.mark(*at) != Some(b'['))
                .filter_map(|at| parser.word(at))
                .collect();
            let container = words.last().copied();
            if let Some(name) = parser.name(name_at) {
                parser.define_in(name_at, SymbolKind::Method, container);
                parser.expect_scope(ScopeKind::Function, Some(name));
            }
        }
        "func" => define_function(parser, next),
        "type" | "const" | "var" => {
            if parser.mark(next) == Some(b'(') {
                parser.go_group = Some(word);
            } else {
                define_go(parser, word, next);
            }
        }
        _ => {}
    }
}

fn define_go(parser: &mut DefinitionParser<'_, '_>, keyword: &str, name_at: usize) {
    let kind = match keyword {
        "const" => SymbolKind::Constant,
        "var" => SymbolKind::Variable,
        _ => {
            let mut at = name_at + 1;
            if parser.mark(at) == Some(b'[') && parser.name(at + 1).is_some() {
                at = parser.after_group(at, b'[', b']');
            }
            match parser.word(at) {
                Some("struct") => SymbolKind::Struct,
                Some("interface") => SymbolKind::Interface,
                _ => SymbolKind::Type,
            }
        }
    };
    let mut at = name_at;
    loop {
        if parser.name(at).is_some_and(|name| name != "_") {
            parser.define(at, kind);
        }
        let is_list = keyword != "type" && parser.mark(at + 1) == Some(b',');
        if !is_list {
            return;
        }
        at += 2;
    }
}

fn declare_kotlin(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    if matches!(parser.mark_before(at), Some(b'.' | b':' | b'@')) {
        return;
    }
    let mut next = at + 1;
    match word {
        "fun" => {
            if parser.is_word(next, "interface") {
                return;
            }
            if parser.mark(next) == Some(b'<') {
                next = parser.after_group(next, b'<', b'>');
            }
            // The receiver, if any, and the name: `List<T>.name(`.
            let (mut name_at, mut receiver) = (next, None);
            for _ in 0..16 {
                match (parser.word(next), parser.mark(next)) {
                    (Some(_), _) => {
                        receiver = parser.word(name_at).filter(|_| name_at != next);
                        name_at = next;
                        next += 1;
                    }
                    (_, Some(b'<')) => next = parser.after_group(next, b'<', b'>'),
                    (_, Some(b'.' | b'?')) => next += 1,
                    _ => break,
                }
            }
            if let Some(name) = parser.name(name_at)
                && parser.mark(next) == Some(b'(')
            {
                let kind = function_kind(parser);
                let container = receiver.or(parser.container());
                parser.define_in(name_at, kind, container);
                parser.expect_scope(ScopeKind::Function, Some(name));
            }
        }
        "class" | "interface" | "object" => {
            let is_companion = parser.word_before(at) == Some("companion");
            let kind = match word {
                "interface" => SymbolKind::Interface,
                _ if parser.word_before(at) == Some("enum") => SymbolKind::Enum,
                _ => SymbolKind::Class,
            };
            if parser.name(next).is_some() && parser.brackets == 0 {
                define_type(parser, next, kind);
            } else if is_companion {
                let container = parser.container();
                parser.expect_scope(ScopeKind::Type, container);
            }
        }
        "typealias" => parser.define(next, SymbolKind::Type),
        "val" | "var" if !parser.in_function() && parser.brackets == 0 => {
            if parser.mark(next) == Some(b'<') {
                next = parser.after_group(next, b'<', b'>');
            }
            while parser.mark(next + 1) == Some(b'.') {
                next += 2;
            }
            let kind = match parser.word_before(at) {
                Some("const") => SymbolKind::Constant,
                _ if parser.scope_kind() == ScopeKind::Type => SymbolKind::Property,
                _ => SymbolKind::Variable,
            };
            if matches!(parser.scope_kind(), ScopeKind::Type | ScopeKind::Module) {
                parser.define(next, kind);
                parser.expect_scope(ScopeKind::Function, None);
            }
        }
        "init" | "get" | "set" | "constructor" if parser.scope_kind() == ScopeKind::Type => {
            parser.expect_scope(ScopeKind::Function, None);
        }
        _ => {}
    }
}

fn declare_swift(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    if matches!(parser.mark_before(at), Some(b'.' | b'#' | b'@')) {
        return;
    }
    let next = at + 1;
    match word {
        "func" => define_function(parser, next),
        "init" | "deinit" | "subscript" if parser.scope_kind() == ScopeKind::Type => {
            if parser.brackets == 0 && word != "deinit" {
                parser.define(at, SymbolKind::Method);
            }
            parser.expect_scope(ScopeKind::Function, Some(word));
        }
        "class" | "struct" | "enum" | "protocol" | "actor" | "extension" => {
            let is_modifier = matches!(
                parser.word(next),
                Some(
                    "func"
                        | "var"
                        | "let"
                        | "init"
                        | "subscript"
                        | "class"
                        | "override"
                        | "private"
                        | "public"
                )
            );
            if is_modifier || parser.brackets > 0 || parser.name(next).is_none() {
                return;
            }
            match word {
                "extension" => {
                    let mut last = next;
                    while parser.mark(last + 1) == Some(b'.') {
                        last += 2;
                    }
                    let name = parser.word(last);
                    parser.expect_scope(ScopeKind::Type, name);
                }
                "struct" => define_type(parser, next, SymbolKind::Struct),
                "enum" => define_type(parser, next, SymbolKind::Enum),
                "protocol" => define_type(parser, next, SymbolKind::Interface),
                _ => define_type(parser, next, SymbolKind::Class),
            }
        }
        "typealias" => parser.define(next, SymbolKind::Type),
        "let" | "var" if !parser.in_function() && parser.brackets == 0 => {
            let kind = match parser.scope_kind() {
                ScopeKind::Type => SymbolKind::Property,
                ScopeKind::Module if word == "let" => SymbolKind::Constant,
                ScopeKind::Module => SymbolKind::Variable,
                _ => return,
            };
            parser.define(next, kind);
            parser.expect_scope(ScopeKind::Function, None);
        }
        _ => {}
    }
}

fn declare_zig(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    let next = at + 1;
    match word {
        "fn" => define_function(parser, next),
        "test" if parser.brackets == 0 && !parser.in_function() => {
            parser.expect_scope(ScopeKind::Function, None);
        }
        "const" | "var" if !parser.in_function() && parser.brackets == 0 => {
            let Some(name) = parser.name(next) else {
                return;
            };
            let mut at = next + 1;
            if parser.mark(at) != Some(b'=') {
                parser.define(next, zig_value(word));
                return;
            }
            at += 1;
            while matches!(parser.word(at), Some("extern" | "packed")) {
                at += 1;
            }
            let kind = match parser.word(at) {
                Some("struct" | "union") => SymbolKind::Struct,
                Some("enum") => SymbolKind::Enum,
                Some("opaque") => SymbolKind::Type,
                _ => {
                    parser.define(next, zig_value(word));
                    return;
                }
            };
            parser.define(next, kind);
            parser.expect_scope(ScopeKind::Type, Some(name));
        }
        _ => {}
    }
}

fn zig_value(keyword: &str) -> SymbolKind {
    match keyword {
        "var" => SymbolKind::Variable,
        _ => SymbolKind::Constant,
    }
}

fn declare_php(parser: &mut DefinitionParser<'_, '_>, at: usize) {
    let Some(word) = parser.word(at) else { return };
    // `A::class`, `->function` and `$class` are not keywords.
    if matches!(parser.mark_before(at), Some(b':' | b'>')) {
        return;
    }
    let mut next = at + 1;
    match word {
        "function" if parser.word_before(at) != Some("use") => {
            if parser.mark(next) == Some(b'&') {
                next += 1;
            }
            if parser.name(next).is_some() && parser.mark(next + 1) == Some(b'(') {
                define_function(parser, next);
            } else {
                parser.expect_scope(ScopeKind::Function, None);
            }
        }
        "class" | "interface" | "trait" | "enum" => {
            let is_new = parser.word_before(at) == Some("new");
            let name = parser
                .name(next)
                .filter(|name| *name != "extends" && *name != "implements");
            let kind = match word {
                "interface" => SymbolKind::Interface,
                "trait" => SymbolKind::Trait,
                "enum" => SymbolKind::Enum,
                _ => SymbolKind::Class,
            };
            if name.is_some() && !is_new && parser.brackets == 0 {
                define_type(parser, next, kind);
            } else if is_new {
                parser.expect_scope(ScopeKind::Type, None);
            }
        }
        "namespace" => {
            let mut last = next;
            while parser.mark(last + 1) == Some(b'\\') {
                last += 2;
            }
            if parser.name(last).is_some() && parser.mark(next) != Some(b'\\') {
                parser.define(last, SymbolKind::Module);
                parser.expect_scope(ScopeKind::Module, None);
            }
        }
        "const" if !parser.in_function() && parser.word_before(at) != Some("use") => {
            // The name may follow a type.
            if parser.mark(next + 1) != Some(b'=') {
                next += 1;
            }
            if parser.mark(next + 1) == Some(b'=') {
                parser.define(next, SymbolKind::Constant);
            }
        }
        _ => {}
    }
}
