//! The log as it is at one moment: what a reader looks at while others write.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Hash;
use super::head::{self, Head, Known};
use super::line::Link;
use super::place::Place;

/// A log to read from.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) place: Place,
}

impl Log {
    /// The log at `path`, which is the file that is written to.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::of(path.into()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.log()
    }

    /// The log as it is now. Nobody writes while this is made, and nobody has to wait afterwards.
    pub fn snapshot(&self) -> io::Result<Snapshot> {
        let head = match self.place.open(self.place.head()) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Dropping the file gives up the lock.
        let known = match &head {
            Some(file) => {
                head::lock(file)?;
                Head::read(file)?
            }
            None => Known::Nothing,
        };
        let mut parts = Vec::new();
        for segment in self.place.segments()? {
            parts.push(Part::open(&self.place, &segment.path)?);
        }
        match Part::open(&self.place, self.place.log()) {
            Ok(part) => parts.push(part),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Snapshot { parts, known })
    }
}

/// A file of the log, as far as it had been written.
#[derive(Debug)]
pub(super) struct Part {
    /// The name of the file.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) length: u64,
}

impl Part {
    fn open(place: &Place, path: &Path) -> io::Result<Self> {
        let file = place.open(path)?;
        Ok(Self {
            name: path
                .file_name()
                .map(|name| mimir_core::text::visible(&name.to_string_lossy()))
                .unwrap_or_default(),
            length: file.metadata()?.len(),
            file,
        })
    }

    /// Calls `each` with every line, as long as it wants more.
    fn lines(
        &self,
        each: &mut dyn FnMut(Line<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        (&self.file).seek(SeekFrom::Start(0))?;
        let mut from = BufReader::with_capacity(BUFFER, (&self.file).take(self.length));
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            if (&mut from).take(LINE_MOST).read_until(b'\n', &mut bytes)? == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            let ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
            number += 1;
            let line = Line {
                file: &self.name,
                number,
                bytes: &bytes,
                ended,
            };
            if each(line).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// A longer line is taken for several: none of the log is near that.
const LINE_MOST: u64 = 16 << 20;

/// A line of a file.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Which line of the file, from 1.
    pub number: u64,
    /// The line without its end.
    pub bytes: &'a [u8],
    /// Whether it has an end.
    pub ended: bool,
}

/// The log at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) parts: Vec<Part>,
    pub(super) known: Known,
}

impl Snapshot {
    /// How many files there are.
    pub fn files(&self) -> usize {
        self.parts.len()
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// Calls `each` with every line, the oldest first, as long as it wants more.
    pub fn lines(&self, mut each: impl FnMut(Line<'_>) -> ControlFlow<()>) -> io::Result<()> {
        for part in &self.parts {
            if part.lines(&mut each)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the line that `head` names is there, or has gone with older ones.
    pub fn has(&self, head: Head) -> io::Result<bool> {
        for part in self.parts.iter().rev() {
            let mut there = None;
            let _all = part.lines(&mut |line| match Link::read(line.bytes) {
                Some(link) if link.seq == head.seq => {
                    there = Some(Hash::of(line.bytes) == head.hash);
                    ControlFlow::Break(())
                }
                // It is in an older file, if it is anywhere.
                Some(link) if link.seq > head.seq => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })?;
            if let Some(there) = there {
                return Ok(there);
            }
        }
        Ok(head.seq == 0 || self.first()?.is_some_and(|first| first > head.seq))
    }

    /// The number of the oldest line.
    fn first(&self) -> io::Result<Option<u64>> {
        let mut first = None;
        self.lines(|line| {
            first = Link::read(line.bytes).map(|link| link.seq);
            match first {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        Ok(first)
    }

    /// The last `count` lines, the oldest first.
    pub fn last(&self, count: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for part in self.parts.iter().rev() {
            if found.len() >= count {
                break;
            }
            let mut own = std::collections::VecDeque::new();
            let _all = part.lines(&mut |line| {
                if line.ended {
                    own.push_back(line.bytes.to_vec());
                }
                if own.len() > count - found.len() {
                    own.pop_front();
                }
                ControlFlow::Continue(())
            })?;
            found.splice(..0, own);
        }
        Ok(found)
    }
}
