//! Vectors stored between calls: one stored value per memory, valid until the memory or the model changes.
//!
//! Each number is stored as one byte: the lost precision is less than the difference between models. The values depend
//! on the files alone, not on the session, so the host attaches no taint to them (`derived/`).

use mimir_sdk::serde_json;
use mimir_sdk::{Error, Result};
use sha2::{Digest as _, Sha256};

use super::Settings;
use crate::search::Memory;
use crate::store::Store;

/// Prefix of the keys.
const KEYS: &str = "derived/vectors/";

/// The vectors of a memory's passages, in order.
pub(super) struct Vectors(pub(super) Vec<Vec<i8>>);

fn key(memory: &Memory) -> String {
    format!("{KEYS}{}", memory.name)
}

/// Returns a hash of everything that the vectors depend on.
fn input_hash(settings: &Settings, memory: &Memory) -> Vec<u8> {
    let inputs = serde_json::json!([
        1,
        settings.url,
        settings.model,
        settings.dimensions,
        memory.name.as_str(),
        memory.text
    ]);
    Sha256::digest(inputs.to_string()).to_vec()
}

impl Vectors {
    /// Reads the stored vectors if they were computed from exactly this content: `passages` vectors with `dimensions`
    /// numbers each.
    pub(super) fn read(
        store: &impl Store,
        settings: &Settings,
        memory: &Memory,
        (passages, dimensions): (usize, usize),
    ) -> Result<Option<Self>> {
        let Some(value) = store.get(&key(memory))? else {
            return Ok(None);
        };
        let hash = input_hash(settings, memory);
        let bytes = value.strip_prefix(&hash[..]);
        let Some(bytes) = bytes.filter(|bytes| bytes.len() == passages * dimensions) else {
            return Ok(None);
        };
        let chunks = bytes.chunks_exact(dimensions);
        let vectors =
            chunks.map(|vector| vector.iter().map(|number| number.cast_signed()).collect());
        Ok(Some(Self(vectors.collect())))
    }

    pub(super) fn write(
        &self,
        store: &impl Store,
        settings: &Settings,
        memory: &Memory,
    ) -> Result<()> {
        let mut value = input_hash(settings, memory);
        for vector in &self.0 {
            value.extend(vector.iter().map(|number| number.cast_unsigned()));
        }
        store.set(&key(memory), &value)
    }
}

/// Removes the vectors of memories that do not exist any more.
pub(super) fn remove_orphans(store: &impl Store, memories: &[Memory]) -> Result<()> {
    for stored_key in store.keys(KEYS)? {
        if !memories.iter().any(|memory| key(memory) == stored_key) {
            store.delete(&stored_key)?;
        }
    }
    Ok(())
}

/// Quantizes a vector to bytes. The length of the vector is lost, because only directions are compared.
pub(super) fn quantise(vector: &[f32]) -> Vec<i8> {
    let max = vector
        .iter()
        .fold(0.0_f32, |max, number| max.max(number.abs()));
    let scale = if max > 0.0 { 127.0 / max } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "between -127 and 127 after the scale"
    )]
    let byte = |number: &f32| (number * scale).round() as i8;
    vector.iter().map(byte).collect()
}

/// Returns the cosine similarity of two vectors. `None` if their dimensions differ, or if the similarity is not
/// positive.
pub(super) fn cosine_similarity(query: &[f32], passage: &[i8]) -> Option<f32> {
    if query.len() != passage.len() {
        return None;
    }
    let (mut product, mut query_square, mut passage_square) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (a, b) in query.iter().zip(passage) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        product += a * b;
        query_square += a * a;
        passage_square += b * b;
    }
    let lengths = (query_square * passage_square).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
    let cosine = (product / lengths) as f32;
    (lengths > 0.0 && cosine > 0.0).then_some(cosine)
}

/// Checks that a response has the expected number of vectors, all with the same number of finite dimensions.
pub(super) fn check_vectors(vectors: Vec<Vec<f32>>, expected: usize) -> Result<Vec<Vec<f32>>> {
    let length = vectors.first().map_or(0, Vec::len);
    let is_complete = vectors.len() == expected && length > 0;
    let fits = |vector: &Vec<f32>| {
        vector.len() == length && vector.iter().all(|number| number.is_finite())
    };
    if is_complete && vectors.iter().all(fits) {
        Ok(vectors)
    } else {
        Err(Error::network("it did not return one vector for each text"))
    }
}
