//! Search for definitions by name.

use std::cmp::Reverse;

use super::snippet::shorten_line;
use super::{CodeHit, CodeHits, CodeQuery, ReadTexts, SearchSource};
use crate::definitions::SymbolKind;
use crate::index::{IndexedFile, SymbolEntry};
use crate::words::split_name;

/// A definition with its rank.
struct RankedSymbol<'i> {
    score: u32,
    file: &'i IndexedFile,
    symbol: &'i SymbolEntry,
}

/// A wanted name, possibly with the type that contains it.
struct WantedName {
    name: String,
    lower: String,
    words: Vec<String>,
    container: Option<String>,
}

impl WantedName {
    /// Parses `name`, `Type.name`, `Type::name` or `name()`.
    fn parse(query: &str) -> Self {
        let query = query.trim().trim_end_matches("()");
        let mut parts = query
            .rsplit(['.', ':', '#', '/'])
            .filter(|part| !part.is_empty());
        let name = parts.next().unwrap_or(query).trim();
        let container = parts.next().map(|part| part.trim().to_lowercase());
        Self {
            lower: name.to_lowercase(),
            words: name.split_whitespace().flat_map(split_name).collect(),
            name: name.to_owned(),
            container,
        }
    }

    /// Returns how well a name fits; 0 if it does not.
    fn score(&self, name: &str) -> u32 {
        if name == self.name {
            return 100;
        }
        let contains = contains_ignoring_case(name, &self.lower);
        // Each word is compared, so that `parse header` finds `parseHttpHeader`.
        let first = self.words.first();
        if !contains && first.is_none_or(|word| !contains_ignoring_case(name, word)) {
            return 0;
        }
        let lower = name.to_lowercase();
        if lower == self.lower {
            return 90;
        }
        if contains && lower.starts_with(&self.lower) {
            return 70;
        }
        let words = split_name(name);
        let has = |wanted: &String| words.iter().any(|word| word.starts_with(wanted.as_str()));
        if !self.words.is_empty() && self.words.iter().all(has) {
            return 60;
        }
        if contains { 40 } else { 0 }
    }
}

/// Returns true if a name contains a text that is in lower case. Only ASCII letters are compared without case.
fn contains_ignoring_case(name: &str, lower: &str) -> bool {
    let (name, lower) = (name.as_bytes(), lower.as_bytes());
    let Some(first) = lower.first() else {
        return false;
    };
    let mut starts = name.windows(lower.len());
    starts.any(|part| part[0].to_ascii_lowercase() == *first && part.eq_ignore_ascii_case(lower))
}

pub(super) fn search(source: &SearchSource<'_>, query: &CodeQuery<'_>) -> CodeHits {
    let wanted = WantedName::parse(query.query);
    let index = source.index;
    let scores: Vec<u32> = index.names.iter().map(|name| wanted.score(name)).collect();
    let mut ranked = Vec::new();
    for file in index.files.iter().flatten() {
        let mut is_accepted = None;
        for symbol in &file.symbols {
            let score = scores.get(symbol.name as usize).copied().unwrap_or(0);
            let is_kind = query.kind.is_none_or(|kind| symbol.kind.is_a(kind));
            if score == 0 || !is_kind {
                continue;
            }
            if !*is_accepted.get_or_insert_with(|| query.filter.accepts(file)) {
                break;
            }
            let score = score + bonus(&wanted, source, file, symbol);
            ranked.push(RankedSymbol {
                score,
                file,
                symbol,
            });
        }
    }
    ranked.sort_by_cached_key(|ranked| {
        let path: &str = &ranked.file.path;
        let name = index.name(ranked.symbol.name).len();
        let depth = path.matches('/').count();
        (Reverse(ranked.score), name, depth, path, ranked.symbol.line)
    });
    let mut texts = ReadTexts::new(source);
    let mut found = CodeHits::default();
    for ranked in ranked {
        if found.hits.len() == query.max_results || source.limits.is_over() {
            found.truncated = true;
            break;
        }
        let Some(text) = texts.get(ranked.file) else {
            continue;
        };
        let name = index.name(ranked.symbol.name);
        let line = text.lines().nth(ranked.symbol.line as usize - 1);
        // The file may have changed since it was indexed.
        let Some(line) = line.filter(|line| line.contains(name)) else {
            continue;
        };
        found.hits.push(CodeHit {
            path: ranked.file.path.to_string(),
            line: ranked.symbol.line,
            end_line: None,
            kind: Some(ranked.symbol.kind.name()),
            symbol: Some(source.symbol_name(ranked.symbol)),
            text: shorten_line(line.trim_start()),
        });
    }
    found
}

/// Returns additional points of a definition.
fn bonus(
    wanted: &WantedName,
    source: &SearchSource<'_>,
    file: &IndexedFile,
    symbol: &SymbolEntry,
) -> u32 {
    let mut bonus = 0;
    if let Some(container) = &wanted.container {
        let own = symbol
            .container
            .map(|id| source.index.name(id).to_lowercase());
        let in_path = || file.path.to_lowercase().contains(container.as_str());
        bonus += match own {
            Some(own) if own == *container => 30,
            _ if in_path() => 10,
            _ => 0,
        };
    }
    if symbol.kind.is_type() {
        bonus += 3;
    } else if matches!(symbol.kind, SymbolKind::Function | SymbolKind::Method) {
        bonus += 2;
    }
    let is_test = file
        .path
        .split(['/', '.', '_', '-'])
        .any(|part| matches!(part, "test" | "tests" | "spec"));
    if !is_test {
        bonus += 2;
    }
    bonus
}
