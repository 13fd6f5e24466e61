//! Vectors between calls: a value of storage for each memory, good as long as neither it nor the model has changed.
//!
//! A number takes one byte: what is lost by that is less than what models differ by. What is kept here is worked out
//! from the files, whoever searches, so the host takes it for nobody's words (`derived/`).

use mimir_sdk::serde_json;
use mimir_sdk::{Error, Result};
use sha2::{Digest as _, Sha256};

use super::Settings;
use crate::search::Memory;
use crate::store::Store;

/// How the keys begin.
const KEYS: &str = "derived/vectors/";

/// The vectors of the passages of a memory, in their order.
pub(super) struct Vectors(pub(super) Vec<Vec<i8>>);

fn key(memory: &Memory) -> String {
    format!("{KEYS}{}", memory.name)
}

/// What the vectors are made of, as a hash.
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
    /// Those that are kept, if they are of just this content: one for each of so many passages, each of so many numbers.
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

/// Removes the vectors of memories that are there no more.
pub(super) fn tidy(store: &impl Store, memories: &[Memory]) -> Result<()> {
    for kept in store.keys(KEYS)? {
        if !memories.iter().any(|memory| key(memory) == kept) {
            store.delete(&kept)?;
        }
    }
    Ok(())
}

/// A vector in bytes: its direction is all that is compared.
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

/// The cosine of the angle between two vectors; nothing if they cannot be compared, or lead away from each other.
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

/// An answer of the endpoint, checked.
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
