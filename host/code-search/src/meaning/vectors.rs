//! Vectors of passages, kept in the state folder until a file changes.
//!
//! A stored file may come from anyone who can write to the workspace: a wrong vector only changes the order of results,
//! and reading one takes memory in proportion to its size.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::index::CodeIndex;
use crate::store::IndexStore;

/// The name of the stored file.
const FILE: &str = "vectors";

/// The first bytes. The number changes with the format, and with the text that is embedded for a passage.
const MAGIC: &[u8] = b"mimir-code-vectors 1\n";

/// Maximum size of all vectors in bytes.
const MAX_BYTES: usize = 96 << 20;

/// Lengths of a SHA-256 digest, and of a stored key.
const DIGEST: usize = 32;
const KEY: usize = 12;

/// Identifies a passage: the hash of its file's content, and its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PassageKey {
    pub(crate) content: u64,
    pub(crate) line: u32,
}

/// The vectors of one endpoint and model.
#[derive(Debug, Default)]
pub(crate) struct PassageVectors {
    /// A hash of everything but the passage that a vector depends on.
    identity: [u8; DIGEST],
    dimensions: usize,
    vectors: HashMap<PassageKey, Box<[i8]>>,
    is_changed: bool,
}

impl PassageVectors {
    /// Reads the vectors of an endpoint. Without usable ones, there are none.
    pub(crate) fn load(store: &IndexStore, identity: &str) -> Self {
        let identity: [u8; DIGEST] = Sha256::digest(identity).into();
        let bytes = store.read_file(FILE, MAX_BYTES as u64 + 1_024);
        bytes
            .and_then(|bytes| decode(&bytes, identity))
            .unwrap_or_else(|| Self {
                identity,
                ..Self::default()
            })
    }

    /// Returns true if these are vectors of this endpoint.
    pub(crate) fn is_of(&self, identity: &str) -> bool {
        self.identity[..] == Sha256::digest(identity)[..]
    }

    pub(crate) fn contains(&self, key: &PassageKey) -> bool {
        self.vectors.contains_key(key)
    }

    pub(crate) fn get(&self, key: &PassageKey) -> Option<&[i8]> {
        self.vectors.get(key).map(|vector| &**vector)
    }

    /// Adds vectors. If the model returns vectors of another length than before, those of before are dropped.
    pub(crate) fn extend(&mut self, dimensions: usize, new: Vec<(PassageKey, Vec<i8>)>) {
        if self.dimensions != dimensions {
            self.vectors.clear();
            self.dimensions = dimensions;
        }
        let new = new
            .into_iter()
            .filter(|(_, vector)| vector.len() == dimensions);
        for (key, vector) in new {
            self.vectors.insert(key, vector.into());
            self.is_changed = true;
        }
    }

    /// Stores the vectors if there are new ones, without those of files that are not in the index any more.
    pub(crate) fn save(&mut self, store: &IndexStore, index: &CodeIndex) {
        if !self.is_changed {
            return;
        }
        let contents: HashSet<u64> = (index.files.iter().flatten())
            .map(|file| file.content)
            .collect();
        self.vectors
            .retain(|key, _| contents.contains(&key.content));
        match store.write_file(FILE, &self.encode()) {
            Ok(()) => self.is_changed = false,
            Err(error) => tracing::debug!(%error, "the vectors of the code are not stored"),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.identity);
        body.extend_from_slice(&u32::try_from(self.dimensions).unwrap_or(0).to_le_bytes());
        for (key, vector) in &self.vectors {
            if body.len() + KEY + vector.len() > MAX_BYTES {
                break;
            }
            body.extend_from_slice(&key.content.to_le_bytes());
            body.extend_from_slice(&key.line.to_le_bytes());
            body.extend(vector.iter().map(|number| number.cast_unsigned()));
        }
        [MAGIC, &Sha256::digest(&body), &body].concat()
    }
}

/// Decodes stored vectors. `None` if they are damaged, or those of another endpoint.
fn decode(bytes: &[u8], identity: [u8; DIGEST]) -> Option<PassageVectors> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (checksum, body) = rest.split_at_checked(DIGEST)?;
    if Sha256::digest(body)[..] != *checksum {
        return None;
    }
    let (stored_identity, rest) = body.split_at_checked(DIGEST)?;
    if stored_identity != identity {
        return None;
    }
    let (dimensions, rest) = rest.split_first_chunk::<4>()?;
    let dimensions = usize::try_from(u32::from_le_bytes(*dimensions)).ok()?;
    let entries = rest.chunks_exact(KEY.checked_add(dimensions)?);
    if dimensions == 0 || !entries.remainder().is_empty() {
        return None;
    }
    let vectors = entries.map(|entry| {
        let (key, vector) = entry.split_at(KEY);
        let (content, line) = key.split_at(KEY - 4);
        let key = PassageKey {
            content: u64::from_le_bytes(content.try_into().unwrap_or_default()),
            line: u32::from_le_bytes(line.try_into().unwrap_or_default()),
        };
        let vector = vector.iter().map(|number| number.cast_signed());
        (key, vector.collect())
    });
    Some(PassageVectors {
        identity,
        dimensions,
        vectors: vectors.collect(),
        is_changed: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passage_vectors_are_stored_for_one_endpoint() {
        let folder = tempfile::tempdir().unwrap();
        let store = IndexStore::new(folder.path());
        let mut index = CodeIndex::default();
        let file = crate::index::IndexedFile {
            path: "a.rs".into(),
            stamp: Default::default(),
            is_settled: true,
            is_skipped: false,
            content: 7,
            language: None,
            length: 0,
            symbols: Box::default(),
            seen: 0,
        };
        index.add_entry(file);
        let key = |content| PassageKey { content, line: 3 };
        let mut vectors = PassageVectors::load(&store, "one");
        vectors.extend(2, vec![(key(7), vec![1, -1]), (key(8), vec![2, 2])]);
        vectors.save(&store, &index);
        let stored = PassageVectors::load(&store, "one");
        assert!(stored.is_of("one") && !stored.is_of("two"));
        assert_eq!(stored.get(&key(7)), Some(&[1, -1][..]));
        assert!(!stored.contains(&key(8)), "its file has changed");
        assert!(PassageVectors::load(&store, "two").vectors.is_empty());
        // Vectors of another length replace all.
        let mut stored = stored;
        stored.extend(3, Vec::new());
        assert!(!stored.contains(&key(7)));
        let path = folder.path().join(".mimir/state/code-index/vectors");
        let bytes = std::fs::read(&path).unwrap();
        for at in [0, 30, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(
                PassageVectors::load(&store, "one").vectors.is_empty(),
                "{at}"
            );
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(PassageVectors::load(&store, "one").vectors.is_empty());
    }
}
