//! Search by meaning: an embeddings endpoint computes a vector for each passage, and the passages whose vectors are
//! closest to that of the query are the result.
//!
//! A search selects passages (`passages`), has the endpoint compute the vectors that are missing (`endpoint`), and
//! compares. `vectors` keeps the vectors in the state folder until the content of a file changes.

mod endpoint;
mod passages;
mod vectors;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use mimir_core::{Approved, ToolError, text};

pub(crate) use endpoint::EmbeddingsClient;
pub use endpoint::{EmbeddingRequest, EmbeddingResponse, EmbeddingTransport};
use passages::{Passage, select_passages};
pub(crate) use vectors::{PassageKey, PassageVectors};

use crate::search::{CodeHits, CodeQuery, SearchSource};

/// Number of texts per request. Providers accept some hundred, whose vectors take some megabytes.
const TEXTS_PER_REQUEST: usize = 64;

/// Maximum number of passages that one search embeds. Further ones are left to the next search, so that the first
/// search of a large workspace ends in time. The passages that share most words with the query come first.
const MAX_NEW_PASSAGES: usize = 512;

/// The passages of a search, and the texts that have no vector yet.
pub(crate) struct MeaningPlan {
    /// Number of passages to compare.
    passages: usize,
    /// True if further passages were left out.
    is_cut: bool,
    new: Vec<NewPassage>,
    /// Passages without text, which have no meaning.
    blank: Vec<PassageKey>,
}

/// A passage to embed.
struct NewPassage {
    key: PassageKey,
    text: String,
}

/// The vectors of a search.
pub(crate) struct ComputedVectors {
    query: Vec<f32>,
    new: Vec<(PassageKey, Vec<i8>)>,
    /// The reason for which not all requested vectors were computed.
    failure: Option<String>,
}

impl MeaningPlan {
    /// Selects the passages of a search, and reads the texts to embed.
    pub(crate) fn new(
        source: &SearchSource<'_>,
        query: &CodeQuery<'_>,
        vectors: &PassageVectors,
    ) -> Self {
        let selected = select_passages(source, query);
        let mut plan = Self {
            passages: selected.passages.len(),
            is_cut: selected.is_cut,
            new: Vec::new(),
            blank: Vec::new(),
        };
        // Files with the same content share their vectors.
        let mut planned = HashSet::new();
        let passages = selected.passages.iter();
        let missing = passages
            .filter(|passage| !vectors.contains(&passage.key()) && planned.insert(passage.key()));
        let mut reader = source.texts();
        for passage in missing {
            if plan.new.len() == MAX_NEW_PASSAGES || source.limits.is_over() {
                break;
            }
            let key = passage.key();
            match passage.embedded_text(source, &mut reader) {
                Some(text) if text.is_empty() => plan.blank.push(key),
                Some(text) => plan.new.push(NewPassage { key, text }),
                None => {}
            }
        }
        plan
    }

    /// Has the endpoint compute the vector of the query, and those that are missing. Secrets in the texts are masked.
    ///
    /// # Errors
    ///
    /// Returns an error if the query has no vector. Without the vectors of some passages, the others are compared.
    pub(crate) async fn compute(
        &mut self,
        call: &Approved,
        transport: &dyn EmbeddingTransport,
        endpoint: &EmbeddingsClient,
        query: &str,
        until: Instant,
    ) -> Result<ComputedVectors, ToolError> {
        let mut vectors = endpoint.embed(transport, call, &[query], until).await?;
        let query = vectors.pop().unwrap_or_default();
        // Without a direction, a vector is similar to none.
        let blank = self.blank.iter().map(|key| (*key, vec![0; query.len()]));
        let mut computed = ComputedVectors {
            new: blank.collect(),
            query,
            failure: None,
        };
        let effects = call.effects();
        let texts = self.new.iter_mut().map(|passage| &mut passage.text);
        effects.output_redactor().mask_texts(texts);
        for batch in self.new.chunks(TEXTS_PER_REQUEST) {
            if Instant::now() >= until {
                break;
            }
            let texts: Vec<&str> = batch.iter().map(|passage| passage.text.as_str()).collect();
            match endpoint.embed(transport, call, &texts, until).await {
                Ok(vectors) => {
                    let keys = batch.iter().map(|passage| passage.key);
                    let vectors = vectors
                        .iter()
                        .map(|vector| mimir_embeddings::quantize(vector));
                    computed.new.extend(keys.zip(vectors));
                }
                Err(error) => {
                    computed.failure = Some(error.message);
                    break;
                }
            }
        }
        Ok(computed)
    }

    /// Returns the passages that are closest to the query, the closest first. Remembers the new vectors.
    pub(crate) fn rank(
        &self,
        source: &SearchSource<'_>,
        query: &CodeQuery<'_>,
        vectors: &mut PassageVectors,
        computed: ComputedVectors,
    ) -> CodeHits {
        vectors.extend(computed.query.len(), computed.new);
        // Selected again: files may have changed while the endpoint computed.
        let selected = select_passages(source, query);
        let mut similar: HashMap<PassageKey, Option<f32>> = HashMap::new();
        let mut ranked: Vec<(f32, &Passage<'_>)> = Vec::new();
        let mut without = 0;
        for passage in &selected.passages {
            let key = passage.key();
            let Some(vector) = vectors.get(&key) else {
                without += 1;
                continue;
            };
            let similarity = *similar
                .entry(key)
                .or_insert_with(|| mimir_embeddings::cosine_similarity(&computed.query, vector));
            if let Some(similarity) = similarity {
                ranked.push((similarity, passage));
            }
        }
        // Among equal ones, the order of the selection stays: by shared words, and by path.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut reader = source.texts();
        let mut found = CodeHits::default();
        for (_, passage) in ranked {
            if found.hits.len() == query.max_results || source.limits.is_over() {
                found.truncated = true;
                break;
            }
            found.hits.extend(passage.hit(source, &mut reader));
        }
        found.note = self.note(without, computed.failure.as_deref());
        found
    }

    /// Returns the reason for an incomplete result.
    fn note(&self, without: usize, failure: Option<&str>) -> Option<String> {
        let mut notes = Vec::new();
        if let Some(failure) = failure {
            notes.push(format!(
                "the embeddings endpoint failed: {}",
                text::visible(text::prefix(failure, 300))
            ));
        }
        if without > 0 {
            let total = self.passages;
            let compared = total.saturating_sub(without);
            let next = match failure {
                None => "; search again to continue, or narrow the search with `path`",
                Some(_) => "",
            };
            notes.push(format!(
                "{compared} of {total} passages were compared{next}"
            ));
        }
        if self.is_cut {
            notes.push(
                "the workspace has too many passages to compare all: narrow the search with `path`"
                    .to_owned(),
            );
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
