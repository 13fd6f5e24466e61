//! Ranking by meaning. An embeddings endpoint computes a vector for each text; the closer the vectors of a passage and
//! of the query, the closer their meanings. `client` queries the endpoint, `vectors` stores vectors until a memory
//! changes.

use std::collections::VecDeque;

use mimir_sdk::{Result, text};

use crate::search::{Memory, Passage};
use crate::store::Store;

mod client;
mod settings;
mod vectors;

#[cfg(test)]
pub(crate) use client::Response;
pub(crate) use client::{Network, Transport};
pub(crate) use settings::{Settings, VARIABLE};
use vectors::Vectors;

/// Number of passages per request, across memories. Providers accept some hundred, whose vectors take some megabytes.
const PASSAGES_PER_REQUEST: usize = 128;

/// Maximum number of passages that one search embeds. Further passages are left to the next search, so that a search
/// after many changes still ends in time.
const MAX_NEW_PASSAGES: usize = 1_024;

/// Maximum number of bytes of a stored value, without its header.
const MAX_VALUE: usize = (1 << 20) - 64;

/// Number of nearest passages that are ranked. Further passages are hardly related to the query.
const NEAREST: usize = 40;

/// The passages closest to a query in meaning.
pub(crate) struct MeaningRanking {
    /// Indexes of the passages, the nearest first.
    pub(crate) nearest: Vec<usize>,
    /// Reason for an incomplete result.
    pub(crate) note: Option<String>,
}

/// Ranks the passages by meaning.
pub(crate) fn rank_by_meaning(
    settings: &Settings,
    transport: &impl Transport,
    store: &impl Store,
    memories: &[Memory],
    passages: &[Passage],
    query: &str,
) -> Result<MeaningRanking> {
    let mut note = None;
    let query = client::embed(settings, transport, &[query])?.remove(0);
    // The number of passages per memory is limited: each search would compute vectors again that are too large to
    // store, and have no time for other memories.
    let limit = (MAX_VALUE / query.len().max(1)).min(MAX_NEW_PASSAGES);
    let mut truncated = 0;
    let mut known: Vec<Option<Vec<i8>>> = vec![None; passages.len()];
    // Memories without stored vectors: the index of the memory, and the indexes of its passages.
    let mut missing: Vec<(usize, Vec<usize>)> = Vec::new();
    for (index, memory) in memories.iter().enumerate() {
        let own = passages.iter().enumerate();
        let own = own.filter(|(_, passage)| passage.memory == index);
        let mut own: Vec<usize> = own.map(|(at, _)| at).collect();
        if own.len() > limit {
            own.truncate(limit);
            truncated += 1;
        }
        match Vectors::read(store, settings, memory, (own.len(), query.len()))? {
            Some(vectors) => {
                for (at, vector) in own.into_iter().zip(vectors.0) {
                    known[at] = Some(vector);
                }
            }
            None => missing.push((index, own)),
        }
    }
    let (mut new_passages, mut postponed) = (0, 0);
    missing.retain(|(_, own)| {
        let fits = new_passages == 0 || new_passages + own.len() <= MAX_NEW_PASSAGES;
        if fits {
            new_passages += own.len();
        } else {
            postponed += 1;
        }
        fits
    });
    let mut texts = missing
        .iter()
        .flat_map(|(_, own)| own)
        .map(|at| passages[*at].ranked_text.as_str());
    let mut computed: VecDeque<Vec<i8>> = VecDeque::new();
    for (memory, own) in &missing {
        // The vectors of a memory are stored as soon as they are complete, so that a later failure does not lose them.
        while computed.len() < own.len() {
            let batch: Vec<&str> = texts.by_ref().take(PASSAGES_PER_REQUEST).collect();
            let vectors = client::embed(settings, transport, &batch)?;
            computed.extend(
                vectors
                    .iter()
                    .map(|vector| mimir_embeddings::quantize(vector)),
            );
        }
        let vectors = Vectors(computed.drain(..own.len()).collect());
        if let Err(error) = vectors.write(store, settings, &memories[*memory]) {
            // This search can still use the vectors.
            note = Some(format!(
                "vectors are not stored: {}",
                text::brief(error.message())
            ));
        }
        for (at, vector) in own.iter().zip(vectors.0) {
            known[*at] = Some(vector);
        }
    }
    if truncated > 0 && note.is_none() {
        note = Some(format!(
            "{truncated} memories are so long that only their first {limit} passages are ranked by meaning; split them"
        ));
    }
    if postponed > 0 {
        note = Some(format!(
            "{postponed} memories have changed and are ranked by words alone this time; search again to include them"
        ));
    }
    vectors::remove_orphans(store, memories)?;
    Ok(MeaningRanking {
        nearest: nearest_passages(&query, &known),
        note,
    })
}

/// Returns the indexes of the [`NEAREST`] vectors that are most similar to the query, the most similar first.
fn nearest_passages(query: &[f32], known: &[Option<Vec<i8>>]) -> Vec<usize> {
    let mut nearest: Vec<(usize, f32)> = known
        .iter()
        .enumerate()
        .filter_map(|(at, vector)| {
            Some((
                at,
                mimir_embeddings::cosine_similarity(query, vector.as_ref()?)?,
            ))
        })
        .collect();
    nearest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    nearest.truncate(NEAREST);
    nearest.into_iter().map(|(at, _)| at).collect()
}
