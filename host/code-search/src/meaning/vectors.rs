//! Vectors of passages, kept in the state folder until a file changes.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::index::CodeIndex;
use crate::store::{IndexStore, StoredFile};

/// The stored file. The number changes with the format, and with the text that is embedded for a passage.
const FILE: StoredFile = StoredFile {
    name: "vectors",
    magic: b"mimir-code-vectors 1\n",
    max_body: 96 << 20,
};

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
        let stored = store.read_file(FILE, |body| decode(body, identity));
        stored.unwrap_or_else(|| Self {
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
            if body.len() + KEY + vector.len() > FILE.max_body {
                break;
            }
            body.extend_from_slice(&key.content.to_le_bytes());
            body.extend_from_slice(&key.line.to_le_bytes());
            body.extend(vector.iter().map(|number| number.cast_unsigned()));
        }
        body
    }
}

/// Decodes stored vectors. `None` if they are damaged, or those of another endpoint.
fn decode(body: &[u8], identity: [u8; DIGEST]) -> Option<PassageVectors> {
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
        let store = IndexStore::in_test(folder.path());
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
        let other_user = IndexStore::in_test(folder.path());
        assert!(PassageVectors::load(&other_user, "one").vectors.is_empty());
        let body = vectors.encode();
        let identity = vectors.identity;
        assert!(decode(&body, identity).is_some());
        assert!(decode(&body[..body.len() - 1], identity).is_none());
    }
}
