//! Vectors stored between calls: one stored value for each memory, valid until the memory or the model changes.
//!
//! A number takes one byte: the lost precision is less than the difference between models. These values are computed
//! from the files alone, whichever session does it, so the host attaches no taint to them (`derived/`).

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

/// Hash of the inputs of the vectors.
fn made_of(settings: &Settings, memory: &Memory) -> Vec<u8> {
    let of = serde_json::json!([
        1,
        settings.url,
        settings.model,
        settings.dimensions,
        memory.name.as_str(),
        memory.text
    ]);
    Sha256::digest(of.to_string()).to_vec()
}

impl Vectors {
    /// Reads the stored vectors if they belong to exactly this content: `passages` vectors of `numbers` numbers each.
    pub(super) fn read(
        store: &impl Store,
        settings: &Settings,
        memory: &Memory,
        (passages, numbers): (usize, usize),
    ) -> Result<Option<Self>> {
        let Some(value) = store.get(&key(memory))? else {
            return Ok(None);
        };
        let of = made_of(settings, memory);
        let bytes = value.strip_prefix(&of[..]);
        let Some(bytes) = bytes.filter(|bytes| bytes.len() == passages * numbers) else {
            return Ok(None);
        };
        let each = bytes.chunks_exact(numbers);
        let vectors = each.map(|vector| vector.iter().map(|number| number.cast_signed()).collect());
        Ok(Some(Self(vectors.collect())))
    }

    pub(super) fn write(
        &self,
        store: &impl Store,
        settings: &Settings,
        memory: &Memory,
    ) -> Result<()> {
        let mut value = made_of(settings, memory);
        for vector in &self.0 {
            value.extend(vector.iter().map(|number| number.cast_unsigned()));
        }
        store.set(&key(memory), &value)
    }
}

/// Removes the vectors of missing memories.
pub(super) fn tidy(store: &impl Store, memories: &[Memory]) -> Result<()> {
    for kept in store.keys(KEYS)? {
        if !memories.iter().any(|memory| key(memory) == kept) {
            store.delete(&kept)?;
        }
    }
    Ok(())
}

/// Quantises a vector to bytes: only its direction is compared.
pub(super) fn small(vector: &[f32]) -> Vec<i8> {
    let most = vector
        .iter()
        .fold(0.0_f32, |most, number| most.max(number.abs()));
    let scale = if most > 0.0 { 127.0 / most } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "between -127 and 127 after the scale"
    )]
    let byte = |number: &f32| (number * scale).round() as i8;
    vector.iter().map(byte).collect()
}

/// The cosine similarity of two vectors; `None` if they cannot be compared or it is not positive.
pub(super) fn nearness(query: &[f32], passage: &[i8]) -> Option<f32> {
    if query.len() != passage.len() {
        return None;
    }
    let (mut product, mut one, mut other) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (a, b) in query.iter().zip(passage) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        product += a * b;
        one += a * a;
        other += b * b;
    }
    let lengths = (one * other).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
    let cosine = (product / lengths) as f32;
    (lengths > 0.0 && cosine > 0.0).then_some(cosine)
}

/// Checks a response of the endpoint.
pub(super) fn checked(vectors: Vec<Vec<f32>>, wanted: usize) -> Result<Vec<Vec<f32>>> {
    let length = vectors.first().map_or(0, Vec::len);
    let whole = vectors.len() == wanted && length > 0;
    let fits = |vector: &Vec<f32>| {
        vector.len() == length && vector.iter().all(|number| number.is_finite())
    };
    match whole && vectors.iter().all(fits) {
        true => Ok(vectors),
        false => Err(Error::network(
            "it did not answer with one vector for each text",
        )),
    }
}
