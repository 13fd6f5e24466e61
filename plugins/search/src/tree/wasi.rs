//! Implementation on `wasi:filesystem`.

use std::io;
use std::path::Path;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

use super::Entries;

/// A folder.
pub struct Folder(Descriptor);

/// A file that is read sequentially.
pub struct File {
    descriptor: Descriptor,
    offset: u64,
}

impl Folder {
    /// The root of the workspace.
    pub fn root(path: &Path) -> io::Result<Self> {
        let workspace = get_directories()
            .into_iter()
            .find(|(_, guest)| Path::new(guest) == path);
        workspace
            .map(|(descriptor, _)| Self(descriptor))
            .ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    /// Opens a folder below this one, by its relative path. Follows links.
    pub fn folder(&self, path: &str) -> io::Result<Self> {
        let opened = self.0.open_at(
            PathFlags::SYMLINK_FOLLOW,
            path,
            OpenFlags::DIRECTORY,
            DescriptorFlags::READ,
        );
        opened.map(Self).map_err(error)
    }

    /// Opens a file in this folder. Links are not followed: the walk passes no links, so a link here was swapped in.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let opened = self.0.open_at(
            PathFlags::empty(),
            name,
            OpenFlags::empty(),
            DescriptorFlags::READ,
        );
        opened
            .map(|descriptor| File {
                descriptor,
                offset: 0,
            })
            .map_err(error)
    }

    /// Lists the folder.
    pub fn entries(&self) -> io::Result<Entries> {
        let stream = self.0.read_directory().map_err(error)?;
        let mut entries = Entries::default();
        loop {
            match stream.read_directory_entry() {
                Ok(Some(entry)) => match entry.type_ {
                    DescriptorType::RegularFile => entries.files.push(entry.name),
                    DescriptorType::Directory => entries.folders.push(entry.name),
                    // The host gives no type for a name that is not UTF-8.
                    DescriptorType::Unknown if entry.name.contains(char::REPLACEMENT_CHARACTER) => {
                        entries.unreadable += 1;
                    }
                    _ => {}
                },
                Ok(None) => return Ok(entries.sorted()),
                Err(ErrorCode::IllegalByteSequence) => entries.unreadable += 1,
                Err(code) => return Err(error(code)),
            }
        }
    }
}

impl File {
    /// Seeks to this byte.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.offset = offset;
        Ok(())
    }

    /// Reads the next chunk, of at most `max_len` bytes; empty at the end.
    pub fn read_chunk(&mut self, max_len: usize) -> io::Result<Vec<u8>> {
        let (chunk, _) = self
            .descriptor
            .read(max_len as u64, self.offset)
            .map_err(error)?;
        self.offset += chunk.len() as u64;
        Ok(chunk)
    }
}

fn error(code: ErrorCode) -> io::Error {
    let kind = match code {
        ErrorCode::NoEntry => io::ErrorKind::NotFound,
        ErrorCode::NotDirectory => io::ErrorKind::NotADirectory,
        ErrorCode::IsDirectory => io::ErrorKind::IsADirectory,
        ErrorCode::Access | ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied,
        _ => return io::Error::other(code.message()),
    };
    kind.into()
}
