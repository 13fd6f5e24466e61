//! `memory_search`.

use std::collections::HashSet;

use bm25::Tokenizer as _;
use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, text};

use crate::folder::{FOLDER, Folder};
use crate::meaning::{self, Network, Settings, Transport};
use crate::name::Name;
use crate::part::{Part, parts};
use crate::rank::{Ranking, Words};
use crate::shown::{alone, counted, lines};
use crate::store::{Host, Store};
use crate::words_of;

/// Maximum size of a query in bytes.
const MAX_QUERY: usize = 2_000;

/// Lines and bytes of a snippet: enough to judge if the memory is worth reading.
const SNIPPET_LINES: usize = 8;
const SNIPPET_BYTES: usize = 700;

/// Maximum bytes of one line of a snippet.
const LINE_BYTES: usize = 300;

/// Constant of reciprocal rank fusion: the higher, the less the top ranks dominate. 60 is the usual value.
const RANK_FUSION_K: f32 = 60.0;

/// Searches notes saved by `memory_save`, by words and, if configured, by meaning. Returns the best passages with
/// their lines; `memory_get` reads a whole memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct MemorySearch {
    /// Words to search for.
    pub query: String,
    /// Most passages. Default: 5.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 20))]
    pub max_results: usize,
}

/// Default number of passages: as many as a model can use well.
fn default_results() -> usize {
    5
}

/// Search results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Found {
    /// The passages, the best first.
    pub hits: Vec<Hit>,
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
pub struct Hit {
    /// The memory.
    pub name: String,
    /// The first line of the snippet.
    pub start_line: usize,
    /// Its last line.
    pub end_line: usize,
    /// The heading above it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub heading: String,
    /// Some of its lines.
    pub snippet: String,
    /// Relevance compared with the other results.
    pub score: f32,
}

/// A memory to search.
pub(crate) struct Memory {
    pub(crate) name: Name,
    pub(crate) text: String,
}

/// A passage to rank: a part of one of the memories.
pub(crate) struct Passage {
    /// Index of the memory.
    pub(crate) memory: usize,
    pub(crate) part: Part,
    pub(crate) told: String,
}

impl Tool for MemorySearch {
    type Output = Worded<Found>;
    const GROUP: Group = Group::Memory;
    const TITLE: Option<&'static str> = Some("Search memory");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    /// The host adds the endpoint and its key if they are configured.
    fn needs() -> Needs {
        Needs::none()
            .read(FOLDER, "to search the saved memories")
            .variable(meaning::VARIABLE)
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let settings = Settings::of_host()?;
        self.search(&Folder::of(cx), &Host, settings.as_ref(), &Network)
    }
}

impl MemorySearch {
    pub(crate) fn search(
        &self,
        folder: &Folder,
        store: &impl Store,
        settings: Option<&Settings>,
        transport: &impl Transport,
    ) -> Result<Worded<Found>> {
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
        let (memories, odd) = read(folder)?;
        let passages = passages(&memories);
        let told: Vec<String> = passages
            .iter()
            .map(|passage| passage.told.clone())
            .collect();
        let by_words = Ranking::new(&told).rank(query);
        let mut notes = Vec::new();
        let by_meaning = match settings {
            Some(settings) if !passages.is_empty() => {
                let by_meaning =
                    meaning::ask(settings, transport, store, &memories, &passages, query);
                match by_meaning {
                    Ok(by_meaning) => {
                        notes.extend(by_meaning.note);
                        Some(by_meaning.nearest)
                    }
                    Err(error) => {
                        notes.push(format!(
                            "ranked by words alone, because the embeddings endpoint failed: {error}"
                        ));
                        None
                    }
                }
            }
            _ => None,
        };
        if odd > 0 {
            notes.push(format!(
                "{} in {FOLDER} cannot be searched",
                counted(odd, "file", "files")
            ));
        }
        let ranked = match &by_meaning {
            Some(nearest) => fuse_rankings(&by_words, nearest),
            None => by_words,
        };
        let words: HashSet<String> = Words.tokenize(query).into_iter().collect();
        let mut hits = Vec::new();
        for (at, score) in ranked.into_iter().take(self.max_results) {
            let passage = &passages[at];
            let memory = &memories[passage.memory];
            words_of::note(store, &memory.name)?;
            hits.push(hit(memory, &passage.part, &words, score));
        }
        let found = Found {
            hits,
            by_meaning: by_meaning.is_some(),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        };
        let text = found.text();
        Ok(Json(found).worded(text))
    }
}

/// The memories, and the number of invalid files.
fn read(folder: &Folder) -> Result<(Vec<Memory>, usize)> {
    let listing = folder.list()?;
    let (mut memories, mut odd) = (Vec::new(), listing.invalid);
    for entry in listing.entries {
        match folder.read(&entry.name) {
            Ok(Some(text)) => memories.push(Memory {
                name: entry.name,
                text,
            }),
            Ok(None) => {}
            Err(_) => odd += 1,
        }
    }
    Ok((memories, odd))
}

fn passages(memories: &[Memory]) -> Vec<Passage> {
    let each = memories.iter().enumerate().flat_map(|(memory, kept)| {
        parts(&kept.text).into_iter().map(move |part| Passage {
            memory,
            told: part.told(kept.name.as_str()),
            part,
        })
    });
    each.collect()
}

/// Merges two rankings.
fn fuse_rankings(words: &[(usize, f32)], meanings: &[usize]) -> Vec<(usize, f32)> {
    let mut scores: std::collections::BTreeMap<usize, f32> = std::collections::BTreeMap::new();
    let words = words.iter().map(|(passage, _)| *passage);
    for ranking in [words.collect::<Vec<_>>(), meanings.to_vec()] {
        for (rank, passage) in (1u16..).zip(ranking) {
            *scores.entry(passage).or_default() += 1.0 / (RANK_FUSION_K + f32::from(rank));
        }
    }
    let mut all: Vec<_> = scores.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

/// The lines of a part that match the query best, with their context.
fn hit(memory: &Memory, part: &Part, words: &HashSet<String>, score: f32) -> Hit {
    let own: Vec<_> = lines(&memory.text)
        .skip(part.start - 1)
        .take(part.end + 1 - part.start)
        .collect();
    let known = |text: &str| {
        let there: HashSet<String> = Words.tokenize(text).into_iter().collect();
        there.intersection(words).count()
    };
    let best = own.iter().enumerate().max_by_key(|(at, line)| {
        // The first one wins a tie.
        (known(line.text), usize::MAX - at)
    });
    let best = best.map_or(0, |(at, _)| at);
    let first = best.saturating_sub(1);
    let (mut snippet, mut last) = (String::new(), first);
    for (at, line) in own.iter().enumerate().skip(first).take(SNIPPET_LINES) {
        let whole = alone(&memory.text, *line);
        let shown = &whole[pieces::excerpt(whole, first_known(whole, words), LINE_BYTES)];
        if at > best && snippet.len() + shown.len() > SNIPPET_BYTES {
            break;
        }
        snippet.push_str(shown);
        snippet.push('\n');
        last = at;
    }
    Hit {
        name: memory.name.to_string(),
        start_line: part.start + first,
        end_line: part.start + last,
        heading: part.heading.clone(),
        snippet: snippet.trim_end().to_owned(),
        // More digits would not be significant.
        score: (score * 10_000.0).round() / 10_000.0,
    }
}

/// Byte offset of the first query word in a line.
fn first_known(line: &str, words: &HashSet<String>) -> usize {
    let mut at = 0;
    for run in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
        if Words.tokenize(run).iter().any(|word| words.contains(word)) {
            return at;
        }
        at += run.len();
    }
    0
}

impl Found {
    /// Formats the results for a model.
    fn text(&self) -> String {
        let mut all = String::new();
        for hit in &self.hits {
            all += &format!("{}:{}-{}", hit.name, hit.start_line, hit.end_line);
            if !hit.heading.is_empty() {
                all += &format!("  ({})", text::brief(&hit.heading));
            }
            all.push('\n');
            for line in hit.snippet.lines() {
                all += &format!("    {line}\n");
            }
        }
        if self.hits.is_empty() {
            all.push_str("nothing was found\n");
        }
        if let Some(note) = &self.note {
            all += &format!("({note})\n");
        }
        all
    }
}
