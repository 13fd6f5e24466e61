//! WebAssembly text: modules and components as S-expressions.

use wast::Wat;
use wast::parser::{self, ParseBuffer};

use super::ComponentizeError;
use crate::family::shown;

/// Maximum size of a text in bytes. Its tokens take a multiple of it in memory.
const MAX_BYTES: usize = 16 << 20;

/// Returns the content as text if it is WebAssembly text by its first characters.
pub(super) fn text(content: &[u8]) -> Option<&str> {
    let start = content.strip_prefix("\u{feff}".as_bytes());
    let start = start.unwrap_or(content).trim_ascii_start();
    let is_text = start.starts_with(b"(") || start.starts_with(b";;");
    if is_text {
        std::str::from_utf8(content).ok()
    } else {
        None
    }
}

/// Returns the binary form of a text.
pub(super) fn parse(text: &str) -> Result<Vec<u8>, ComponentizeError> {
    if text.len() > MAX_BYTES {
        return Err(ComponentizeError::TextTooLarge {
            size: text.len() as u64,
        });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text_error = |error: wast::Error| {
        let (line, column) = error.span().linecol_in(text);
        ComponentizeError::Text {
            line: line + 1,
            column: column + 1,
            reason: shown(&error.message()),
        }
    };
    let buffer = ParseBuffer::new(text).map_err(text_error)?;
    let mut wat = parser::parse::<Wat<'_>>(&buffer).map_err(text_error)?;
    wat.encode().map_err(text_error)
}
