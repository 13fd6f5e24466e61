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
use crate::index_key::IndexKey;
use crate::language::SourceLanguage;
use crate::source_file::{SourceStamp, SourceText, is_out_of_handles, read_source, scan_source};
use crate::source_tree::{SeenFile, SourceTree};

/// Numbers of the files that are read together and of their folders, which are open meanwhile, and size of the files.
const BATCH_FILES: usize = 256;
const BATCH_FOLDERS: usize = 32;
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
    /// True if the workspace has more files than the index can have.
    pub(crate) is_full: bool,
    /// Number of files that were read.
    pub(crate) read: usize,
    /// Number of folders that could not be read.
    pub(crate) unreadable: usize,
}

/// The parameters of a refresh.
#[derive(Clone, Copy)]
pub(crate) struct RefreshTask<'r> {
    pub(crate) rules: &'r PathRules,
    pub(crate) limits: &'r RefreshLimits,
    pub(crate) key: &'r IndexKey,
    /// The number of the refresh. Each has another one.
    pub(crate) number: u64,
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
    folders: usize,
    bytes: u64,
}

impl ReadBatch {
    fn add(&mut self, file: &SeenFile<'_>) {
        let last = self.files.last();
        if last.is_none_or(|last| !Arc::ptr_eq(&last.folder, file.folder)) {
            self.folders += 1;
        }
        self.bytes += file.stamp.size;
        self.files.push(ChangedFile {
            folder: Arc::clone(file.folder),
            path: file.path.into(),
            name: file.name.into(),
        });
    }

    fn is_full(&self) -> bool {
        self.files.len() >= BATCH_FILES
            || self.folders >= BATCH_FOLDERS
            || self.bytes >= BATCH_BYTES
    }
}

/// The index to which the files of a batch are added.
struct BatchTarget<'i> {
    index: &'i mut CodeIndex,
    /// Number of files that were read.
    read: usize,
    /// True if a file could not be opened because too many are open.
    is_out_of_handles: bool,
}

/// Updates the index. Changed files are read, and removed or hidden ones are removed from the index.
pub(crate) fn refresh(
    index: &mut CodeIndex,
    tree: &mut SourceTree,
    root: &Arc<Dir>,
    task: RefreshTask<'_>,
) -> RefreshSummary {
    let limits = task.limits;
    let mut target = BatchTarget {
        index,
        read: 0,
        is_out_of_handles: false,
    };
    let mut summary = RefreshSummary::default();
    let mut batch = ReadBatch::default();
    let mut count = 0_usize;
    let walked = tree.walk(root, task.rules, |file| {
        let index = &mut *target.index;
        count += 1;
        if count.is_multiple_of(64) && limits.is_over() {
            return false;
        }
        if is_current(index, &file, task.number) {
            return true;
        }
        let has_room = index.len() + batch.files.len() < MAX_FILES && !index.is_full();
        if !has_room && index.find(file.path).is_none() {
            summary.is_full = true;
            return true;
        }
        batch.add(&file);
        if batch.is_full() {
            read_batch(&mut target, std::mem::take(&mut batch), task);
        }
        !limits.is_over()
    });
    read_batch(&mut target, batch, task);
    summary.read = target.read;
    summary.unreadable = walked.unreadable;
    summary.is_full |= walked.is_cut;
    summary.is_complete = walked.is_complete && !target.is_out_of_handles && !limits.is_over();
    if walked.is_complete && !limits.cancelled.load(Ordering::Relaxed) {
        target.index.remove_unseen(task.number);
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

/// Reads files on several threads, and adds them to the index.
fn read_batch(target: &mut BatchTarget<'_>, batch: ReadBatch, task: RefreshTask<'_>) {
    let files = batch.files;
    // Files whose times are too young to tell, but whose content is known.
    let known: HashMap<&str, u64> = files
        .iter()
        .filter_map(|file| {
            let known = target.index.file(target.index.find(&file.path)?)?;
            Some((&*file.path, known.content))
        })
        .collect();
    let parallel = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = match batch.bytes {
        0..200_000 => 1,
        _ => parallel.clamp(1, MAX_THREADS),
    };
    let next = AtomicUsize::new(0);
    let target = Mutex::new(target);
    let work = || {
        loop {
            let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            if task.limits.is_over() {
                return;
            }
            add_file(&target, file, known.get(&*file.path).copied(), task);
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
}

/// Reads a file and adds it to the index.
fn add_file(
    target: &Mutex<&mut BatchTarget<'_>>,
    file: &ChangedFile,
    known_content: Option<u64>,
    task: RefreshTask<'_>,
) {
    let now = SystemTime::now();
    let SourceText { stamp, text } = match read_source(&file.folder, &file.name) {
        Ok(source) => source,
        Err(error) if is_out_of_handles(&error) => {
            target.lock().is_out_of_handles = true;
            return;
        }
        Err(_) => {
            target.lock().index.remove(&file.path);
            return;
        }
    };
    let Some(text) = text else {
        let entry = IndexedFile {
            is_skipped: true,
            ..new_entry(file, stamp, now, task.number)
        };
        let mut target = target.lock();
        target.index.insert(entry, None);
        target.read += 1;
        return;
    };
    let content = task.key.content_hash(&text);
    if known_content == Some(content) {
        let mut target = target.lock();
        if let Some(id) = target.index.find(&file.path)
            && let Some(known) = target.index.file_mut(id)
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
        content,
        language,
        length: scanned.length,
        ..new_entry(file, stamp, now, task.number)
    };
    let mut target = target.lock();
    target.index.insert(entry, Some(&scanned));
    target.read += 1;
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
