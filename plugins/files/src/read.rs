//! `read_file`.

use std::fs::{File, Metadata};
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mimir_sdk::prelude::*;

use crate::formatting;
use crate::image::ImageFormat;
use crate::walk::Kind;
use crate::workspace_path::WorkspacePath;

/// Maximum number of bytes in one result. Structured content and text together stay well below the host's limit of
/// 16 MiB.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum number of lines that an error suggests to read at once: line numbers make short lines several times as long.
const MAX_SUGGESTED_LINES: usize = 100_000;

/// Maximum number of bytes of an image: the limit of model providers is 5 MiB in base64.
const MAX_IMAGE_BYTES: u64 = (5 << 20) / 4 * 3;

/// Number of bytes per read: few host calls, and little memory even for the largest file.
const CHUNK: usize = 1 << 20;

/// Reads a file. With `startLine` or `endLine`, reads only these lines and numbers them; a large file can only be read
/// this way. Shows images; reads PDF and office documents as Markdown.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadFile {
    /// The file, relative to the workspace root.
    pub path: String,
    /// `utf-8` (default) for text, `base64` for anything else.
    #[serde(default)]
    pub encoding: Encoding,
    /// First line to read, from 1.
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line to read.
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
}

/// Encoding of content in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Encoding {
    // Variants without docs make a plain `enum` in the schema, which costs fewer tokens.
    #[default]
    #[expect(missing_docs, reason = "see above")]
    #[serde(rename = "utf-8")]
    Utf8,
    #[expect(missing_docs, reason = "see above")]
    Base64,
}

impl Encoding {
    /// Decodes content to bytes.
    pub fn decode(self, content: &str) -> Result<Vec<u8>> {
        match self {
            Self::Utf8 => Ok(content.as_bytes().to_vec()),
            Self::Base64 => BASE64.decode(content.trim()).map_err(|error| {
                Error::invalid_input(format_args!("content: not valid base64: {error}"))
            }),
        }
    }
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileContent {
    /// The file.
    pub path: String,
    /// The content, or the requested lines with their line ends.
    pub content: String,
    /// Encoding of `content`.
    pub encoding: Encoding,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Time of the last change, ISO 8601.
    pub modified: String,
    /// The first line in `content`, if lines were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_line: Option<u64>,
    /// The last line in `content`, if lines were requested; `startLine` minus one if `content` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u64>,
    /// Number of lines in the file, if lines were requested and the file was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// For an image, which is a content part of its own: `content` describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageInfo>,
}

/// Facts about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageInfo {
    /// Its MIME type.
    pub mime_type: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// Result of a read: the content, and the data of an image.
#[derive(Debug)]
pub struct ReadResult {
    /// The content with its text.
    pub content: Worded<FileContent>,
    /// The bytes of an image.
    pub image: Option<Vec<u8>>,
}

impl IntoOutput for ReadResult {
    fn schema() -> Option<serde_json::Value> {
        <Worded<FileContent>>::schema()
    }

    fn into_output(self) -> Result<Output> {
        let mime_type = self.content.value.image.as_ref();
        let mime_type = mime_type.map(|image| image.mime_type.clone());
        let output = self.content.into_output()?;
        Ok(match mime_type.zip(self.image) {
            Some((mime_type, data)) => output.image(mime_type, data),
            None => output,
        })
    }
}

impl FileContent {
    /// Returns the content, with line numbers if lines were requested.
    pub fn text(&self) -> String {
        let Some(start) = self.start_line else {
            return self.content.clone();
        };
        let mut text = String::with_capacity(self.content.len() + 512);
        for (number, line) in (start..).zip(self.content.lines()) {
            text.push_str(&format!("{number}|{line}\n"));
        }
        text
    }
}

impl Tool for ReadFile {
    type Output = ReadResult;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Read file");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().read(".", "to read the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let location = WorkspacePath::new(cx, &self.path)?.resolve_links()?;
        let metadata = location.existing_metadata()?;
        match Kind::from(&metadata) {
            Kind::File => {}
            Kind::Directory => {
                return Err(Error::invalid_input(format_args!(
                    "`{location}` is a directory; list_directory lists it"
                )));
            }
            _ => {
                return Err(Error::invalid_input(format_args!(
                    "`{location}` is not a regular file"
                )));
            }
        }
        let (content, image) = if self.start_line.is_some() || self.end_line.is_some() {
            (self.read_lines(&location, &metadata)?, None)
        } else {
            self.read_whole(&location, &metadata)?
        };
        let text = content.text();
        Ok(ReadResult {
            content: Json(content).worded(text),
            image,
        })
    }
}

impl ReadFile {
    /// Reads the whole file. Returns the bytes of an image separately.
    fn read_whole(
        &self,
        location: &WorkspacePath,
        metadata: &Metadata,
    ) -> Result<(FileContent, Option<Vec<u8>>)> {
        let failed = |error| location.io_error(&error);
        let size = metadata.len().min(MAX_BYTES);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        // One more byte than allowed, because the file may have grown.
        File::open(location.absolute())
            .map_err(failed)?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let format = ImageFormat::detect(&bytes).filter(|_| self.encoding == Encoding::Utf8);
        if let Some(format) = format {
            let content = self.describe_image(location, metadata, format, &bytes)?;
            return Ok((content, Some(bytes)));
        }
        if bytes.len() as u64 > MAX_BYTES {
            bytes.pop();
            return Err(too_large(location, metadata, &bytes, 1));
        }
        let content = match self.encoding {
            Encoding::Utf8 => text(bytes, location, metadata)?,
            Encoding::Base64 => BASE64.encode(bytes),
        };
        Ok((self.build_content(location, metadata, content), None))
    }

    /// Describes an image. Fails if it is damaged or too large to be shown.
    fn describe_image(
        &self,
        location: &WorkspacePath,
        metadata: &Metadata,
        format: ImageFormat,
        bytes: &[u8],
    ) -> Result<FileContent> {
        let (mime_type, size) = (format.mime_type(), formatting::bytes(metadata.len()));
        let Some((width, height)) = format.dimensions(bytes) else {
            return Err(Error::invalid_input(format_args!(
                "`{location}` ({size}) begins like {mime_type}, but is damaged; `encoding: base64` reads its bytes"
            )));
        };
        if metadata.len().max(bytes.len() as u64) > MAX_IMAGE_BYTES {
            return Err(Error::limit_exceeded(format_args!(
                "`{location}` is an image of {width}×{height} pixels and {size}, and at most {} are shown; make it smaller first",
                formatting::bytes(MAX_IMAGE_BYTES)
            )));
        }
        let description = format!("{mime_type}, {width}×{height} pixels, {size}");
        let mut content = self.build_content(location, metadata, description);
        content.image = Some(ImageInfo {
            mime_type: mime_type.to_owned(),
            width,
            height,
        });
        Ok(content)
    }

    /// Reads the requested lines. Skips earlier lines in chunks. Lines of a private key are masked.
    fn read_lines(&self, location: &WorkspacePath, metadata: &Metadata) -> Result<FileContent> {
        let (start, end) = (
            self.start_line.unwrap_or(1),
            self.end_line.unwrap_or(u64::MAX),
        );
        if start == 0 || end < start {
            return Err(Error::invalid_input(
                "`startLine` and `endLine` are not valid: lines count from 1, and `endLine` must not be before `startLine`",
            ));
        }
        if self.encoding == Encoding::Base64 {
            return Err(Error::invalid_input(
                "lines are text: leave out either the lines or `encoding: base64`",
            ));
        }
        let failed = |error| location.io_error(&error);
        let mut file = File::open(location.absolute()).map_err(failed)?;
        // Byte offset of the first requested line.
        let mut at = 0;
        let mut buffer = vec![0; CHUNK];
        let mut wanted = Vec::new();
        // The number of the line with the next byte, and true if that line has begun.
        let (mut line, mut line_started) = (1u64, false);
        let mut reached_end = false;
        'file: loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                reached_end = true;
                break;
            }
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                if line > end {
                    break 'file;
                }
                let (chunk, whole) = match memchr::memchr(b'\n', rest) {
                    Some(at) => (&rest[..=at], true),
                    None => (rest, false),
                };
                if line >= start {
                    if (wanted.len() + chunk.len()) as u64 > MAX_BYTES {
                        return Err(too_large(location, metadata, &wanted, start));
                    }
                    wanted.extend_from_slice(chunk);
                } else {
                    at += chunk.len() as u64;
                }
                line_started = !whole;
                line += u64::from(whole);
                rest = &rest[chunk.len()..];
            }
        }
        // The last line may have no line break.
        let total = if line_started { line } else { line - 1 };
        if reached_end && total < start && !(total == 0 && start == 1) {
            let lines = formatting::counted(total, "line", "lines");
            return Err(Error::invalid_input(format_args!(
                "`{location}` has only {lines}"
            )));
        }
        let wanted = key::mask_key_lines(text(wanted, location, metadata)?, &mut file, at)
            .map_err(failed)?;
        let mut content = self.build_content(location, metadata, wanted);
        content.start_line = Some(start);
        content.end_line = Some(total.min(end));
        content.total_lines = reached_end.then_some(total);
        Ok(content)
    }

    fn build_content(
        &self,
        location: &WorkspacePath,
        metadata: &Metadata,
        content: String,
    ) -> FileContent {
        FileContent {
            path: location.exact().to_owned(),
            content,
            encoding: self.encoding,
            size: metadata.len(),
            modified: formatting::modified(metadata),
            start_line: None,
            end_line: None,
            total_lines: None,
            image: None,
        }
    }
}

/// Returns the error for content over the limit, with a suggestion that works. `prefix` is the content that fits, from
/// the line `start` on.
fn too_large(location: &WorkspacePath, metadata: &Metadata, prefix: &[u8], start: u64) -> Error {
    let (size, max_size) = (
        formatting::bytes(metadata.len()),
        formatting::bytes(MAX_BYTES),
    );
    let fitting_lines = memchr::memchr_iter(b'\n', prefix)
        .take(MAX_SUGGESTED_LINES)
        .count() as u64;
    // An incomplete character at the end is not an encoding error.
    let invalid_utf8 = std::str::from_utf8(prefix).is_err_and(|error| error.error_len().is_some());
    let remedy = if invalid_utf8 || prefix.contains(&0) {
        "it is not text, and only text can be read in parts".to_owned()
    } else if fitting_lines > 0 {
        let end = start + fitting_lines - 1;
        format!(
            "`startLine: {start}` with `endLine: {end}` fits, and file_search finds the lines that you need"
        )
    } else {
        format!(
            "line {start} alone is longer than that; file_search shows the text around a match in it"
        )
    };
    Error::limit_exceeded(format_args!(
        "`{location}` has {size}, and at most {max_size} are read at once; {remedy}"
    ))
}

/// Converts bytes to text. The error for binary data suggests base64.
fn text(bytes: Vec<u8>, location: &WorkspacePath, metadata: &Metadata) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        Error::invalid_input(format_args!(
            "`{location}` ({}) is not UTF-8 text; `encoding: base64` reads it",
            formatting::bytes(metadata.len())
        ))
    })
}

mod key;
#[cfg(test)]
mod tests;
