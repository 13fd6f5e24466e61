//! Native implementation, for tests.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::Entries;

/// A folder.
pub struct Folder(PathBuf);

/// A file that is read sequentially.
pub struct File(fs::File);

impl Folder {
    /// The root of the workspace.
    pub fn root(path: &Path) -> io::Result<Self> {
        fs::read_dir(path).map(|_| Self(path.to_owned()))
    }

    /// Opens a folder below this one, by its relative path.
    pub fn folder(&self, path: &str) -> io::Result<Self> {
        Self::root(&self.0.join(path))
    }

    /// Opens a file in this folder.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let path = self.0.join(name);
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        fs::File::open(path).map(File)
    }

    /// Lists the folder.
    pub fn entries(&self) -> io::Result<Entries> {
        let mut entries = Entries::default();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            match (entry.file_name().into_string(), entry.file_type()) {
                (Ok(name), Ok(kind)) if kind.is_file() => entries.files.push(name),
                (Ok(name), Ok(kind)) if kind.is_dir() => entries.folders.push(name),
                (Ok(_), Ok(_)) => {}
                _ => entries.unreadable += 1,
            }
        }
        Ok(entries.sorted())
    }
}

impl File {
    /// Seeks to a byte offset.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        (&self.0).seek(SeekFrom::Start(offset)).map(drop)
    }

    /// Reads the next chunk, of at most `max_len` bytes; empty at the end.
    pub fn read_chunk(&mut self, max_len: usize) -> io::Result<Vec<u8>> {
        let mut chunk = Vec::new();
        (&self.0).take(max_len as u64).read_to_end(&mut chunk)?;
        Ok(chunk)
    }
}
