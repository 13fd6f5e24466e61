//! Vectors stored between calls: one stored value per memory, valid until the memory or the model changes.
//!
//! Each number is stored as one byte: the lost precision is less than the difference between models. The values depend
//! on the files alone, not on the session, so the host attaches no taint to them (`derived/`).

use mimir_sdk::Result;
use mimir_sdk::serde_json;
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
