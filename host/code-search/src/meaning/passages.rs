//! The passages that a search by meaning compares: each definition, and the beginning of each file.

use crate::index::{IndexedFile, SymbolEntry};
use crate::meaning::PassageKey;
use crate::search::{
    CodeHit, CodeQuery, ReadTexts, SearchSource, line_number, outdent, shorten_line, word_scores,
};

/// Maximum number of passages that a search compares.
const MAX_PASSAGES: usize = 20_000;

/// Maximum extent of the text of a passage that is embedded.
const MAX_LINES: usize = 60;
const MAX_BYTES: usize = 2_000;

/// Maximum number of lines of a passage that a result shows.
const SHOWN_LINES: usize = 8;

/// Lines of a file, from a definition to the next one.
pub(super) struct Passage<'i> {
    file: &'i IndexedFile,
    /// The definition with which it begins. `None` for the beginning of a file.
    symbol: Option<&'i SymbolEntry>,
    /// The first line, from 1.
    first: u32,
    /// The line of the next definition. `None` at the end of the file.
    next: Option<u32>,
}

/// Passages in the order in which they are embedded.
pub(super) struct SelectedPassages<'i> {
    pub(super) passages: Vec<Passage<'i>>,
    /// True if further passages were left out.
    pub(super) is_cut: bool,
}

/// Selects the passages of a search. Files that share more words with the query come first.
pub(super) fn select_passages<'i>(
    source: &SearchSource<'i>,
    query: &CodeQuery<'_>,
) -> SelectedPassages<'i> {
    let scores = word_scores(source, query.query);
    let mut files: Vec<(&IndexedFile, f32)> = (source.index.files.iter().zip(scores))
        .filter_map(|(file, score)| Some((file.as_ref()?, score)))
        .collect();
    files.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.path.cmp(&b.0.path)));
    let mut selected = SelectedPassages {
        passages: Vec::new(),
        is_cut: false,
    };
    // Checked in this order: a check of a path takes longer than its score.
    for (file, _) in files {
        if source.limits.is_over() {
            selected.is_cut = true;
            break;
        }
        if !query.filter.accepts(file) {
            continue;
        }
        let passages = file_passages(file).filter(|passage| {
            let kind = passage.symbol.map(|symbol| symbol.kind);
            query
                .kind
                .is_none_or(|wanted| kind.is_some_and(|kind| kind.is_a(wanted)))
        });
        selected.passages.extend(passages);
        if selected.passages.len() > MAX_PASSAGES {
            selected.passages.truncate(MAX_PASSAGES);
            selected.is_cut = true;
            break;
        }
    }
    selected
}

/// Returns the passages of a file.
fn file_passages(file: &IndexedFile) -> impl Iterator<Item = Passage<'_>> {
    let next = |at: usize| file.symbols.get(at).map(|symbol| symbol.line);
    let begins = next(0).is_none_or(|line| line > 1);
    let beginning = begins.then(|| Passage {
        file,
        symbol: None,
        first: 1,
        next: next(0),
    });
    let definitions = file
        .symbols
        .iter()
        .enumerate()
        .map(move |(at, symbol)| Passage {
            file,
            symbol: Some(symbol),
            first: symbol.line,
            next: next(at + 1),
        });
    // Of several definitions in one line, the last one has the lines that follow.
    let definitions = definitions.filter(|passage| passage.next != Some(passage.first));
    beginning.into_iter().chain(definitions)
}

impl Passage<'_> {
    /// Returns what the vector of the passage is stored by.
    pub(super) fn key(&self) -> PassageKey {
        PassageKey {
            content: self.file.content,
            line: self.first,
        }
    }

    /// Returns the text to embed: the path and the name of the definition, and the lines; empty without lines. `None` if
    /// the file cannot be read any more.
    pub(super) fn embedded_text(
        &self,
        source: &SearchSource<'_>,
        reader: &mut ReadTexts<'_>,
    ) -> Option<String> {
        let text = reader.get(self.file)?;
        let mut out = format!("{}\n", self.file.path);
        if let Some(symbol) = self.symbol {
            out += &format!("{} {}\n", symbol.kind.name(), source.symbol_name(symbol));
        }
        let start = out.len();
        for line in self.lines(&text, MAX_LINES) {
            // As in results: a part of a secret would not be masked.
            let line = shorten_line(line);
            if out.len() + line.len() > MAX_BYTES && out.len() > start {
                break;
            }
            out += &line;
            out.push('\n');
        }
        if out[start..].trim().is_empty() {
            out.clear();
        }
        Some(out)
    }

    /// Returns the result for the passage. `None` if the file cannot be read any more.
    pub(super) fn hit(
        &self,
        source: &SearchSource<'_>,
        reader: &mut ReadTexts<'_>,
    ) -> Option<CodeHit> {
        let text = reader.get(self.file)?;
        let mut lines: Vec<&str> = self.lines(&text, SHOWN_LINES).collect();
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let last = (self.first as usize + lines.len()).checked_sub(2)?;
        Some(CodeHit {
            path: self.file.path.to_string(),
            line: self.first,
            end_line: Some(line_number(last)),
            kind: self.symbol.map(|symbol| symbol.kind.name()),
            symbol: self.symbol.map(|symbol| source.symbol_name(symbol)),
            text: outdent(&lines).join("\n"),
        })
    }

    fn lines<'t>(&self, text: &'t str, most: usize) -> impl Iterator<Item = &'t str> {
        let first = self.first as usize;
        let count = self
            .next
            .map_or(most, |next| (next as usize).saturating_sub(first));
        text.lines()
            .skip(first.saturating_sub(1))
            .take(count.min(most))
    }
}
