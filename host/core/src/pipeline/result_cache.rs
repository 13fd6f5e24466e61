//! Results of tools that only read, for later calls with the same arguments (`tools.NAME.cache`).
//!
//! A stored result is returned only within its time to live, in the same session, under the same rules, tools and
//! grants, for the same build and rights, and as long as no file that the tool could read has changed. Changes of files
//! are not seen for tools of MCP servers: their results are removed when a tool of a server may have changed something.
//! A result then passes the stages after the run like the result of any call: it is masked with the secrets of that
//! time, labelled, and recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::backend::{RawResult, ResourceUsage};
use crate::config::CacheSettings;
use crate::outcome::{Content, ToolOutput, json_len};
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::approve::Approved;
use super::label::TaintFloor;
use super::{PipelineSnapshot, StageContext};

/// Maximum number of stored results of all sessions, and their maximum size in bytes.
const ENTRIES_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;

/// Maximum size of one stored result, with its arguments, in bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The stored results of a pipeline.
#[derive(Default)]
pub(super) struct ResultCache(Mutex<CacheEntries>);

#[derive(Default)]
struct CacheEntries {
    /// The oldest first.
    entries: VecDeque<CacheEntry>,
    bytes: usize,
    /// Number of calls of MCP servers that may have changed something.
    server_changes: u64,
}

struct CacheEntry {
    key: CacheKey,
    expires: Instant,
    output: ToolOutput,
    truncated: bool,
    /// The labels of everything that the call has read.
    taint: TaintFloor,
    bytes: usize,
    is_of_server: bool,
}

/// Everything that a result depends on.
#[derive(Clone)]
struct CacheKey {
    /// The tools and the rules. A change of settings or grants creates another snapshot.
    snapshot: Weak<PipelineSnapshot>,
    /// Tool, build, arguments, caller and rights, as text.
    text: Arc<str>,
    /// The state of the files that the call can read.
    files: Option<String>,
}

impl PartialEq for CacheKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
            && self.files == other.files
            && Weak::ptr_eq(&self.snapshot, &other.snapshot)
    }
}

/// A call whose result may come from the cache, and may be stored in it.
pub(super) struct CacheLookup<'a> {
    stage: &'a StageContext<'a>,
    tool: Arc<Tool>,
    settings: CacheSettings,
    key: CacheKey,
    server_changes: u64,
}

/// Returns why results of a tool are never reused, as a clause about the tool. `None` if they may be.
pub(crate) fn refusal(tool: &Tool) -> Option<&'static str> {
    let needs = &tool.definition.needs;
    let stores_values = |import: &String| {
        import.starts_with("mimir:tool/storage") || import.starts_with("wasi:keyvalue/")
    };
    if !tool.definition.hints.read_only {
        Some("the tool does not declare that it only reads")
    } else if !needs.secrets.is_empty() || !needs.variables.is_empty() {
        Some("the tool uses secrets or variables")
    } else if !needs.commands.is_empty() || !needs.tools.is_empty() || needs.model {
        Some("the tool runs commands, calls tools or uses a model")
    } else if tool.origin.imports.iter().any(stores_values) {
        Some("the tool reads stored values")
    } else if tool.source == ToolSource::BuiltIn
        && matches!(
            tool.definition.group,
            ToolGroup::Runtime | ToolGroup::Memory | ToolGroup::Browser
        )
    {
        Some("its results change without a change of files")
    } else {
        None
    }
}

impl<'a> CacheLookup<'a> {
    /// Prepares the lookup of a call. `None` if its result is not reused.
    pub(super) async fn new(
        stage: &'a StageContext<'a>,
        call: &Approved,
        settings: CacheSettings,
    ) -> Option<Self> {
        let tool = call.tool();
        // The rights of a nested call also depend on its callers.
        if call.checked.parent.is_some() || !call.variables().is_empty() {
            return None;
        }
        let server_changes = stage.results.0.lock().server_changes;
        let context = call.context();
        let text = serde_json::to_string(&(
            tool.name(),
            &tool.origin.digest,
            (&context.session_id, &context.conversation_id, &context.user),
            call.arguments(),
            call.rights(),
        ));
        let text = text.ok().filter(|text| text.len() <= ENTRY_BYTES_MAX)?;
        Some(Self {
            stage,
            tool: Arc::clone(tool),
            settings,
            key: CacheKey {
                snapshot: Arc::downgrade(stage.snapshot),
                text: text.into(),
                files: files_state(call).await?,
            },
            server_changes,
        })
    }

    /// Returns the stored result, and adds the labels of what it is based on to the call.
    pub(super) fn find(&self, call: &Approved) -> Option<RawResult> {
        let now = self.stage.ports.clock.instant();
        let mut cache = self.stage.results.0.lock();
        cache.remove_expired(now);
        let entry = cache.entries.iter().find(|entry| entry.key == self.key)?;
        call.taint_floor().add_floor(&entry.taint);
        Some(RawResult {
            result: Ok(entry.output.clone()),
            usage: ResourceUsage::default(),
            truncated: entry.truncated,
        })
    }

    /// Stores the result of the call, unless files have changed or a person was asked while it ran. `again` is the
    /// call.
    pub(super) async fn store(self, raw: &RawResult, again: &Approved) {
        let Ok(output) = &raw.result else { return };
        if again.has_asked_person() {
            return;
        }
        let bytes = self.key.text.len() + output_bytes(output);
        if bytes > ENTRY_BYTES_MAX {
            return;
        }
        let Some(files) = files_state(again).await else {
            return;
        };
        if files != self.key.files {
            return;
        }
        let taint = TaintFloor::default();
        taint.add_floor(&again.taint_floor());
        let now = self.stage.ports.clock.instant();
        let entry = CacheEntry {
            key: self.key,
            expires: now + self.settings.ttl(),
            output: output.clone(),
            truncated: raw.truncated,
            taint,
            bytes,
            is_of_server: self.tool.source == ToolSource::Mcp,
        };
        tracing::debug!(tool = %self.tool.name(), bytes, "the result is stored for later calls");
        let mut cache = self.stage.results.0.lock();
        if !entry.is_of_server || cache.server_changes == self.server_changes {
            cache.add(entry, now);
        }
    }
}

impl ResultCache {
    /// Removes all results, after a change of settings, tools or grants.
    pub(super) fn clear(&self) {
        let mut cache = self.0.lock();
        cache.remove(|_| true);
    }

    /// Returns a guard that removes the results of MCP servers when it is dropped, if the tool is one of a server and
    /// may change something.
    pub(super) fn watch_changes(&self, tool: &Tool) -> Option<ServerChange<'_>> {
        let is_change = tool.source == ToolSource::Mcp && !tool.definition.hints.read_only;
        // Not `then_some`, which would create and drop the guard in any case.
        if is_change {
            Some(ServerChange(self))
        } else {
            None
        }
    }

    /// Removes the results of a session.
    pub(super) fn end_session(&self, id: &str) {
        let is_of_session = |entry: &CacheEntry| entry.is_of_session(id);
        let mut cache = self.0.lock();
        cache.remove(is_of_session);
    }
}

/// A running call of an MCP server that may change something. The results of servers are removed at its end.
pub(super) struct ServerChange<'a>(&'a ResultCache);

impl Drop for ServerChange<'_> {
    fn drop(&mut self) {
        let mut cache = self.0.0.lock();
        cache.server_changes += 1;
        cache.remove(|entry| entry.is_of_server);
    }
}

impl CacheEntry {
    fn is_of_session(&self, id: &str) -> bool {
        let parts: serde_json::Value = serde_json::from_str(&self.key.text).unwrap_or_default();
        parts[2][0] == id
    }
}

impl CacheEntries {
    fn remove(&mut self, is_removed: impl Fn(&CacheEntry) -> bool) {
        self.entries.retain(|entry| !is_removed(entry));
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }

    fn remove_expired(&mut self, now: Instant) {
        self.remove(|entry| entry.expires <= now || entry.key.snapshot.strong_count() == 0);
    }

    /// Adds a result, and removes the oldest ones that are beyond the limits.
    fn add(&mut self, entry: CacheEntry, now: Instant) {
        self.remove_expired(now);
        self.remove(|other| other.key.text == entry.key.text);
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes;
        }
    }
}

/// Returns the state of the files that a call can read, if it can read any. The outer `None`: the state is not known.
async fn files_state(call: &Approved) -> Option<Option<String>> {
    let files = &call.rights().files;
    if files.is_empty() {
        return Some(None);
    }
    let folders = files.iter().map(|need| need.path.clone()).collect();
    let state = call.tool().backend.files_state(folders).await?;
    Some(Some(state))
}

fn output_bytes(output: &ToolOutput) -> usize {
    let content: usize = output.content.iter().map(Content::len).sum();
    content + output.structured.as_ref().map_or(0, json_len)
}
