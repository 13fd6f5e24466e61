//! Search for lines by content.

use std::io;
use std::ops::ControlFlow;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use mimir_sdk::{Error, Result, pieces, text};

use crate::results::{LineMatch, SearchResult, line};
use crate::start::SearchStart;
use crate::tree::{Content, Folder};
use crate::{FileSearch, Mode, walk};

/// Size in bytes up to which files are read whole, with few host calls. Larger files are read in chunks, to limit
/// memory.
const MAX_WHOLE_FILE: usize = 4 << 20;

/// Maximum length of a searched line in a large file, in bytes. The line buffer grows by doubling.
const MAX_LINE_BYTES: usize = 48 << 20;

/// Finds the matching lines of the files below `start`.
pub fn search(search: &FileSearch, root: &Folder, start: &SearchStart) -> Result<SearchResult> {
    let matcher = matcher(search)?;
    let context = usize::from(search.context_lines);
    let mut searcher = SearcherBuilder::new()
        .line_terminator(
            matcher
                .line_terminator()
                .unwrap_or(LineTerminator::byte(b'\n')),
        )
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(MAX_LINE_BYTES))
        .build();
    let mut found = SearchResult::default();
    let skipped = walk::files(search, root, start, |file| {
        found.files_searched += 1;
        let mut hits = FileHits {
            matcher: &matcher,
            file: &file,
            max_results: search.max_results,
            before: Vec::new(),
            first: found.matches.len(),
            found: &mut found,
        };
        if search_file(&mut searcher, &matcher, &file, &mut hits).is_err() {
            found.skipped += 1;
        }
        if found.truncated {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    found.skipped += skipped.unreadable;
    Ok(found)
}

fn matcher(search: &FileSearch) -> Result<RegexMatcher> {
    let is_literal = search.mode != Mode::Regex;
    if is_literal && search.query.contains('\n') {
        return Err(Error::invalid_input(
            "the query contains a line end, but a search looks at one line at a time",
        ));
    }
    // `^` and `$` match at every line because the haystack is a whole file.
    let build = |crlf: bool| {
        let mut builder = RegexMatcherBuilder::new();
        builder.crlf(crlf);
        if !crlf {
            builder.line_terminator(Some(b'\n'));
        }
        builder
            .multi_line(true)
            .case_insensitive(search.ignore_case)
            .fixed_strings(is_literal)
            .build(&search.query)
    };
    // With `crlf`, `$` matches before the `\r` of a line that ends in `\r\n`, and a query with a `\r` is an error: for
    // such a query `\r` is part of the line.
    let built = build(true).or_else(|_| build(false));
    built.map_err(|error| {
        Error::invalid_input(format!(
            "`{}` is not a valid regular expression: {}",
            text::brief(&search.query),
            shorten_reason(&error.to_string())
        ))
    })
}

/// Maximum length in characters of the explanation of an invalid expression, which repeats the expression.
const MAX_REASON_CHARS: usize = 400;

fn shorten_reason(reason: &str) -> &str {
    reason
        .char_indices()
        .nth(MAX_REASON_CHARS)
        .map_or(reason, |(end, _)| &reason[..end])
}

/// Searches one file.
fn search_file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: &walk::WalkedFile<'_>,
    hits: &mut FileHits<'_>,
) -> io::Result<()> {
    match Content::read(file.open()?, MAX_WHOLE_FILE)? {
        Content::Binary => Ok(()),
        Content::Long(head, rest) => {
            searcher.search_reader(matcher, io::Read::chain(io::Cursor::new(head), rest), hits)
        }
        Content::Whole(content) => {
            // Most files match nothing: one search of the whole file is faster than one for every line.
            if !matcher.is_match(&content).map_err(io::Error::other)? || content.contains(&0) {
                return Ok(());
            }
            searcher.search_slice(matcher, &content, hits)
        }
    }
}

/// Collects the matches of one file.
struct FileHits<'a> {
    matcher: &'a RegexMatcher,
    file: &'a walk::WalkedFile<'a>,
    max_results: usize,
    before: Vec<String>,
    first: usize,
    found: &'a mut SearchResult,
}

impl FileHits<'_> {
    /// Formats a line with a match at `at`. A line from the inside of a private key is masked, because the host detects
    /// a key only by its first line.
    fn format_line(&self, bytes: &[u8], at: usize, offset: u64) -> String {
        if pieces::in_key(bytes) && self.opens_key(offset).unwrap_or(true) {
            return pieces::KEY_MARK.to_owned();
        }
        line(bytes, at)
    }

    /// Returns true if this byte of the file is inside a private key.
    fn opens_key(&self, offset: u64) -> io::Result<bool> {
        let from = offset.saturating_sub(pieces::KEY as u64);
        let mut file = self.file.open()?;
        file.seek(from)?;
        let mut before = Vec::new();
        while (before.len() as u64) < offset - from {
            let remaining = (offset - from) as usize - before.len();
            match file.read_chunk(remaining)? {
                chunk if chunk.is_empty() => break,
                chunk => before.extend(chunk),
            }
        }
        Ok(pieces::opens_key(&before))
    }
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.matches.len() == self.max_results {
            self.found.truncated = true;
            return Ok(false);
        }
        let bytes = found.bytes();
        let at = self
            .matcher
            .find(bytes)
            .map_err(io::Error::other)?
            .map_or(0, |at| at.start());
        let path = self.file.path.to_owned();
        let text = self.format_line(bytes, at, found.absolute_byte_offset());
        if !self.found.reserve(path.len() + text.len()) {
            return Ok(false);
        }
        if self.found.matches.len() == self.first {
            self.found.files.push(path.clone());
        }
        self.found.matches.push(LineMatch {
            path,
            line: found.line_number().unwrap_or(0),
            column: String::from_utf8_lossy(&bytes[..at]).chars().count() as u64 + 1,
            text,
            before: std::mem::take(&mut self.before),
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let text = self.format_line(context.bytes(), 0, context.absolute_byte_offset());
        if !self.found.reserve(text.len()) {
            return Ok(false);
        }
        match (context.kind(), self.found.matches.last_mut()) {
            (SinkContextKind::After, Some(last)) => last.after.push(text),
            _ => self.before.push(text),
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        // The file turned out to be binary, so its earlier matches are dropped.
        self.found.matches.truncate(self.first);
        self.found.files.retain(|file| file != self.file.path);
        Ok(false)
    }
}
