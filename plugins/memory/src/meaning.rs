//! Ranking by meaning: an endpoint makes vectors of passages, and passages whose vectors are close to that of the
//! query have a similar meaning. `send` queries the endpoint, `vectors` stores the results until a memory changes.

use std::collections::VecDeque;

use mimir_sdk::{Result, text};

use crate::search::{Memory, Passage};
use crate::store::Store;

mod send;
mod settings;
mod vectors;

#[cfg(test)]
pub(crate) use send::Response;
pub(crate) use send::{Network, Transport};
pub(crate) use settings::{Settings, VARIABLE};
use vectors::Vectors;

/// Passages per request, across memories. Providers accept some hundred; their vectors take some megabytes.
const AT_ONCE: usize = 128;

/// Maximum number of passages that one search sends for vectors. The rest is left to the next search, so that one after
/// many changes still ends in time.
const MAX_NEW_PASSAGES: usize = 1_024;

/// Maximum number of bytes of a stored value, without its header.
const MAX_VALUE: usize = (1 << 20) - 64;

/// Number of nearest passages that are ranked: the rest is hardly related.
const NEAREST: usize = 40;

/// Passages related to a query.
pub(crate) struct Meant {
    /// Indexes of the passages, the nearest first.
    pub(crate) nearest: Vec<usize>,
    /// Reason for an incomplete result.
    pub(crate) note: Option<String>,
}

/// Ranks the passages by meaning.
pub(crate) fn ask(
    settings: &Settings,
    transport: &impl Transport,
    store: &impl Store,
    memories: &[Memory],
    passages: &[Passage],
    query: &str,
) -> Result<Meant> {
    let mut note = None;
    let query = send::embed(settings, transport, &[query])?.remove(0);
    // Limits the passages of a memory: vectors that cannot be stored would be computed again by each search, and slow
    // ones would leave no time for other memories.
    let most = (MAX_VALUE / query.len().max(1)).min(MAX_NEW_PASSAGES);
    let mut cut = 0;
    let mut known: Vec<Option<Vec<i8>>> = vec![None; passages.len()];
    let mut missing: Vec<(usize, Vec<usize>)> = Vec::new();
    for (memory, kept) in memories.iter().enumerate() {
        let own = passages.iter().enumerate();
        let own = own.filter(|(_, passage)| passage.memory == memory);
        let mut own: Vec<usize> = own.map(|(at, _)| at).collect();
        if own.len() > most {
            own.truncate(most);
            cut += 1;
        }
        match Vectors::read(store, settings, kept, (own.len(), query.len()))? {
            Some(vectors) => {
                for (at, vector) in own.into_iter().zip(vectors.0) {
                    known[at] = Some(vector);
                }
            }
            None => missing.push((memory, own)),
        }
    }
    let (mut made, mut left) = (0, 0);
    missing.retain(|(_, own)| {
        let fits = made == 0 || made + own.len() <= MAX_NEW_PASSAGES;
        if fits {
            made += own.len();
        } else {
            left += 1;
        }
        fits
    });
    let mut texts = missing
        .iter()
        .flat_map(|(_, own)| own)
        .map(|at| passages[*at].told.as_str());
    let mut made: VecDeque<Vec<i8>> = VecDeque::new();
    for (memory, own) in &missing {
        // The vectors of each memory are stored as soon as they are complete, so that a later failed request does not
        // lose them.
        while made.len() < own.len() {
            let batch: Vec<&str> = texts.by_ref().take(AT_ONCE).collect();
            let vectors = send::embed(settings, transport, &batch)?;
            made.extend(vectors.iter().map(|vector| vectors::small(vector)));
        }
        let vectors = Vectors(made.drain(..own.len()).collect());
        if let Err(error) = vectors.write(store, settings, &memories[*memory]) {
            // This search can still use them.
            note = Some(format!(
                "vectors are not stored: {}",
                text::brief(error.message())
            ));
        }
        for (at, vector) in own.iter().zip(vectors.0) {
            known[*at] = Some(vector);
        }
    }
    if cut > 0 && note.is_none() {
        note = Some(format!(
            "{cut} memories are so long that only their first {most} passages are ranked by meaning; split them"
        ));
    }
    if left > 0 {
        note = Some(format!(
            "{left} memories have changed and are ranked by words alone this time; search again for the rest"
        ));
    }
    vectors::tidy(store, memories)?;
    let mut near: Vec<(usize, f32)> = known
        .iter()
        .enumerate()
        .filter_map(|(at, vector)| Some((at, vectors::nearness(&query, vector.as_ref()?)?)))
        .collect();
    near.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    near.truncate(NEAREST);
    Ok(Meant {
        nearest: near.into_iter().map(|(at, _)| at).collect(),
        note,
    })
}
