//! Search for passages about words: files ranked by BM25, and in each the lines with most of the words.

use super::snippet::outdent;
use super::{CodeHit, CodeHits, CodeQuery, SearchSource};
use crate::index::{IndexedFile, SymbolEntry};
use crate::words::{TermHash, query_terms, visit_terms};

/// Parameters of BM25: the effect of repeated terms, and of the length of a file.
const REPETITION: f32 = 1.2;
const LENGTH: f32 = 0.6;

/// Least number of files whose lines are compared, and the number for each wanted result.
const MIN_CANDIDATES: usize = 30;
const CANDIDATES_PER_RESULT: usize = 2;

/// Maximum number of terms of a query.
const MAX_TERMS: usize = 32;

/// Maximum number of lines of a passage.
const PASSAGE_LINES: usize = 8;

/// A term of a query with its weight.
struct WeightedTerm {
    term: TermHash,
    /// The rarer the term, the higher.
    weight: f32,
}

/// A file with its score.
struct RankedFile<'i> {
    file: &'i IndexedFile,
    score: f32,
}

/// The best lines of a file.
struct CodePassage {
    /// Indexes of the first and the last line.
    first: usize,
    last: usize,
    weight: f32,
}

pub(super) fn search(source: &SearchSource<'_>, query: &CodeQuery<'_>) -> CodeHits {
    let weighted = weigh_terms(source, query.query);
    let total: f32 = weighted.iter().map(|term| term.weight).sum();
    let files = rank_files(source, query, &weighted, total);
    let best = files.first().map_or(1.0, |file| file.score);
    let mut found = CodeHits::default();
    let mut ranked = Vec::new();
    for RankedFile { file, score } in files {
        if source.limits.is_over() {
            found.truncated = true;
            break;
        }
        let Some(text) = source.read(file) else {
            continue;
        };
        let lines: Vec<&str> = text.lines().collect();
        let Some(passage) = best_passage(source, file, &lines, &weighted) else {
            continue;
        };
        let score = 0.4 * score / best + 0.6 * passage.weight / total;
        let symbol = enclosing_symbol(file, &passage);
        if query
            .kind
            .is_some_and(|kind| symbol.is_none_or(|symbol| !symbol.kind.is_a(kind)))
        {
            continue;
        }
        let hit = CodeHit {
            path: file.path.to_string(),
            line: line_number(passage.first),
            end_line: Some(line_number(passage.last)),
            kind: symbol.map(|symbol| symbol.kind.name()),
            symbol: symbol.map(|symbol| source.symbol_name(symbol)),
            text: outdent(&lines[passage.first..=passage.last]).join("\n"),
        };
        ranked.push((score, hit));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.path.cmp(&b.1.path)));
    found.truncated |= ranked.len() > query.max_results;
    ranked.truncate(query.max_results);
    found.hits = ranked.into_iter().map(|(_, hit)| hit).collect();
    found
}

/// Returns the number of a line from its index.
pub(crate) fn line_number(index: usize) -> u32 {
    u32::try_from(index).map_or(u32::MAX, |index| index + 1)
}

/// Returns the terms of a query with their weights.
fn weigh_terms(source: &SearchSource<'_>, query: &str) -> Vec<WeightedTerm> {
    let mut terms = query_terms(query);
    terms.truncate(MAX_TERMS);
    #[expect(clippy::cast_precision_loss, reason = "a weight")]
    let files = source.index.len() as f32;
    let weigh = |term: &TermHash| {
        let count = source.index.files_with(*term).count();
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let count = (count as f32).min(files);
        WeightedTerm {
            term: *term,
            weight: ((files - count + 0.5) / (count + 0.5)).ln_1p(),
        }
    };
    terms.iter().map(weigh).collect()
}

/// Returns the score of each file of the index for a query; 0 for files without any of its words.
pub(crate) fn word_scores(source: &SearchSource<'_>, query: &str) -> Vec<f32> {
    let terms = weigh_terms(source, query);
    let total: f32 = terms.iter().map(|term| term.weight).sum();
    score_files(source, &terms, total)
}

/// Returns the score of each file of the index.
fn score_files(source: &SearchSource<'_>, terms: &[WeightedTerm], total: f32) -> Vec<f32> {
    let index = source.index;
    let average = index.average_length();
    // For each file, the score and the weight of the terms that it contains.
    let mut scores = vec![(0.0_f32, 0.0_f32); index.files.len()];
    for WeightedTerm { term, weight } in terms {
        for (id, count) in index.files_with(*term) {
            let Some(file) = index.file(id) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "a score")]
            let length = file.length as f32 / average;
            let count = f32::from(count);
            let norm = REPETITION * (1.0 - LENGTH + LENGTH * length);
            let entry = &mut scores[id as usize];
            entry.0 += weight * count * (REPETITION + 1.0) / (count + norm);
            entry.1 += weight;
        }
    }
    // Files with all terms come before those with one of them many times.
    let scores = scores.into_iter().map(|(score, covered)| {
        if score > 0.0 {
            score * (0.3 + 0.7 * covered / total)
        } else {
            0.0
        }
    });
    scores.collect()
}

/// Returns the files with the highest scores, the best first.
fn rank_files<'i>(
    source: &SearchSource<'i>,
    query: &CodeQuery<'_>,
    terms: &[WeightedTerm],
    total: f32,
) -> Vec<RankedFile<'i>> {
    let scores = score_files(source, terms, total);
    let mut ranked: Vec<RankedFile<'i>> = Vec::new();
    for (file, score) in source.index.files.iter().zip(scores) {
        if let Some(file) = file
            && score > 0.0
        {
            ranked.push(RankedFile { file, score });
        }
    }
    ranked.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.file.path.cmp(&b.file.path))
    });
    // Checked in the order of ranks: a check of a path takes longer than its score.
    let accepted = ranked
        .into_iter()
        .filter(|ranked| query.filter.accepts(ranked.file));
    accepted
        .take(MIN_CANDIDATES.max(query.max_results * CANDIDATES_PER_RESULT))
        .collect()
}

/// Finds the lines with the highest weight of different terms.
fn best_passage(
    source: &SearchSource<'_>,
    file: &IndexedFile,
    lines: &[&str],
    terms: &[WeightedTerm],
) -> Option<CodePassage> {
    // For each line with terms, its index and the set of its terms.
    let mut matching: Vec<(usize, u32)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut set = 0_u32;
        visit_terms(line.as_bytes(), |term| {
            if let Some(at) = terms.iter().position(|known| known.term == term) {
                set |= 1 << at;
            }
        });
        if set != 0 {
            matching.push((at, set));
        }
    }
    let weigh = |set: u32| -> f32 {
        let terms = terms.iter().enumerate();
        terms
            .filter(|(at, _)| set >> at & 1 == 1)
            .map(|(_, term)| term.weight)
            .sum()
    };
    let defines = |line: usize| {
        let number = line_number(line);
        let mut symbols = file.symbols_in_lines(number, number).iter();
        symbols.any(|symbol| lines[line].contains(source.index.name(symbol.name)))
    };
    let mut best: Option<CodePassage> = None;
    for (start, (first, _)) in matching.iter().enumerate() {
        let (mut set, mut last, mut count) = (0, *first, 0.0);
        for (at, line_set) in &matching[start..] {
            if *at >= first + PASSAGE_LINES {
                break;
            }
            set |= line_set;
            last = *at;
            count += 1.0;
        }
        let weight = weigh(set);
        // Among equal passages, more lines with terms and definitions are better.
        let bonus = 0.02 * weight * count + if defines(*first) { 0.15 * weight } else { 0.0 };
        if best
            .as_ref()
            .is_none_or(|best| weight + bonus > best.weight)
        {
            best = Some(CodePassage {
                first: *first,
                last,
                weight: weight + bonus,
            });
        }
    }
    // A passage of one line shows some of what follows.
    best.map(|best| CodePassage {
        last: best.last.max(best.first + 2).min(lines.len() - 1),
        ..best
    })
}

/// Returns the definition in which a passage is: the first one that begins in it, or the last one before it.
fn enclosing_symbol<'f>(file: &'f IndexedFile, passage: &CodePassage) -> Option<&'f SymbolEntry> {
    let first = line_number(passage.first);
    let inside = file.symbols_in_lines(first, line_number(passage.last));
    inside.first().or_else(|| file.symbol_before(first))
}
