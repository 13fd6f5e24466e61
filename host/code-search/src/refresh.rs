//! Brings an index up to date with the files of a workspace.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use cap_std::fs::Dir;
use mimir_core::paths::PathRules;
use parking_lot::Mutex;

use crate::index::{CodeIndex, IndexedFile, MAX_FILES};
use crate::language::SourceLanguage;
use crate::source_file::{SourceStamp, SourceText, content_hash, read_source, scan_source};
use crate::source_tree::{SeenFile, SourceTree};

/// Number and size of the files that are read together.
const BATCH_FILES: usize = 256;
const BATCH_BYTES: u64 = 8 << 20;

/// Maximum number of threads.
const MAX_THREADS: usize = 8;

/// The limits of a refresh.
pub(crate) struct RefreshLimits {
    /// The time at which it ends, though not complete.
    pub(crate) until: Instant,
    /// Set when its call has ended.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl RefreshLimits {
    pub(crate) fn is_over(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

/// The extent of a refresh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RefreshSummary {
    /// True if the index has all files.
    pub(crate) is_complete: bool,
    /// True if further files do not fit into the index.
    pub(crate) is_full: bool,
    /// Number of files that were read.
    pub(crate) read: usize,
    /// Number of folders that could not be read.
    pub(crate) unreadable: usize,
}

/// A file to read.
struct ChangedFile {
    folder: Arc<Dir>,
    path: Box<str>,
    name: Box<str>,
}

/// The files that are read together.
#[derive(Default)]
struct ReadBatch {
    files: Vec<ChangedFile>,
    bytes: u64,
}

/// Updates the index. Changed files are read, and removed or hidden ones are removed from the index.
pub(crate) fn refresh(
    index: &mut CodeIndex,
    tree: &mut SourceTree,
    root: &Arc<Dir>,
    rules: &PathRules,
    limits: &RefreshLimits,
    number: u64,
) -> RefreshSummary {
    let mut summary = RefreshSummary::default();
    let mut batch = ReadBatch::default();
    let mut count = 0_usize;
    let walked = tree.walk(root, rules, |file| {
        count += 1;
        if count.is_multiple_of(64) && limits.is_over() {
            return false;
        }
        if is_current(index, &file, number) {
            return true;
        }
        let has_room = index.len() + batch.files.len() < MAX_FILES && !index.is_full();
        if !has_room && index.find(file.path).is_none() {
            summary.is_full = true;
            return true;
        }
        batch.bytes += file.stamp.size;
        batch.files.push(ChangedFile {
            folder: Arc::clone(file.folder),
            path: file.path.into(),
            name: file.name.into(),
        });
        if batch.files.len() >= BATCH_FILES || batch.bytes >= BATCH_BYTES {
            summary.read += read_batch(index, std::mem::take(&mut batch), number, limits);
        }
        !limits.is_over()
    });
    summary.read += read_batch(index, batch, number, limits);
    summary.unreadable = walked.unreadable;
    summary.is_complete = walked.is_complete && !limits.is_over();
    if walked.is_complete && !limits.cancelled.load(Ordering::Relaxed) {
        index.remove_unseen(number);
    }
    summary
}

/// Returns true if the index has the present state of a file.
fn is_current(index: &mut CodeIndex, file: &SeenFile<'_>, number: u64) -> bool {
    let Some(known) = index.find(file.path).and_then(|id| index.file_mut(id)) else {
        return false;
    };
    known.seen = number;
    known.is_settled && known.stamp == file.stamp
}

/// Reads files on several threads, and adds them to the index. Returns the number of files read.
fn read_batch(
    index: &mut CodeIndex,
    batch: ReadBatch,
    number: u64,
    limits: &RefreshLimits,
) -> usize {
    let files = batch.files;
    // Files whose times are too young to tell, but whose content is known.
    let known: HashMap<&str, u64> = files
        .iter()
        .filter_map(|file| {
            let known = index.file(index.find(&file.path)?)?;
            Some((&*file.path, known.content))
        })
        .collect();
    let parallel = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = match batch.bytes {
        0..200_000 => 1,
        _ => parallel.clamp(1, MAX_THREADS),
    };
    let next = AtomicUsize::new(0);
    let target = Mutex::new((index, 0_usize));
    let work = || {
        loop {
            let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            if limits.cancelled.load(Ordering::Relaxed) {
                return;
            }
            add_file(&target, file, known.get(&*file.path).copied(), number);
        }
    };
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }
    target.into_inner().1
}

/// Reads a file and adds it to the index.
fn add_file(
    target: &Mutex<(&mut CodeIndex, usize)>,
    file: &ChangedFile,
    known_content: Option<u64>,
    number: u64,
) {
    let now = SystemTime::now();
    let source = read_source(&file.folder, &file.name);
    let Ok(SourceText { stamp, text }) = source else {
        let mut target = target.lock();
        target.0.remove(&file.path);
        return;
    };
    let Some(text) = text else {
        let entry = IndexedFile {
            is_skipped: true,
            ..new_entry(file, stamp, now, number)
        };
        let mut target = target.lock();
        target.0.insert(entry, None);
        target.1 += 1;
        return;
    };
    if known_content == Some(content_hash(&text)) {
        let mut target = target.lock();
        if let Some(id) = target.0.find(&file.path)
            && let Some(known) = target.0.file_mut(id)
            && !known.is_skipped
        {
            known.stamp = stamp;
            known.is_settled = stamp.is_settled(now);
            return;
        }
    }
    let language = SourceLanguage::of_file(&file.name);
    let scanned = scan_source(&file.path, &text, language);
    let entry = IndexedFile {
        content: scanned.content,
        language,
        length: scanned.length,
        ..new_entry(file, stamp, now, number)
    };
    let mut target = target.lock();
    target.0.insert(entry, Some(&scanned));
    target.1 += 1;
}

fn new_entry(file: &ChangedFile, stamp: SourceStamp, now: SystemTime, number: u64) -> IndexedFile {
    IndexedFile {
        path: file.path.clone(),
        stamp,
        is_settled: stamp.is_settled(now),
        is_skipped: false,
        content: 0,
        language: None,
        length: 0,
        symbols: Box::default(),
        seen: number,
    }
}
