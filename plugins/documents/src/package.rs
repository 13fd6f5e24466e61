//! The archives of office documents.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::read::ReadError;

/// Maximum size of the unpacked parts of a document in bytes, together.
const MAX_UNPACKED: u64 = 48 << 20;

/// An open document archive.
pub struct DocumentPackage<'b> {
    archive: ZipArchive<Cursor<&'b [u8]>>,
    /// Number of bytes that may still be unpacked.
    remaining: u64,
}

/// A kind of office document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// Word.
    Word,
    /// PowerPoint.
    Slides,
    /// Excel, or a table of LibreOffice.
    Sheets,
    /// A text or presentation of LibreOffice.
    OpenDocument,
}

impl<'b> DocumentPackage<'b> {
    /// Opens an archive. Fails if its parts are too large in total.
    pub fn open(bytes: &'b [u8]) -> Result<Self, ReadError> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        let unpacked = archive.decompressed_size().unwrap_or(0);
        if unpacked > u128::from(MAX_UNPACKED) {
            return Err(too_large());
        }
        Ok(Self {
            archive,
            remaining: MAX_UNPACKED,
        })
    }

    /// Returns the kind of the document. `None` for other archives.
    pub fn kind(&self) -> Option<DocumentKind> {
        let has = |name: &str| self.archive.index_for_name(name).is_some();
        if has("word/document.xml") {
            Some(DocumentKind::Word)
        } else if has("ppt/presentation.xml") {
            Some(DocumentKind::Slides)
        } else if has("xl/workbook.xml") || has("xl/workbook.bin") {
            Some(DocumentKind::Sheets)
        } else if has("content.xml") {
            Some(self.open_document_kind())
        } else {
            None
        }
    }

    fn open_document_kind(&self) -> DocumentKind {
        let mut archive = self.archive.clone();
        let mut kind = String::new();
        if let Ok(file) = archive.by_name("mimetype") {
            // An unreadable type leaves the text empty.
            let _ = file.take(100).read_to_string(&mut kind);
        }
        if kind.contains("spreadsheet") {
            DocumentKind::Sheets
        } else {
            DocumentKind::OpenDocument
        }
    }

    /// Reads a part as text. `None` if the document does not have it.
    pub fn part(&mut self, name: &str) -> Result<Option<String>, ReadError> {
        let file = match self.archive.by_name(name) {
            Ok(file) => file,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(damaged(error)),
        };
        let mut bytes = Vec::new();
        file.take(self.remaining + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ReadError::Damaged(format!("`{name}`: {error}")))?;
        self.remaining = self
            .remaining
            .checked_sub(bytes.len() as u64)
            .ok_or_else(too_large)?;
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| ReadError::Damaged(format!("`{name}` is not UTF-8")))
    }

    /// Reads a part that every document of this kind has.
    pub fn required_part(&mut self, name: &str) -> Result<String, ReadError> {
        self.part(name)?
            .ok_or_else(|| ReadError::Damaged(format!("`{name}` is missing")))
    }
}

fn damaged(error: impl std::fmt::Display) -> ReadError {
    ReadError::Damaged(error.to_string())
}

fn too_large() -> ReadError {
    ReadError::TooLarge(format!(
        "its parts have more than {} MiB unpacked",
        MAX_UNPACKED >> 20
    ))
}
