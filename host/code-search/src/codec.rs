//! The stored form of an index: numbers in as many bytes as they need.
//!
//! Anything unexpected makes the whole index invalid, and it is built again. Only what this user has stored is decoded;
//! even so, any bytes are decoded without a panic, and in memory in proportion to their number.

use crate::definitions::{MAX_DEFINITIONS, SYMBOL_KINDS};
use crate::index::{CodeIndex, IndexedFile, MAX_FILES, SymbolEntry, join_posting, split_posting};
use crate::language::LANGUAGES;
use crate::source_file::SourceStamp;

/// Encodes an index.
pub(crate) fn encode(index: &mut CodeIndex) -> Vec<u8> {
    index.purge();
    let mut out = IndexEncoder(Vec::new());
    out.number(index.names.len() as u64);
    for name in &index.names {
        out.text(name);
    }
    // Files are renumbered, because removed ones leave gaps.
    let mut numbers = vec![0_u32; index.files.len()];
    out.number(index.len() as u64);
    let mut next = 0;
    for (id, file) in index.files.iter().enumerate() {
        let Some(file) = file else { continue };
        numbers[id] = next;
        next += 1;
        encode_file(&mut out, file);
    }
    out.number(index.postings.len() as u64);
    for (term, postings) in &index.postings {
        out.0.extend_from_slice(&term.to_le_bytes());
        let mut sorted: Vec<(u32, u8)> = postings
            .iter()
            .map(|posting| split_posting(*posting))
            .map(|(id, count)| (numbers[id as usize], count))
            .collect();
        sorted.sort_unstable();
        out.number(sorted.len() as u64);
        let mut before = 0;
        for (id, count) in sorted {
            out.number(u64::from(id - before));
            out.0.push(count);
            before = id;
        }
    }
    out.0
}

fn encode_file(out: &mut IndexEncoder, file: &IndexedFile) {
    out.text(&file.path);
    out.number(file.stamp.modified.cast_unsigned());
    out.number(file.stamp.changed.cast_unsigned());
    out.number(file.stamp.size);
    out.number(file.stamp.inode);
    out.0
        .push(u8::from(file.is_settled) | u8::from(file.is_skipped) << 1);
    out.0.extend_from_slice(&file.content.to_le_bytes());
    let language = LANGUAGES
        .iter()
        .position(|known| Some(*known) == file.language);
    out.number(language.map_or(0, |code| code as u64 + 1));
    out.number(u64::from(file.length));
    out.number(file.symbols.len() as u64);
    for symbol in &file.symbols {
        out.number(u64::from(symbol.name));
        let kind = SYMBOL_KINDS.iter().position(|known| *known == symbol.kind);
        out.number(kind.unwrap_or(0) as u64);
        out.number(symbol.container.map_or(0, |id| u64::from(id) + 1));
        out.number(u64::from(symbol.line));
    }
}

/// Decodes an index. `None` if it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<CodeIndex> {
    let mut from = IndexDecoder(bytes);
    let mut index = CodeIndex::default();
    for _ in 0..from.count()? {
        let name = from.text()?;
        index.intern(name);
    }
    let names = index.names.len() as u64;
    let files = from.count()?;
    if files > MAX_FILES {
        return None;
    }
    for _ in 0..files {
        let file = decode_file(&mut from, names)?;
        if index.find(&file.path).is_some() {
            return None;
        }
        index.add_entry(file);
    }
    let terms = from.count()?;
    if terms.checked_mul(9)? > from.0.len() {
        return None;
    }
    index.postings.reserve(terms);
    for _ in 0..terms {
        let term = u64::from_le_bytes(from.bytes(8)?.try_into().ok()?);
        let count = from.count().filter(|count| *count <= files)?;
        let mut postings = Vec::with_capacity(count);
        let mut id = 0_u32;
        for _ in 0..count {
            id = id.checked_add(u32::try_from(from.number()?).ok()?)?;
            if id as usize >= files {
                return None;
            }
            postings.push(join_posting(id, from.byte()?));
        }
        index.posting_count += postings.len();
        index.postings.insert(term, postings);
    }
    from.0.is_empty().then_some(index)
}

fn decode_file(from: &mut IndexDecoder<'_>, names: u64) -> Option<IndexedFile> {
    let path = from.text()?;
    let is_inside = path
        .split('/')
        .all(|name| !name.is_empty() && name != "." && name != "..");
    if !is_inside {
        return None;
    }
    let stamp = SourceStamp {
        modified: from.number()?.cast_signed(),
        changed: from.number()?.cast_signed(),
        size: from.number()?,
        inode: from.number()?,
    };
    let flags = from.byte()?;
    let content = u64::from_le_bytes(from.bytes(8)?.try_into().ok()?);
    let language = match usize::try_from(from.number()?).ok()? {
        0 => None,
        code => Some(*LANGUAGES.get(code - 1)?),
    };
    let length = u32::try_from(from.number()?).ok()?;
    let count = from.count().filter(|count| *count <= MAX_DEFINITIONS)?;
    let mut symbols: Vec<SymbolEntry> = Vec::with_capacity(count);
    for _ in 0..count {
        let line_before = symbols.last().map_or(1, |symbol| symbol.line);
        let name = from.number().filter(|name| *name < names)?;
        let kind = *SYMBOL_KINDS.get(usize::try_from(from.number()?).ok()?)?;
        let container = from.number().filter(|id| *id <= names)?;
        symbols.push(SymbolEntry {
            name: u32::try_from(name).ok()?,
            kind,
            container: container
                .checked_sub(1)
                .and_then(|id| u32::try_from(id).ok()),
            line: u32::try_from(from.number()?)
                .ok()
                .filter(|line| *line >= line_before)?,
        });
    }
    Some(IndexedFile {
        path: path.into(),
        stamp,
        is_settled: flags & 1 != 0,
        is_skipped: flags & 2 != 0,
        content,
        language,
        length,
        symbols: symbols.into(),
        seen: 0,
    })
}

struct IndexEncoder(Vec<u8>);

impl IndexEncoder {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            #[expect(clippy::cast_possible_truncation, reason = "the lowest 7 bits")]
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than 128")]
        self.0.push(number as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

struct IndexDecoder<'b>(&'b [u8]);

impl<'b> IndexDecoder<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number of items, each of which has at least one byte.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = self.count()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::SymbolKind;
    use crate::language::SourceLanguage;
    use crate::search::search_all_in_test;
    use crate::source_file::scan_source;

    const ALPHA: &str = "struct Alpha;\nimpl Alpha { fn run(&self) {} }";

    fn sample() -> CodeIndex {
        let mut index = CodeIndex::default();
        for (path, text) in [
            ("src/a.rs", ALPHA),
            ("gone.rs", "fn gone() {}"),
            ("b.txt", "only words"),
        ] {
            let language = SourceLanguage::of_file(path);
            let scanned = scan_source(path, text, language);
            let file = IndexedFile {
                path: path.into(),
                stamp: SourceStamp {
                    modified: -5,
                    changed: i64::MAX,
                    size: 7,
                    inode: u64::MAX,
                },
                is_settled: true,
                is_skipped: false,
                content: 7,
                language,
                length: scanned.length,
                symbols: Box::default(),
                seen: 0,
            };
            index.insert(file, Some(&scanned));
        }
        index.remove("gone.rs");
        index
    }

    #[test]
    fn index_is_stored_without_loss() {
        let mut index = sample();
        let bytes = encode(&mut index);
        let read = decode(&bytes).unwrap();
        assert_eq!(read.len(), 2);
        let file = read.file(read.find("src/a.rs").unwrap()).unwrap();
        assert_eq!(file.stamp.modified, -5);
        let symbols: Vec<_> = file
            .symbols
            .iter()
            .map(|symbol| {
                (
                    read.name(symbol.name),
                    symbol.kind,
                    symbol.container.map(|id| read.name(id)),
                )
            })
            .collect();
        assert_eq!(
            symbols,
            [
                ("Alpha", SymbolKind::Struct, None),
                ("run", SymbolKind::Method, Some("Alpha"))
            ]
        );
        let term = crate::words::query_terms("words")[0];
        let found: Vec<_> = read.files_with(term).collect();
        assert_eq!(found.len(), 1);
        assert!(read.find("gone.rs").is_none());
        assert!(!bytes.windows(4).any(|part| part == b"gone"));
    }

    #[test]
    fn index_damage_never_panics() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/a.rs"), ALPHA).unwrap();
        let bytes = encode(&mut sample());
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_none(), "length {at}");
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Some(mut index) = decode(&damaged) {
                    search_all_in_test(&index, folder.path());
                    index.purge();
                }
            }
        }
    }

    #[test]
    fn index_definitions_without_a_line_or_order_are_invalid() {
        for lines in [[0, 1], [2, 1]] {
            let mut index = sample();
            let id = index.find("src/a.rs").unwrap();
            let file = index.file_mut(id).unwrap();
            for (symbol, line) in file.symbols.iter_mut().zip(lines) {
                symbol.line = line;
            }
            assert!(decode(&encode(&mut index)).is_none(), "{lines:?}");
        }
    }
}
