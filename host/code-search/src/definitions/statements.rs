//! Definitions of C, C++, C# and Java, in which the form of a statement tells what it defines.

use super::{DefinitionParser, ScopeKind, SymbolKind};
use crate::language::SourceLanguage;
use crate::lexer::TokenKind;

/// Maximum number of tokens of a statement that are examined.
const MAX_STATEMENT: usize = 400;

/// Words before a bracket that are not the names of functions.
const NOT_FUNCTIONS: [&str; 30] = [
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "decltype",
    "alignas",
    "noexcept",
    "throw",
    "requires",
    "explicit",
    "__attribute__",
    "__declspec",
    "asm",
    "__asm__",
    "else",
    "do",
    "new",
    "using",
    "lock",
    "foreach",
    "synchronized",
    "try",
    "fixed",
    "when",
    "base",
    "this",
    "defined",
];

/// Words between the parameters of a function and its body.
const QUALIFIERS: [&str; 12] = [
    "const", "noexcept", "override", "final", "volatile", "throw", "throws", "requires", "try",
    "where", "mutable", "default",
];

pub(super) fn parse(parser: &mut DefinitionParser<'_, '_>) {
    // The scopes at the beginning of the branches of the preprocessor: braces are balanced in each branch alone.
    let mut branches: Vec<(usize, u32)> = Vec::new();
    let mut start = 0;
    let mut typedef = None;
    let mut at = 0;
    while let Some(token) = parser.tokens.get(at) {
        match token.kind {
            TokenKind::Mark(b'(' | b'[') => parser.brackets += 1,
            TokenKind::Mark(b')' | b']') => parser.brackets = parser.brackets.saturating_sub(1),
            TokenKind::Mark(b'{') => {
                let is_statement = parser.brackets == 0 && !parser.in_function();
                if is_statement {
                    open_statement(parser, start, at);
                    let is_typedef = parser.is_word(start, "typedef");
                    typedef = is_typedef.then_some(parser.scopes.len()).or(typedef);
                }
                parser.open_brace();
                start = at + 1;
            }
            TokenKind::Mark(b'}') => {
                parser.close_brace();
                // The rest of the statement names a type or variables.
                start = at + 1;
            }
            TokenKind::Mark(b';') if parser.brackets == 0 => {
                if typedef == Some(parser.scopes.len()) {
                    typedef = None;
                    define_typedef(parser, start, at);
                } else if !parser.in_function() {
                    end_statement(parser, start, at);
                }
                parser.pending = None;
                start = at + 1;
            }
            // `public:` and the like.
            TokenKind::Mark(b':') if parser.brackets == 0 && at == start + 1 => {
                let is_label = matches!(
                    parser.word(start),
                    Some("public" | "private" | "protected" | "signals" | "slots")
                );
                if is_label {
                    start = at + 1;
                }
            }
            TokenKind::MacroName => {
                if let Some(token) = parser.tokens.get(at) {
                    let name = parser.slice(token);
                    parser.add_definition(token, name, SymbolKind::Macro, None);
                }
                if at == start {
                    start = at + 1;
                }
            }
            TokenKind::IfBranch => {
                branches.push((parser.scopes.len(), parser.brackets));
                start = at + 1;
            }
            TokenKind::ElseBranch => {
                if let Some(&(scopes, brackets)) = branches.last() {
                    parser.scopes.truncate(scopes);
                    parser.brackets = brackets;
                }
                start = at + 1;
            }
            TokenKind::EndBranch => {
                branches.pop();
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The parts of a statement outside of brackets.
struct StatementParts {
    /// The position of the keyword of a type, and the keyword's kind.
    type_keyword: Option<(usize, SymbolKind)>,
    /// The position of the name before the parameters.
    function: Option<usize>,
    /// The first `=` outside of brackets.
    equals: Option<usize>,
    /// Number of words outside of brackets.
    words: usize,
}

fn examine(parser: &DefinitionParser<'_, '_>, start: usize, end: usize) -> StatementParts {
    let mut parts = StatementParts {
        type_keyword: None,
        function: None,
        equals: None,
        words: 0,
    };
    // A name that is rather a macro before the function, unless no other name follows.
    let mut macro_like = None;
    let is_c = matches!(parser.language, SourceLanguage::C | SourceLanguage::Cpp);
    let mut at = start;
    while at < end {
        if let Some(word) = parser.word(at) {
            parts.words += 1;
            match word {
                "template" if parser.mark(at + 1) == Some(b'<') => {
                    at = parser.after_group(at + 1, b'<', b'>');
                    continue;
                }
                "operator" if is_c && parts.function.is_none() => {
                    // Its name is marks up to the parameters.
                    let mut after = at + 1;
                    if parser.mark(after) == Some(b'(') && parser.mark(after + 1) == Some(b')') {
                        after += 2;
                    }
                    while after < end && parser.mark(after) != Some(b'(') {
                        after += 1;
                    }
                    parts.function = Some(at);
                    at = parser.after_group(after, b'(', b')').max(after + 1);
                    continue;
                }
                _ if parts.type_keyword.is_none() && parts.function.is_none() => {
                    parts.type_keyword = type_kind(parser, at, word).map(|kind| (at, kind));
                }
                _ => {}
            }
        }
        match parser.mark(at) {
            Some(b'(') => {
                let before = at.checked_sub(1).filter(|before| *before >= start);
                let after = parser.after_group(at, b'(', b')').min(end);
                if let Some(name_at) =
                    before.and_then(|before| function_name(parser, start, before))
                {
                    let next_word = parser.word(after).filter(|_| after < end);
                    // A macro before the function, if other words follow its brackets.
                    let is_macro = next_word
                        .is_some_and(|word| !QUALIFIERS.contains(&word) && !word.starts_with("__"));
                    let is_annotation = parser.mark_before(name_at) == Some(b'@')
                        || is_dotted_annotation(parser, start, name_at);
                    let is_candidate = parts.function.is_none() && parts.equals.is_none();
                    if is_candidate && !is_annotation && is_macro {
                        macro_like = macro_like.or(Some(name_at));
                    } else if is_candidate && !is_annotation {
                        parts.function = Some(name_at);
                    }
                }
                at = after.max(at + 1);
                continue;
            }
            Some(b'[') => {
                at = parser.after_group(at, b'[', b']').max(at + 1);
                continue;
            }
            Some(b'=') if parts.equals.is_none() => parts.equals = Some(at),
            _ => {}
        }
        at += 1;
    }
    parts.function = parts.function.or(macro_like);
    parts
}

/// Returns the position of the name of a function whose parameters follow `before`.
fn function_name(parser: &DefinitionParser<'_, '_>, start: usize, before: usize) -> Option<usize> {
    let mut at = before;
    // The arguments of a generic method: `name<T>(`.
    if parser.mark(at) == Some(b'>') {
        let mut depth = 0_u32;
        for _ in 0..40 {
            match parser.mark(at) {
                Some(b'>') => depth += 1,
                Some(b'<') => depth -= 1,
                _ => {}
            }
            if at <= start {
                return None;
            }
            at -= 1;
            if depth == 0 {
                break;
            }
        }
    }
    parser
        .name(at)
        .filter(|name| !NOT_FUNCTIONS.contains(name))
        .map(|_| at)
}

fn is_dotted_annotation(parser: &DefinitionParser<'_, '_>, start: usize, name_at: usize) -> bool {
    let mut at = name_at;
    while at > start + 1 && parser.mark(at - 1) == Some(b'.') {
        at -= 2;
    }
    parser.mark_before(at) == Some(b'@')
}

/// Returns the kind of type that a keyword defines.
fn type_kind(parser: &DefinitionParser<'_, '_>, at: usize, word: &str) -> Option<SymbolKind> {
    let language = parser.language;
    let is_c = matches!(language, SourceLanguage::C | SourceLanguage::Cpp);
    Some(match word {
        "struct" if language != SourceLanguage::Java => SymbolKind::Struct,
        "union" if is_c => SymbolKind::Struct,
        "enum" => SymbolKind::Enum,
        "class" if language != SourceLanguage::C => match parser.word_before(at) {
            Some("enum") => SymbolKind::Enum,
            _ => SymbolKind::Class,
        },
        "interface" if !is_c => SymbolKind::Interface,
        // `record` is also a name.
        "record" if !is_c && parser.name(at + 1).is_some() => SymbolKind::Struct,
        "namespace" if !matches!(language, SourceLanguage::C | SourceLanguage::Java) => {
            SymbolKind::Module
        }
        _ => return None,
    })
}

/// Reads a statement that ends with a brace.
fn open_statement(parser: &mut DefinitionParser<'_, '_>, start: usize, end: usize) {
    if end - start > MAX_STATEMENT {
        return;
    }
    if parser.scope_kind() == ScopeKind::Block {
        return;
    }
    let parts = examine(parser, start, end);
    let is_c = matches!(parser.language, SourceLanguage::C | SourceLanguage::Cpp);
    if let Some((keyword, kind)) = parts.type_keyword
        && (parts.function.is_none() || kind == SymbolKind::Struct && !is_c)
    {
        define_scope(parser, keyword, kind, end);
        return;
    }
    if is_c && parser.is_word(start, "extern") && parts.words == 1 {
        parser.expect_scope(ScopeKind::Module, None);
        return;
    }
    let Some(name_at) = parts.function else {
        if parser.language == SourceLanguage::CSharp {
            declare_property(parser, start, end, &parts);
        } else if is_c && parts.equals.is_some() {
            declare_variable(parser, start, end, &parts);
        }
        return;
    };
    if parts.equals.is_some_and(|equals| equals < name_at) {
        return;
    }
    // Java and C# have no functions outside of types.
    if !is_c && parser.scope_kind() != ScopeKind::Type {
        return;
    }
    // An object or a body in an initializer.
    if !is_c && parser.word_before(name_at) == Some("new") {
        return;
    }
    define_method(parser, name_at);
}

fn define_method(parser: &mut DefinitionParser<'_, '_>, name_at: usize) {
    let is_operator = parser.is_word(name_at, "operator");
    // `A::B::name` and `A::~A`.
    let mut first = name_at;
    let mut qualifier_end = None;
    loop {
        let mut before = first;
        if parser.mark_before(before) == Some(b'~') {
            before -= 1;
        }
        let is_qualified = parser.mark_before(before) == Some(b':')
            && before >= 2
            && parser.mark_before(before - 1) == Some(b':');
        if !is_qualified {
            break;
        }
        let mut owner = before.saturating_sub(3);
        if parser.mark(owner) == Some(b'>') {
            while owner > 0 && parser.mark(owner) != Some(b'<') && before - owner < 40 {
                owner -= 1;
            }
            owner = owner.saturating_sub(1);
        }
        if parser.name(owner).is_none() {
            break;
        }
        qualifier_end = qualifier_end.or(Some(owner));
        first = owner;
    }
    let container = match qualifier_end {
        Some(owner) => parser.word(owner),
        None => parser.container(),
    };
    let kind = match (qualifier_end, parser.scope_kind()) {
        (Some(_), _) | (_, ScopeKind::Type) => SymbolKind::Method,
        _ => SymbolKind::Function,
    };
    let name = parser.name(name_at);
    // A destructor has the name of its type, whose definition a search is for.
    let is_destructor = parser.mark_before(name_at) == Some(b'~');
    if !is_operator && !is_destructor {
        parser.define_in(name_at, kind, container);
    }
    parser.expect_scope(ScopeKind::Function, name);
}

/// Defines a type or a namespace.
fn define_scope(
    parser: &mut DefinitionParser<'_, '_>,
    keyword: usize,
    kind: SymbolKind,
    end: usize,
) {
    if kind == SymbolKind::Module {
        let mut last = None;
        for at in keyword + 1..end {
            if let Some(name) = parser.name(at) {
                parser.define(at, SymbolKind::Module);
                last = Some(name);
            }
        }
        parser.expect_scope(ScopeKind::Module, last);
        return;
    }
    let Some(name_at) = type_name(parser, keyword, end) else {
        // A type without a name.
        let kind = match kind {
            SymbolKind::Enum => ScopeKind::Block,
            _ => ScopeKind::Type,
        };
        parser.expect_scope(kind, None);
        return;
    };
    let name = parser.name(name_at);
    let (mut container, mut scope) = (parser.container(), ScopeKind::Type);
    if parser.mark_before(name_at) == Some(b':') && name_at >= 3 {
        container = parser.word(name_at - 3).or(container);
    }
    parser.define_in(name_at, kind, container);
    let is_c = matches!(
        parser.language,
        SourceLanguage::C | SourceLanguage::Cpp | SourceLanguage::CSharp
    );
    if kind == SymbolKind::Enum && is_c {
        scope = ScopeKind::Block;
    }
    parser.expect_scope(scope, name);
}

/// Returns the position of the name after the keyword of a type. Macros and attributes may precede the name.
fn type_name(parser: &DefinitionParser<'_, '_>, keyword: usize, end: usize) -> Option<usize> {
    let is_c = matches!(parser.language, SourceLanguage::C | SourceLanguage::Cpp);
    if !is_c {
        return parser.name(keyword + 1).map(|_| keyword + 1);
    }
    let mut found = None;
    let mut at = keyword + 1;
    while at < end {
        match parser.mark(at) {
            Some(b':') if parser.mark(at + 1) == Some(b':') => {
                at += 2;
                continue;
            }
            Some(b':' | b'<' | b'=' | b'*') => break,
            Some(b'(') => {
                found = None;
                at = parser.after_group(at, b'(', b')').max(at + 1);
                continue;
            }
            Some(b'[') => {
                at = parser.after_group(at, b'[', b']').max(at + 1);
                continue;
            }
            _ => {}
        }
        match parser.name(at) {
            Some("class" | "struct" | "final") | None => {}
            Some(_) => found = Some(at),
        }
        at += 1;
    }
    found
}

/// Reads a statement that ends with a semicolon.
fn end_statement(parser: &mut DefinitionParser<'_, '_>, start: usize, end: usize) {
    if end - start > MAX_STATEMENT || parser.scope_kind() == ScopeKind::Block {
        return;
    }
    let first = parser.word(start);
    match parser.language {
        SourceLanguage::C | SourceLanguage::Cpp => match first {
            Some("typedef") => define_typedef(parser, start, end),
            Some("using") if parser.mark(start + 2) == Some(b'=') => {
                parser.define(start + 1, SymbolKind::Type);
            }
            Some("using" | "friend" | "extern" | "return" | "goto") => {}
            _ => {
                let parts = examine(parser, start, end);
                declare_variable(parser, start, end, &parts);
            }
        },
        _ => {
            if matches!(
                first,
                Some("using" | "import" | "package" | "return" | "throw")
            ) {
                return;
            }
            if first == Some("namespace") {
                define_scope(parser, start, SymbolKind::Module, end);
                parser.pending = None;
                return;
            }
            let parts = examine(parser, start, end);
            if let Some((keyword, kind)) = parts.type_keyword {
                // A record without members.
                define_scope(parser, keyword, kind, end);
                parser.pending = None;
                return;
            }
            if parser.scope_kind() != ScopeKind::Type {
                return;
            }
            match parts.function {
                Some(name_at) if parts.words >= 2 => {
                    define_method(parser, name_at);
                    parser.pending = None;
                }
                None => declare_field(parser, start, end, &parts),
                Some(_) => {}
            }
        }
    }
}

/// Defines a constant of a class: a field that cannot change.
fn declare_field(
    parser: &mut DefinitionParser<'_, '_>,
    start: usize,
    end: usize,
    parts: &StatementParts,
) {
    let limit = parts.equals.unwrap_or(end);
    let words: Vec<&str> = (start..limit).filter_map(|at| parser.word(at)).collect();
    let is_constant = words.contains(&"const")
        || words.contains(&"static") && (words.contains(&"final") || words.contains(&"readonly"));
    if is_constant && limit > start {
        parser.define(limit - 1, SymbolKind::Constant);
    } else if parser.language == SourceLanguage::CSharp {
        // A property with an expression: `int Name => 1;`.
        declare_property(parser, start, limit, parts);
    }
}

fn declare_property(
    parser: &mut DefinitionParser<'_, '_>,
    start: usize,
    end: usize,
    parts: &StatementParts,
) {
    let is_expression = parts.equals == Some(end) && parser.mark(end + 1) == Some(b'>');
    let opens = parser.mark(end) == Some(b'{');
    if parser.scope_kind() == ScopeKind::Type
        && end > start + 1
        && (is_expression || opens && parts.equals.is_none())
        && parser.name(end - 1).is_some()
        && parts.words >= 2
    {
        parser.define(end - 1, SymbolKind::Property);
        parser.expect_scope(ScopeKind::Function, None);
    }
}

/// Defines a variable outside of functions and types.
fn declare_variable(
    parser: &mut DefinitionParser<'_, '_>,
    start: usize,
    end: usize,
    parts: &StatementParts,
) {
    let is_prototype = parts.function.is_some();
    let is_global = parser.scope_kind() == ScopeKind::Module && parser.brackets == 0;
    if is_prototype || !is_global || parser.is_word(start, "typedef") {
        return;
    }
    let limit = parts.equals.unwrap_or(end).min(end);
    let mut name_at = limit;
    // The name before the sizes of an array.
    while name_at > start && parser.mark(name_at - 1) == Some(b']') {
        let mut depth = 0_u32;
        while name_at > start {
            name_at -= 1;
            match parser.mark(name_at) {
                Some(b']') => depth += 1,
                Some(b'[') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    let words = (start..name_at)
        .filter(|at| parser.name(*at).is_some())
        .count();
    let is_forward = parts.type_keyword.is_some() && parts.equals.is_none() && words <= 2;
    if words >= 2 && name_at > start && !is_forward {
        let is_constant = (start..name_at).any(|at| matches!(parser.word(at), Some("constexpr")));
        let kind = if is_constant {
            SymbolKind::Constant
        } else {
            SymbolKind::Variable
        };
        parser.define(name_at - 1, kind);
    }
}

/// Defines the name of a `typedef`: the last name, or that of a pointer to a function.
fn define_typedef(parser: &mut DefinitionParser<'_, '_>, start: usize, end: usize) {
    if end - start > MAX_STATEMENT {
        return;
    }
    // `typedef int (*name)(int);`
    for at in start..end {
        if parser.mark(at) == Some(b'(') && parser.mark(at + 1) == Some(b'*') {
            let mut name_at = at + 2;
            while parser.name(name_at + 1).is_some() {
                name_at += 1;
            }
            parser.define(name_at, SymbolKind::Type);
            return;
        }
    }
    let mut depth = 0_u32;
    let mut last = None;
    for at in start..end {
        match parser.mark(at) {
            Some(b'(' | b'[' | b'<') => depth += 1,
            Some(b')' | b']' | b'>') => depth = depth.saturating_sub(1),
            // Further names of the same type.
            Some(b',') if depth == 0 => {
                if let Some(last) = last.take() {
                    parser.define(last, SymbolKind::Type);
                }
            }
            _ if depth == 0 && parser.name(at).is_some() => last = Some(at),
            _ => {}
        }
    }
    if let Some(last) = last {
        parser.define(last, SymbolKind::Type);
    }
}
