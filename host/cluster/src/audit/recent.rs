//! The newest messages of the audit log, cached for readers that search them again and again.
//!
//! The stream is read in blocks of consecutive messages, the newest first. Blocks near the end of the stream are kept in
//! memory up to a maximum size; older ones are read each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::log_message::AuditMessage;
use super::recorded_line::RecordedLine;
use super::stream::{AuditStream, StreamExtent};
use super::{ClusterAuditError, WriterName};
use crate::connection::ClusterConnection;
use crate::names;
use crate::node::{NodeEntry, NodeRole, NodeView};

/// Number of messages of a block.
const BLOCK_MESSAGES: u64 = 256;

/// Maximum size of the cached blocks in bytes.
const CACHED_BYTES_MAX: usize = 64 << 20;

/// Estimated size of a message in addition to its lines, in bytes.
const MESSAGE_OVERHEAD: usize = 96;

/// Time for which the end of the stream counts as known, so that several readers cause one request.
const EXTENT_AGE: Duration = Duration::from_millis(100);

/// Time without a reader after which the cache is emptied.
const IDLE_TIME: Duration = Duration::from_secs(600);

/// Maximum number of writers whose facts are cached.
const WRITERS_MAX: usize = 10_000;

/// The facts about the process behind a writer, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterFacts {
    /// The name of the writer, which is the id of the node.
    pub writer: String,
    /// The role, such as `worker`.
    pub role: Option<String>,
    /// The name of the machine.
    pub host: Option<String>,
    /// The workspace of the node.
    pub workspace: Option<String>,
}

impl WriterFacts {
    fn of_node(node: &NodeEntry) -> Self {
        Self {
            writer: node.id.clone(),
            role: Some(node.role.as_str().to_owned()),
            host: Some(node.host.clone()),
            workspace: node.workspace.as_ref().map(|space| space.name.clone()),
        }
    }

    /// Reads the facts from the first line of a writer.
    fn of_message(writer: &str, message: Option<&AuditMessage>) -> Self {
        let line = message.and_then(|message| message.lines().next());
        let line = line.and_then(RecordedLine::read);
        let opened = line.filter(RecordedLine::is_opened);
        let described = opened
            .as_ref()
            .and_then(|line| line.detail.split_once(" on "));
        let role = match described {
            Some((role, _)) => Some(role),
            // Only administrators remove messages.
            None if writer == names::AUDIT_RETENTION => Some(NodeRole::Admin.as_str()),
            None => None,
        };
        Self {
            writer: writer.to_owned(),
            role: role.map(str::to_owned),
            host: described.map(|(_, host)| host.to_owned()),
            workspace: opened
                .as_ref()
                .and_then(|line| line.workspace.as_deref().map(str::to_owned)),
        }
    }
}

/// A message of the audit log with the facts about its writer.
#[derive(Debug, Clone)]
pub struct RecentMessage {
    /// Sequence in the stream.
    pub sequence: u64,
    /// The process that has written the lines.
    pub writer: Arc<WriterFacts>,
    payload: Bytes,
}

impl RecentMessage {
    /// Iterates over the lines, without their line ends.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let payload = self.payload.strip_suffix(b"\n").unwrap_or(&self.payload);
        payload.split(|byte| *byte == b'\n')
    }

    fn size(&self) -> usize {
        self.payload.len() + MESSAGE_OVERHEAD
    }
}

/// Consecutive messages, without those that were removed.
#[derive(Debug, Clone, Default)]
struct MessageBlock {
    /// Sequence up to which the block was read.
    read_to: u64,
    messages: Vec<RecentMessage>,
    bytes: usize,
}

#[derive(Default)]
struct BlockCache {
    blocks: BTreeMap<u64, Arc<MessageBlock>>,
    bytes: usize,
    last_used: Option<Instant>,
}

impl BlockCache {
    fn get(&mut self, index: u64) -> Option<Arc<MessageBlock>> {
        self.last_used = Some(Instant::now());
        self.blocks.get(&index).cloned()
    }

    /// Empties the cache if the stream has fewer messages than were read: it was made again.
    fn drop_replaced(&mut self, extent: &StreamExtent) {
        let newest = self.blocks.last_key_value();
        if newest.is_some_and(|(_, block)| block.read_to > extent.last) {
            *self = Self::default();
        }
    }

    /// Adds a block. Removes the oldest ones if the cache is too large.
    fn put(&mut self, index: u64, block: Arc<MessageBlock>) {
        self.bytes += block.bytes;
        if let Some(previous) = self.blocks.insert(index, block) {
            self.bytes -= previous.bytes;
        }
        while self.bytes > CACHED_BYTES_MAX
            && self.blocks.len() > 1
            && let Some((_, oldest)) = self.blocks.pop_first()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

/// The end of a stream and the time at which it was read.
type KnownExtent = Option<(Instant, Option<StreamExtent>)>;

/// The messages of the audit log, newest first. Clones share the cache.
#[derive(Clone)]
pub struct RecentLog(Arc<RecentParts>);

struct RecentParts {
    stream: AuditStream,
    nodes: NodeView,
    cache: Mutex<BlockCache>,
    /// Held while a block is read, so that several readers read it once.
    reading: AsyncMutex<()>,
    extent: AsyncMutex<KnownExtent>,
    writers: Mutex<HashMap<String, Arc<WriterFacts>>>,
}

impl RecentLog {
    /// Creates a reader. `nodes` are the live nodes. Reads nothing.
    pub fn new(connection: ClusterConnection, nodes: NodeView) -> Self {
        Self(Arc::new(RecentParts {
            stream: AuditStream::new(connection),
            nodes,
            cache: Mutex::default(),
            reading: AsyncMutex::default(),
            extent: AsyncMutex::default(),
            writers: Mutex::default(),
        }))
    }

    /// Returns the extent of the stream as of the last tenth of a second, or `None` if nothing was ever recorded.
    pub async fn extent(&self) -> Result<Option<StreamExtent>, ClusterAuditError> {
        let mut known = self.0.extent.lock().await;
        if let Some((at, extent)) = *known
            && at.elapsed() < EXTENT_AGE
        {
            return Ok(extent);
        }
        let extent = self.0.stream.extent().await?;
        *known = Some((Instant::now(), extent));
        Ok(extent)
    }

    /// Calls `visit` with each message from `last` to the oldest one, or from the newest one, until it breaks.
    pub async fn visit_newest_first(
        &self,
        last: Option<u64>,
        mut visit: impl FnMut(&RecentMessage) -> ControlFlow<()>,
    ) -> Result<(), ClusterAuditError> {
        // Not the known one: a reader expects the line of a call that has just ended.
        let extent = self.0.stream.extent().await?;
        let Some(extent) = extent.filter(|extent| extent.messages > 0) else {
            return Ok(());
        };
        self.0.cache.lock().drop_replaced(&extent);
        let last = last.map_or(extent.last, |last| last.min(extent.last));
        if last < extent.first {
            return Ok(());
        }
        for index in (block_index(extent.first)..=block_index(last)).rev() {
            let block = self.block(index, &extent).await?;
            let messages = block.messages.iter().rev();
            let in_range =
                |message: &&RecentMessage| (extent.first..=last).contains(&message.sequence);
            for message in messages.filter(in_range) {
                if visit(message).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with each message from `first` on, oldest first, until it breaks. Returns the sequence of the
    /// last message at that time, from which a follower goes on.
    pub async fn visit_from(
        &self,
        first: u64,
        mut visit: impl FnMut(&RecentMessage) -> ControlFlow<()>,
    ) -> Result<u64, ClusterAuditError> {
        let Some(extent) = self.extent().await? else {
            return Ok(first.saturating_sub(1));
        };
        self.0.cache.lock().drop_replaced(&extent);
        let first = first.max(extent.first).max(1);
        if extent.messages == 0 || first > extent.last {
            return Ok(extent.last.max(first.saturating_sub(1)));
        }
        for index in block_index(first)..=block_index(extent.last) {
            let block = self.block(index, &extent).await?;
            let in_range =
                |message: &&RecentMessage| (first..=extent.last).contains(&message.sequence);
            for message in block.messages.iter().filter(in_range) {
                if visit(message).is_break() {
                    return Ok(extent.last);
                }
            }
        }
        Ok(extent.last)
    }

    /// Adds a block to the cache. Starts the task that empties the cache when it is not used any more.
    fn cache_block(&self, index: u64, block: Arc<MessageBlock>) {
        let mut cache = self.0.cache.lock();
        if cache.blocks.is_empty() {
            tokio::spawn(empty_when_idle(Arc::downgrade(&self.0)));
        }
        cache.put(index, block);
    }

    /// Returns the block with all messages up to the end of the stream.
    async fn block(
        &self,
        index: u64,
        extent: &StreamExtent,
    ) -> Result<Arc<MessageBlock>, ClusterAuditError> {
        let first = (index * BLOCK_MESSAGES + 1).max(extent.first);
        let last = ((index + 1) * BLOCK_MESSAGES).min(extent.last);
        let is_complete = |block: &Arc<MessageBlock>| block.read_to >= last;
        if let Some(block) = self.0.cache.lock().get(index).filter(is_complete) {
            return Ok(block);
        }
        let _reading = self.0.reading.lock().await;
        let known = self.0.cache.lock().get(index);
        let mut block = match known {
            Some(block) if is_complete(&block) => return Ok(block),
            Some(block) => (*block).clone(),
            None => MessageBlock::default(),
        };
        let messages = self.0.stream.messages(first.max(block.read_to + 1), last);
        let messages: Vec<_> = messages.collect().await;
        let mut read = Vec::with_capacity(messages.len());
        for (_, message) in messages {
            // Some messages may have been removed after an export.
            read.extend(message?);
        }
        self.find_writers(&read).await?;
        for message in read {
            let message = RecentMessage {
                sequence: message.sequence,
                writer: self.known_writer(&message.writer),
                payload: message.payload,
            };
            block.bytes += message.size();
            block.messages.push(message);
        }
        block.read_to = last;
        let block = Arc::new(block);
        self.cache_block(index, Arc::clone(&block));
        Ok(block)
    }

    fn known_writer(&self, writer: &str) -> Arc<WriterFacts> {
        let known = self.0.writers.lock().get(writer).cloned();
        known.unwrap_or_else(|| Arc::new(WriterFacts::of_message(writer, None)))
    }

    /// Finds the facts about the writers of messages that are not known yet.
    async fn find_writers(&self, messages: &[AuditMessage]) -> Result<(), ClusterAuditError> {
        let unknown: BTreeSet<&str> = {
            let known = self.0.writers.lock();
            let writers = messages.iter().map(|message| message.writer.as_str());
            writers
                .filter(|writer| !known.contains_key(*writer) && WriterName::parse(writer).is_ok())
                .collect()
        };
        for writer in unknown {
            let facts = match self.0.nodes.get(writer) {
                Some(node) => WriterFacts::of_node(&node),
                None => {
                    let first = self.0.stream.next_message(writer, 1).await?;
                    WriterFacts::of_message(writer, first.as_ref())
                }
            };
            let mut known = self.0.writers.lock();
            if known.len() >= WRITERS_MAX {
                known.clear();
            }
            known.insert(writer.to_owned(), Arc::new(facts));
        }
        Ok(())
    }
}

/// Empties the cache when no reader has used it for a while.
async fn empty_when_idle(log: Weak<RecentParts>) {
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let Some(log) = log.upgrade() else {
            return;
        };
        let mut cache = log.cache.lock();
        let used = cache.last_used;
        if used.is_none_or(|used| used.elapsed() >= IDLE_TIME) {
            *cache = BlockCache::default();
            return;
        }
    }
}

/// Returns the number of the block with a message.
fn block_index(sequence: u64) -> u64 {
    sequence.saturating_sub(1) / BLOCK_MESSAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Arc<MessageBlock> {
        Arc::new(MessageBlock {
            read_to: 0,
            messages: Vec::new(),
            bytes,
        })
    }

    #[test]
    fn recent_blocks_hold_the_newest_messages_within_a_size() {
        let mut cache = BlockCache::default();
        for index in 0..10 {
            cache.put(index, block(CACHED_BYTES_MAX / 4));
        }
        let cached: Vec<u64> = cache.blocks.keys().copied().collect();
        assert_eq!(cached, [6, 7, 8, 9]);
        // An older block is read each time.
        cache.put(2, block(1));
        assert_eq!(
            cache.blocks.first_key_value().map(|(index, _)| *index),
            Some(6)
        );
        // A block that has grown counts once.
        cache.put(9, block(CACHED_BYTES_MAX / 4));
        assert_eq!(cache.bytes, CACHED_BYTES_MAX);
        cache.put(10, block(CACHED_BYTES_MAX * 2));
        assert_eq!(cache.blocks.len(), 1, "the newest block is always cached");
    }

    #[test]
    fn recent_blocks_are_dropped_with_their_stream() {
        let extent = |last| StreamExtent {
            first: 1,
            last,
            messages: last,
            bytes: 0,
        };
        let mut cache = BlockCache::default();
        let block = MessageBlock {
            read_to: 100,
            ..MessageBlock::default()
        };
        cache.put(0, Arc::new(block));
        cache.drop_replaced(&extent(100));
        assert_eq!(cache.blocks.len(), 1);
        cache.drop_replaced(&extent(3));
        assert_eq!(cache.blocks.len(), 0);
    }

    #[test]
    fn recent_blocks_begin_with_the_first_message() {
        for (sequence, index) in [(0, 0), (1, 0), (256, 0), (257, 1), (512, 1), (513, 2)] {
            assert_eq!(block_index(sequence), index, "{sequence}");
        }
    }

    #[test]
    fn recent_writer_is_described_by_its_first_line() {
        let message = |line: &str| AuditMessage {
            writer: "w1".to_owned(),
            sequence: 1,
            time: String::new(),
            headers: async_nats::HeaderMap::new(),
            payload: Bytes::from(format!("{line}\n")),
        };
        let opened = message(
            r#"{"event":"opened","subject":"w1","detail":"worker on big on host","workspace":"main"}"#,
        );
        let facts = WriterFacts::of_message("w1", Some(&opened));
        assert_eq!(facts.role.as_deref(), Some("worker"));
        assert_eq!(facts.host.as_deref(), Some("big on host"));
        assert_eq!(facts.workspace.as_deref(), Some("main"));
        let retention = WriterFacts::of_message(names::AUDIT_RETENTION, None);
        assert_eq!(retention.role.as_deref(), Some("admin"));
        let other = message(r#"{"event":"call","subject":"w1","detail":"worker on x"}"#);
        assert_eq!(WriterFacts::of_message("w1", Some(&other)).role, None);
    }
}
