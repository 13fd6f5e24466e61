//! Access to folders and files with as few host calls as possible, because these take most of the time of a search.
//!
//! The component calls `wasi:filesystem` directly. The standard library would make two or three times as many calls:
//! for the metadata of each directory entry, and for the flags and the size of each file.

#[cfg(not(target_os = "wasi"))]
mod native;
#[cfg(target_os = "wasi")]
mod wasi;

#[cfg(not(target_os = "wasi"))]
pub use native::{File, Folder};
#[cfg(target_os = "wasi")]
pub use wasi::{File, Folder};

use std::io;

/// Number of bytes per read. A host may return less.
const CHUNK: usize = 1 << 20;

/// Page size in bytes. A host that returns less than requested returns whole pages, unless the file ends there.
const PAGE: usize = 4096;

/// Number of bytes at the beginning of a file that are checked to distinguish binary files from text.
const BINARY_CHECK_BYTES: usize = 1024;

/// Contents of a folder.
#[derive(Debug, Default)]
pub struct Entries {
    /// The names of its files, sorted.
    pub files: Vec<String>,
    /// The names of its folders, sorted.
    pub folders: Vec<String>,
    /// Number of entries that cannot be named or read.
    pub unreadable: u64,
}

impl Entries {
    fn sorted(mut self) -> Self {
        self.files.sort_unstable();
        self.folders.sort_unstable();
        self
    }
}

/// Content of a file.
pub enum Content {
    /// The whole content.
    Whole(Vec<u8>),
    /// The beginning of a long file, and a reader for the rest.
    Long(Vec<u8>, Rest),
    /// A binary file.
    Binary,
}

impl Content {
    /// Reads a file, whole if it is shorter than about `max_len` bytes.
    pub fn read(mut file: File, max_len: usize) -> io::Result<Self> {
        let mut content = file.read_chunk(CHUNK)?;
        if content[..content.len().min(BINARY_CHECK_BYTES)].contains(&0) {
            return Ok(Self::Binary);
        }
        let mut last = content.len();
        while last > 0 && last.is_multiple_of(PAGE) {
            if content.len() >= max_len {
                return Ok(Self::Long(
                    content,
                    Rest {
                        file,
                        chunk: Vec::new(),
                        at: 0,
                    },
                ));
            }
            let chunk = file.read_chunk(CHUNK)?;
            last = chunk.len();
            content.extend_from_slice(&chunk);
        }
        Ok(Self::Whole(content))
    }
}

/// The rest of a long file, read in chunks.
pub struct Rest {
    file: File,
    chunk: Vec<u8>,
    at: usize,
}

impl io::Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            self.chunk = self.file.read_chunk(CHUNK)?;
            self.at = 0;
        }
        let count = buffer.len().min(self.chunk.len() - self.at);
        buffer[..count].copy_from_slice(&self.chunk[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn file_content_is_whole_chunked_or_binary() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::root(dir.path()).unwrap();
        let content = |bytes: &[u8], max_len: usize| {
            std::fs::write(dir.path().join("f"), bytes).unwrap();
            Content::read(folder.file("f").unwrap(), max_len).unwrap()
        };
        assert!(matches!(content(b"", 10), Content::Whole(whole) if whole.is_empty()));
        assert!(matches!(content(b"text", 10), Content::Whole(whole) if whole == b"text"));
        assert!(matches!(content(b"te\0xt", 10), Content::Binary));
        let pages = vec![b'x'; 2 * PAGE];
        assert!(matches!(content(&pages, CHUNK), Content::Whole(whole) if whole == pages));
        let long: Vec<u8> = (0..3 * CHUNK + 7).map(|i| b'a' + (i % 23) as u8).collect();
        assert!(matches!(content(&long, 4 * CHUNK), Content::Whole(whole) if whole == long));
        let Content::Long(mut all, mut rest) = content(&long, CHUNK) else {
            panic!("that is long")
        };
        rest.read_to_end(&mut all).unwrap();
        assert_eq!(all, long);
    }

    #[test]
    fn folder_entries_are_sorted_without_links() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            std::fs::write(dir.path().join(name), "").unwrap();
            std::fs::create_dir(dir.path().join(format!("{name}-folder"))).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let entries = Folder::root(dir.path()).unwrap().entries().unwrap();
        assert_eq!(
            (entries.files, entries.folders),
            (
                vec!["a".into(), "b".into()],
                vec!["a-folder".into(), "b-folder".into()]
            )
        );
    }
}
