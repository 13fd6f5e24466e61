//! Search for the uses of a name in code, without those in strings and comments.

use super::snippet::shorten_line;
use super::{CodeHit, CodeHits, CodeQuery, SearchSource};
use crate::index::IndexedFile;
use crate::lexer::{TokenKind, tokenize};
use crate::words::name_term;

/// Maximum number of files that one search reads.
const MAX_FILES_READ: usize = 2_000;

pub(super) fn search(source: &SearchSource<'_>, query: &CodeQuery<'_>) -> CodeHits {
    let name = query.query.trim().trim_end_matches("()");
    let name = name.rsplit(['.', ':', '#', ' ']).next().unwrap_or(name);
    let mut found = CodeHits::default();
    let Some(term) = name_term(name) else {
        return found;
    };
    let mut files: Vec<&IndexedFile> = source
        .index
        .files_with(term)
        .filter_map(|(id, _)| source.index.file(id))
        .filter(|file| query.filter.accepts(file))
        .collect();
    // The files that define the name come first.
    let defines = |file: &IndexedFile| {
        let mut symbols = file.symbols.iter();
        symbols.any(|symbol| source.index.name(symbol.name) == name)
    };
    files.sort_by_cached_key(|file| (!defines(file), file.path.clone()));
    found.truncated = files.len() > MAX_FILES_READ;
    for file in files.into_iter().take(MAX_FILES_READ) {
        if source.limits.is_over() {
            found.truncated = true;
            break;
        }
        if !add_uses(source, query, file, name, &mut found) {
            break;
        }
    }
    found
}

/// Adds the lines of a file that use the name. Returns false if there are enough results.
fn add_uses(
    source: &SearchSource<'_>,
    query: &CodeQuery<'_>,
    file: &IndexedFile,
    name: &str,
    found: &mut CodeHits,
) -> bool {
    let Some(text) = source.read(file) else {
        return true;
    };
    let Some(language) = file.language else {
        return true;
    };
    if memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_none() {
        return true;
    }
    let mut lines: Vec<u32> = tokenize(&text, language)
        .iter()
        .filter(|token| matches!(token.kind, TokenKind::Word | TokenKind::MacroName))
        .filter(|token| text.get(token.start as usize..token.end as usize) == Some(name))
        .map(|token| token.line)
        .collect();
    lines.dedup();
    let mut all = text.lines();
    let mut next = 1;
    for line in lines {
        let Some(shown) = all.nth((line - next) as usize) else {
            return true;
        };
        next = line + 1;
        let definition = file
            .symbols_in_lines(line, line)
            .iter()
            .find(|symbol| source.index.name(symbol.name) == name);
        if query
            .kind
            .is_some_and(|kind| definition.is_none_or(|symbol| !symbol.kind.is_a(kind)))
        {
            continue;
        }
        if found.hits.len() == query.max_results {
            found.truncated = true;
            return false;
        }
        found.hits.push(CodeHit {
            path: file.path.to_string(),
            line,
            end_line: None,
            kind: definition.map(|symbol| symbol.kind.name()),
            symbol: definition.map(|symbol| source.symbol_name(symbol)),
            text: shorten_line(shown.trim_start()),
        });
    }
    true
}
