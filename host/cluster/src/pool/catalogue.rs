//! The tools of the workers, as this process knows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::Registry;
use mimir_core::tool::{Tool, ToolGroup, ToolSource};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::PoolParts;
use super::replies::WorkerReply;
use crate::frames::{self, ControlMessage, PartJoiner, RemoteToolList};
use crate::names;
use crate::node::NodeEntry;

/// Time within which a worker lists its tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a worker has not listed its tools.
const LIST_RETRY: Duration = Duration::from_millis(500);

/// The tools of the workers of a workspace.
#[derive(Clone)]
pub struct RemoteTools {
    /// Their digest.
    pub digest: String,
    tools: Arc<Vec<Tool>>,
}

impl RemoteTools {
    fn new(catalogue: RemoteToolList) -> Self {
        let tools = catalogue.tools.into_iter();
        Self {
            digest: catalogue.digest,
            tools: Arc::new(
                tools
                    .map(mimir_core::wire::ToolMessage::into_tool)
                    .collect(),
            ),
        }
    }

    /// Returns a registry with the tools. They can be listed, but not run in this process.
    pub fn registry(&self) -> Registry {
        Registry::new(self.tools.iter().cloned(), Vec::new())
    }
}

/// Returns true if calls of a tool may depend on what earlier calls of the session have left in the worker: programs in
/// the background, interpreters, browsers, and the processes of MCP servers.
pub(super) fn holds_sessions(tool: &Tool) -> bool {
    matches!(
        tool.definition.group,
        ToolGroup::Runtime | ToolGroup::Browser
    ) || tool.source == ToolSource::Mcp
}

/// Returns true if a call starts a program that ends with the call, and names nothing that earlier calls have left in a
/// worker. The program may still look for programs in the background of its session.
pub(super) fn needs_no_state(tool: &Tool, arguments: &Value) -> bool {
    match (tool.source, tool.name().as_str()) {
        (ToolSource::BuiltIn, "exec") => arguments["background"] != true,
        (ToolSource::BuiltIn, "run_code") => arguments["session"].is_null(),
        (ToolSource::BuiltIn | ToolSource::Mcp, _) => false,
        (ToolSource::Custom | ToolSource::Teams, _) => tool.definition.group == ToolGroup::Runtime,
    }
}

impl PoolParts {
    /// Follows the tools of the workers.
    pub(super) async fn follow_tools(self: Arc<Self>) {
        let view = self.node.nodes();
        let mut changes = view.changes();
        loop {
            changes.mark_unchanged();
            if let Some(worker) = self.find_new_tools() {
                match self.list_tools(&worker).await {
                    Some(catalogue) => {
                        let is_current = worker.tools.as_ref() == Some(&catalogue.digest);
                        let tools = RemoteTools::new(catalogue);
                        *self.registry.write() = Arc::new(tools.registry());
                        self.tools.send_replace(Some(tools));
                        if is_current {
                            continue;
                        }
                    }
                    None => tracing::warn!(node = worker.id, "a worker has not listed its tools"),
                }
                tokio::time::sleep(LIST_RETRY).await;
                continue;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns a worker with other tools than those known. If workers differ, those of most workers count.
    fn find_new_tools(&self) -> Option<Arc<NodeEntry>> {
        let nodes = self.node.nodes().list();
        let mut digests: BTreeMap<&str, (u32, &Arc<NodeEntry>)> = BTreeMap::new();
        for node in nodes.iter().filter(|node| self.is_worker(node)) {
            let digest = node.tools.as_deref().unwrap_or_default();
            digests.entry(digest).or_insert((0, node)).0 += 1;
        }
        let (digest, (_, worker)) = digests.into_iter().max_by_key(|(_, (count, _))| *count)?;
        let known = self.tools.borrow();
        let is_known = known.as_ref().is_some_and(|known| known.digest == digest);
        (!is_known).then(|| Arc::clone(worker))
    }

    async fn list_tools(&self, worker: &NodeEntry) -> Option<RemoteToolList> {
        let mut replies = self.replies.open();
        let deadline = Instant::now() + LIST_TIMEOUT;
        let subject = names::worker_control(&worker.id);
        for part in frames::encode(&ControlMessage::ListTools, self.max_payload()) {
            let reply = replies.subject.clone();
            let client = self.connection.client();
            let sent = client.publish_with_reply(subject.clone(), reply, part);
            sent.await.ok()?;
        }
        let mut joiner = PartJoiner::default();
        loop {
            match timeout_at(deadline, replies.next()).await.ok()? {
                WorkerReply::NotDelivered => return None,
                WorkerReply::Part(part) => {
                    if let Some(message) = joiner.add(&part).ok()? {
                        return frames::decode(&message);
                    }
                }
            }
        }
    }
}
