//! The index in memory: which files contain a term, and which definitions they have.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::definitions::SymbolKind;
use crate::language::SourceLanguage;
use crate::source_file::{ScannedFile, SourceStamp};
use crate::words::TermHash;

/// Maximum number of files. A larger workspace is searched in part, and the result says so.
pub(crate) const MAX_FILES: usize = 150_000;

/// Maximum number of pairs of a term and a file, which take 4 bytes each.
pub(crate) const MAX_POSTINGS: usize = 40_000_000;

/// Number of bits of a posting for the number of occurrences. The others are for the file.
const COUNT_BITS: u32 = 8;

/// The number of a file in the index.
pub(crate) type SourceFileId = u32;

/// A definition in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymbolEntry {
    /// The index of its name.
    pub(crate) name: u32,
    pub(crate) kind: SymbolKind,
    /// The index of the name of the type or module that contains it.
    pub(crate) container: Option<u32>,
    pub(crate) line: u32,
}

/// A file in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedFile {
    /// The path below the workspace root.
    pub(crate) path: Box<str>,
    pub(crate) stamp: SourceStamp,
    /// True if a later change has another stamp.
    pub(crate) is_settled: bool,
    /// True if the file is too large or not text.
    pub(crate) is_skipped: bool,
    /// A hash of the content.
    pub(crate) content: u64,
    pub(crate) language: Option<SourceLanguage>,
    /// The number of occurrences of all terms.
    pub(crate) length: u32,
    /// The definitions, in the order of their lines.
    pub(crate) symbols: Box<[SymbolEntry]>,
    /// The last refresh that has seen the file.
    pub(crate) seen: u64,
}

impl IndexedFile {
    /// Returns the definitions in lines from `first` to `last`, counted from 1.
    pub(crate) fn symbols_in_lines(&self, first: u32, last: u32) -> &[SymbolEntry] {
        let start = self.symbols.partition_point(|symbol| symbol.line < first);
        let rest = &self.symbols[start..];
        &rest[..rest.partition_point(|symbol| symbol.line <= last)]
    }

    /// Returns the last definition before a line, counted from 1.
    pub(crate) fn symbol_before(&self, line: u32) -> Option<&SymbolEntry> {
        let end = self.symbols.partition_point(|symbol| symbol.line < line);
        self.symbols[..end].last()
    }
}

/// Random keys by which terms are hashed again: the author of a file can choose words whose terms would all have the same
/// place in a table. Three times as fast as the standard hasher.
#[derive(Debug, Clone)]
pub(crate) struct TermHashKeys([u64; 2]);

/// The state of hashing a term.
#[derive(Debug)]
pub(crate) struct TermHasher {
    keys: [u64; 2],
    hash: u64,
}

impl Default for TermHashKeys {
    fn default() -> Self {
        Self([(); 2].map(|()| RandomState::new().build_hasher().finish()))
    }
}

impl BuildHasher for TermHashKeys {
    type Hasher = TermHasher;

    fn build_hasher(&self) -> TermHasher {
        TermHasher {
            keys: self.0,
            hash: 0,
        }
    }
}

impl Hasher for TermHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let [first, second] = self.keys;
        let product = u128::from(self.hash ^ value ^ first) * u128::from(second | 1);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are combined")]
        let folded = product as u64 ^ (product >> 64) as u64;
        self.hash = folded;
    }
}

/// An index of source files.
#[derive(Debug, Default)]
pub(crate) struct CodeIndex {
    pub(crate) files: Vec<Option<IndexedFile>>,
    by_path: HashMap<Box<str>, SourceFileId>,
    free: Vec<SourceFileId>,
    pub(crate) names: Vec<Box<str>>,
    name_ids: HashMap<Box<str>, u32>,
    pub(crate) postings: HashMap<TermHash, Vec<u32>, TermHashKeys>,
    /// The number of postings, with those of removed files.
    pub(crate) posting_count: usize,
    /// Removed files whose postings still exist.
    stale: usize,
    /// The sum of the lengths of all files.
    total_length: u64,
    /// Changes since the index was last stored.
    pub(crate) unsaved: usize,
}

impl CodeIndex {
    pub(crate) fn len(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.by_path.len() >= MAX_FILES || self.posting_count >= MAX_POSTINGS
    }

    pub(crate) fn find(&self, path: &str) -> Option<SourceFileId> {
        self.by_path.get(path).copied()
    }

    pub(crate) fn file(&self, id: SourceFileId) -> Option<&IndexedFile> {
        self.files.get(id as usize)?.as_ref()
    }

    pub(crate) fn file_mut(&mut self, id: SourceFileId) -> Option<&mut IndexedFile> {
        self.files.get_mut(id as usize)?.as_mut()
    }

    /// Returns the average length of a file in terms.
    pub(crate) fn average_length(&self) -> f32 {
        let files = self.by_path.len().max(1);
        #[expect(clippy::cast_precision_loss, reason = "an average")]
        let average = self.total_length as f32 / files as f32;
        average.max(1.0)
    }

    pub(crate) fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |name| name)
    }

    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.name_ids.get(name) {
            return *id;
        }
        let id = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.into());
        self.name_ids.insert(name.into(), id);
        id
    }

    /// Adds a file, or replaces what is known about it.
    pub(crate) fn insert(&mut self, mut file: IndexedFile, scanned: Option<&ScannedFile<'_>>) {
        self.remove(&file.path.clone());
        if let Some(scanned) = scanned {
            let definitions = scanned.definitions.iter();
            let symbols = definitions.map(|definition| SymbolEntry {
                name: self.intern(definition.name),
                kind: definition.kind,
                container: definition.container.map(|name| self.intern(name)),
                line: definition.line,
            });
            file.symbols = symbols.collect();
        }
        let id = self.add_entry(file);
        for (term, count) in scanned.into_iter().flat_map(|scanned| &scanned.terms) {
            let posting = id << COUNT_BITS | u32::from(*count);
            self.postings.entry(*term).or_default().push(posting);
            self.posting_count += 1;
        }
        self.unsaved += 1;
    }

    /// Adds the entry of a file, and returns its number.
    pub(crate) fn add_entry(&mut self, file: IndexedFile) -> SourceFileId {
        self.total_length += u64::from(file.length);
        let id = self.free.pop().unwrap_or_else(|| {
            self.files.push(None);
            u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_path.insert(file.path.clone(), id);
        self.files[id as usize] = Some(file);
        id
    }

    /// Removes a file.
    pub(crate) fn remove(&mut self, path: &str) {
        let Some(id) = self.by_path.remove(path) else {
            return;
        };
        if let Some(file) = self.files[id as usize].take() {
            self.total_length -= u64::from(file.length);
            self.stale += 1;
            self.unsaved += 1;
        }
        if self.stale > self.by_path.len() / 4 + 1_000 {
            self.purge();
        }
    }

    /// Removes the files that a refresh has not seen.
    pub(crate) fn remove_unseen(&mut self, refresh: u64) {
        let unseen = self.files.iter().flatten();
        let unseen: Vec<Box<str>> = unseen
            .filter(|file| file.seen != refresh)
            .map(|file| file.path.clone())
            .collect();
        for path in unseen {
            self.remove(&path);
        }
    }

    /// Removes the postings and names of removed files.
    pub(crate) fn purge(&mut self) {
        let files = &self.files;
        self.postings.retain(|_, postings| {
            postings.retain(|posting| files[(posting >> COUNT_BITS) as usize].is_some());
            !postings.is_empty()
        });
        self.posting_count = self.postings.values().map(Vec::len).sum();
        let slots = (0..).zip(&self.files);
        self.free = slots
            .filter(|(_, file)| file.is_none())
            .map(|(id, _)| id)
            .collect();
        self.stale = 0;
        let names = std::mem::take(&mut self.names);
        self.name_ids.clear();
        let mut files = std::mem::take(&mut self.files);
        for symbol in files
            .iter_mut()
            .flatten()
            .flat_map(|file| file.symbols.iter_mut())
        {
            symbol.name = self.intern(&names[symbol.name as usize]);
            symbol.container = symbol.container.map(|id| self.intern(&names[id as usize]));
        }
        self.files = files;
    }

    /// Returns the files that contain a term, with the numbers of occurrences.
    pub(crate) fn files_with(&self, term: TermHash) -> impl Iterator<Item = (SourceFileId, u8)> {
        let postings = self.postings.get(&term).map_or(&[][..], Vec::as_slice);
        postings.iter().map(|posting| split_posting(*posting))
    }
}

/// Returns the file and the number of occurrences of a posting.
pub(crate) fn split_posting(posting: u32) -> (SourceFileId, u8) {
    #[expect(clippy::cast_possible_truncation, reason = "the lowest 8 bits")]
    let count = posting as u8;
    (posting >> COUNT_BITS, count)
}

/// Joins a file and a number of occurrences.
pub(crate) fn join_posting(id: SourceFileId, count: u8) -> u32 {
    id << COUNT_BITS | u32::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_terms_with_the_same_low_bits_are_spread() {
        let keys = TermHashKeys::default();
        assert_eq!(keys.hash_one(7_u64), keys.hash_one(7_u64));
        assert_ne!(
            keys.hash_one(7_u64),
            TermHashKeys::default().hash_one(7_u64)
        );
        let places: std::collections::HashSet<u64> = (0..1_000_u64)
            .map(|number| keys.hash_one(number << 40) & 0xffff)
            .collect();
        assert!(places.len() > 800, "{}", places.len());
    }
}
