//! `memory_search`.

use std::collections::HashSet;

use bm25::Tokenizer as _;
use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, text};

use crate::embeddings::{self, Network, Settings, Transport};
use crate::folder::{FOLDER, MemoryFolder};
use crate::lines::{counted, lines, without_key_material};
use crate::name::Name;
use crate::rank::{Ranking, Words};
use crate::section::{Section, split_sections};
use crate::store::{HostStorage, Store};
use crate::taint_marks;

/// Maximum size of a query in bytes.
const MAX_QUERY: usize = 2_000;

/// Maximum numbers of lines and bytes of a snippet: enough to judge if the memory is worth reading. The best line and
/// the one before it are always included.
const SNIPPET_LINES: usize = 8;
const SNIPPET_BYTES: usize = 700;

/// Maximum bytes of one line of a snippet.
const LINE_BYTES: usize = 300;

/// Constant of reciprocal rank fusion. The higher it is, the less the top ranks dominate; 60 is the usual value.
const RANK_FUSION_K: f32 = 60.0;

/// Searches notes saved by `memory_save`, by words and, if configured, by meaning. Returns the best passages with
/// their lines; `memory_get` reads a whole memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct MemorySearch {
    /// Words to search for.
    pub query: String,
    /// Maximum number of passages. Default: 5.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 20))]
    pub max_results: usize,
}

/// Default number of passages.
fn default_results() -> usize {
    5
}

/// Search results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SearchResult {
    /// The passages, the best first.
    pub hits: Vec<MemoryMatch>,
    /// True if the search compared meanings in addition to words.
    pub by_meaning: bool,
    /// Reason for an incomplete result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A passage of a memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MemoryMatch {
    /// Name of the memory.
    pub name: String,
    /// Line number of the first line of the snippet, from 1.
    pub start_line: usize,
    /// Line number of the last line of the snippet.
    pub end_line: usize,
    /// Heading of the section, unless the section begins with it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub heading: String,
    /// Lines of the passage that match the query best.
    pub snippet: String,
    /// Relevance compared with the other results.
    pub score: f32,
}

/// A memory to search.
pub(crate) struct Memory {
    pub(crate) name: Name,
    pub(crate) text: String,
}

/// A passage to rank: a section of one of the memories.
pub(crate) struct Passage {
    /// Index of the memory.
    pub(crate) memory: usize,
    pub(crate) section: Section,
    /// The text to rank: the section with the name of the memory and the heading.
    pub(crate) ranked_text: String,
}

impl Tool for MemorySearch {
    type Output = Worded<SearchResult>;
    const GROUP: Group = Group::Memory;
    const TITLE: Option<&'static str> = Some("Search memory");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    /// The host adds the endpoint and its key if they are configured.
    fn needs() -> Needs {
        Needs::none()
            .read(FOLDER, "to search the saved memories")
            .variable(embeddings::VARIABLE)
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let settings = Settings::from_environment()?;
        self.search(
            &MemoryFolder::in_workspace(cx),
            &HostStorage,
            settings.as_ref(),
            &Network,
        )
    }
}

impl MemorySearch {
    pub(crate) fn search(
        &self,
        folder: &MemoryFolder,
        store: &impl Store,
        settings: Option<&Settings>,
        transport: &impl Transport,
    ) -> Result<Worded<SearchResult>> {
        let query = self.query.trim();
        if query.is_empty() {
            return Err(Error::invalid_input(
                "the query is empty: expected words to search for",
            ));
        }
        if query.len() > MAX_QUERY {
            return Err(Error::invalid_input(format_args!(
                "the query has {} bytes, but at most {MAX_QUERY} are allowed; use fewer words",
                query.len()
            )));
        }
        let (memories, invalid) = read_memories(folder)?;
        let passages = split_into_passages(&memories);
        let RankedPassages {
            order,
            by_meaning,
            mut notes,
        } = rank_passages(settings, transport, store, &memories, &passages, query);
        if invalid > 0 {
            notes.push(format!(
                "{} in {FOLDER} cannot be searched",
                counted(invalid, "file", "files")
            ));
        }
        let words: HashSet<String> = Words.tokenize(query).into_iter().collect();
        let mut hits = Vec::new();
        for (at, score) in order.into_iter().take(self.max_results) {
            let passage = &passages[at];
            let memory = &memories[passage.memory];
            // Reading the mark taints this call if the memory was saved by a tainted session.
            taint_marks::record_read(store, &memory.name)?;
            hits.push(build_match(memory, &passage.section, &words, score));
        }
        let found = SearchResult {
            hits,
            by_meaning,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        };
        let text = found.text();
        Ok(Json(found).worded(text))
    }
}

/// Reads all memories. Also returns the number of invalid files.
fn read_memories(folder: &MemoryFolder) -> Result<(Vec<Memory>, usize)> {
    let listing = folder.list()?;
    let (mut memories, mut invalid) = (Vec::new(), listing.invalid);
    for entry in listing.entries {
        match folder.read(&entry.name) {
            Ok(Some(text)) => memories.push(Memory {
                name: entry.name,
                text,
            }),
            Ok(None) => {}
            Err(_) => invalid += 1,
        }
    }
    Ok((memories, invalid))
}

/// Splits all memories into the passages to rank.
fn split_into_passages(memories: &[Memory]) -> Vec<Passage> {
    let passages = memories.iter().enumerate().flat_map(|(index, memory)| {
        split_sections(&memory.text)
            .into_iter()
            .map(move |section| Passage {
                memory: index,
                ranked_text: section.ranked_text(memory.name.as_str()),
                section,
            })
    });
    passages.collect()
}

/// Passages in the order of their relevance.
struct RankedPassages {
    /// Index and score of each passage, the best first.
    order: Vec<(usize, f32)>,
    /// True if meanings were compared in addition to words.
    by_meaning: bool,
    /// Reasons for an incomplete ranking.
    notes: Vec<String>,
}

/// Ranks the passages by words and, if an embeddings endpoint is configured and works, by meaning.
fn rank_passages(
    settings: Option<&Settings>,
    transport: &impl Transport,
    store: &impl Store,
    memories: &[Memory],
    passages: &[Passage],
    query: &str,
) -> RankedPassages {
    let ranked_texts: Vec<String> = passages
        .iter()
        .map(|passage| passage.ranked_text.clone())
        .collect();
    let by_words = Ranking::new(&ranked_texts).rank(query);
    let Some(settings) = settings.filter(|_| !passages.is_empty()) else {
        return RankedPassages {
            order: by_words,
            by_meaning: false,
            notes: Vec::new(),
        };
    };
    match embeddings::rank_by_meaning(settings, transport, store, memories, passages, query) {
        Ok(ranking) => RankedPassages {
            order: fuse_rankings(&by_words, &ranking.nearest),
            by_meaning: true,
            notes: ranking.note.into_iter().collect(),
        },
        Err(error) => RankedPassages {
            order: by_words,
            by_meaning: false,
            notes: vec![format!(
                "ranked by words alone, because the embeddings endpoint failed: {error}"
            )],
        },
    }
}

/// Merges two rankings by reciprocal rank fusion.
fn fuse_rankings(words: &[(usize, f32)], meanings: &[usize]) -> Vec<(usize, f32)> {
    let mut scores: std::collections::BTreeMap<usize, f32> = std::collections::BTreeMap::new();
    let words = words.iter().map(|(passage, _)| *passage);
    for ranking in [words.collect::<Vec<_>>(), meanings.to_vec()] {
        for (rank, passage) in (1u16..).zip(ranking) {
            *scores.entry(passage).or_default() += 1.0 / (RANK_FUSION_K + f32::from(rank));
        }
    }
    let mut fused: Vec<_> = scores.into_iter().collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    fused
}

/// Builds the result for a section: the lines that match the query best, with their context.
fn build_match(
    memory: &Memory,
    section: &Section,
    words: &HashSet<String>,
    score: f32,
) -> MemoryMatch {
    let section_lines: Vec<_> = lines(&memory.text)
        .skip(section.start - 1)
        .take(section.end + 1 - section.start)
        .collect();
    let count_query_words = |text: &str| {
        let line_words: HashSet<String> = Words.tokenize(text).into_iter().collect();
        line_words.intersection(words).count()
    };
    let best = section_lines.iter().enumerate().max_by_key(|(at, line)| {
        // Of several equally good lines, the first one is used.
        (count_query_words(line.text), usize::MAX - at)
    });
    let best = best.map_or(0, |(at, _)| at);
    let first = best.saturating_sub(1);
    let (mut snippet, mut last) = (String::new(), first);
    for (at, line) in section_lines
        .iter()
        .enumerate()
        .skip(first)
        .take(SNIPPET_LINES)
    {
        let whole = without_key_material(&memory.text, *line);
        let excerpt = pieces::excerpt(whole, first_query_word_offset(whole, words), LINE_BYTES);
        let excerpt = &whole[excerpt];
        if at > best && snippet.len() + excerpt.len() > SNIPPET_BYTES {
            break;
        }
        snippet.push_str(excerpt);
        snippet.push('\n');
        last = at;
    }
    MemoryMatch {
        name: memory.name.to_string(),
        start_line: section.start + first,
        end_line: section.start + last,
        heading: section.heading.clone(),
        snippet: snippet.trim_end().to_owned(),
        // More digits would not be significant.
        score: (score * 10_000.0).round() / 10_000.0,
    }
}

/// Returns the byte offset of the first query word in a line, or 0.
fn first_query_word_offset(line: &str, words: &HashSet<String>) -> usize {
    let mut at = 0;
    for run in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
        if Words.tokenize(run).iter().any(|word| words.contains(word)) {
            return at;
        }
        at += run.len();
    }
    0
}

impl SearchResult {
    /// Formats the results for a model.
    fn text(&self) -> String {
        let mut out = String::new();
        for hit in &self.hits {
            out += &format!("{}:{}-{}", hit.name, hit.start_line, hit.end_line);
            if !hit.heading.is_empty() {
                out += &format!("  ({})", text::brief(&hit.heading));
            }
            out.push('\n');
            for line in hit.snippet.lines() {
                out += &format!("    {line}\n");
            }
        }
        if self.hits.is_empty() {
            out.push_str("nothing was found\n");
        }
        if let Some(note) = &self.note {
            out += &format!("({note})\n");
        }
        out
    }
}
