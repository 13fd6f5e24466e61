//! Queries of an index. Each result is read again from its file, so that it has the present text, and nothing that the
//! caller may not read.

mod filter;
mod references;
mod snippet;
mod symbols;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use cap_std::fs::Dir;
use serde::Serialize;

pub(crate) use filter::SearchFilter;
pub(crate) use snippet::{outdent, shorten_line};
pub(crate) use words::{line_number, word_scores};

use crate::definitions::SymbolKind;
use crate::index::{CodeIndex, IndexedFile, SymbolEntry};
use crate::refresh::RefreshLimits;
use crate::source_file::{open_folder, read_source};

/// The kind of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SearchMode {
    /// Passages about words.
    Words,
    /// Definitions by name.
    Symbols,
    /// Uses of a name.
    References,
    /// Passages about a subject, in whatever words.
    Meaning,
}

/// A search.
pub(crate) struct CodeQuery<'q> {
    pub(crate) query: &'q str,
    pub(crate) mode: SearchMode,
    pub(crate) kind: Option<SymbolKind>,
    pub(crate) filter: SearchFilter<'q>,
    pub(crate) max_results: usize,
}

/// A passage of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodeHit {
    pub(crate) path: String,
    /// The first line, from 1.
    pub(crate) line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end_line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    /// The name of the definition, after that of the type that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) symbol: Option<String>,
    pub(crate) text: String,
}

/// The results of a search.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodeHits {
    pub(crate) hits: Vec<CodeHit>,
    /// True if there are more.
    pub(crate) truncated: bool,
    /// The reason for an incomplete result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// The index and the files of a search.
pub(crate) struct SearchSource<'s> {
    pub(crate) index: &'s CodeIndex,
    pub(crate) root: &'s Arc<Dir>,
    pub(crate) limits: &'s RefreshLimits,
}

/// Runs a search.
pub(crate) fn search(source: &SearchSource<'_>, query: &CodeQuery<'_>) -> CodeHits {
    match query.mode {
        // Without vectors, a search by meaning is one by words.
        SearchMode::Words | SearchMode::Meaning => words::search(source, query),
        SearchMode::Symbols => symbols::search(source, query),
        SearchMode::References => references::search(source, query),
    }
}

impl SearchSource<'_> {
    /// Reads the text of a file. `None` if it cannot be read any more.
    fn read(&self, file: &IndexedFile) -> Option<String> {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let folder = open_folder(self.root, folder).ok()?;
        read_source(&folder, name).ok()?.text
    }

    /// Returns a reader of files that reads each only once.
    pub(crate) fn texts(&self) -> ReadTexts<'_> {
        ReadTexts::new(self)
    }

    /// Returns the full name of a definition.
    pub(crate) fn symbol_name(&self, symbol: &SymbolEntry) -> String {
        let name = self.index.name(symbol.name);
        match symbol.container {
            Some(container) => format!("{}.{name}", self.index.name(container)),
            None => name.to_owned(),
        }
    }
}

/// Maximum size in bytes of the texts that are kept.
const MAX_READ_TEXTS: usize = 32 << 20;

/// The texts of files that a search has read.
pub(crate) struct ReadTexts<'s> {
    source: &'s SearchSource<'s>,
    texts: HashMap<Box<str>, Option<Arc<str>>>,
    /// The size of the texts.
    size: usize,
}

impl<'s> ReadTexts<'s> {
    fn new(source: &'s SearchSource<'s>) -> Self {
        Self {
            source,
            texts: HashMap::new(),
            size: 0,
        }
    }

    /// Returns the text of a file. `None` if it cannot be read any more.
    pub(crate) fn get(&mut self, file: &IndexedFile) -> Option<Arc<str>> {
        if let Some(text) = self.texts.get(&file.path) {
            return text.clone();
        }
        let text: Option<Arc<str>> = self.source.read(file).map(Arc::from);
        self.size += text.as_ref().map_or(0, |text| text.len());
        if self.size > MAX_READ_TEXTS {
            self.texts.clear();
            self.size = text.as_ref().map_or(0, |text| text.len());
        }
        self.texts.insert(file.path.clone(), text.clone());
        text
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::search_all_in_test;
