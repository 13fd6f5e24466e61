//! Lookup of unknown tools: a call waits for servers that have not started yet and for components that have not been
//! described yet, because they may have the tool.
//!
//! Out of scope: the call itself.

use std::time::Duration;

use super::ToolServer;

/// Time limit until a server's new description takes effect.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);

impl ToolServer {
    /// Waits until a tool is known, or until the descriptions of all components and servers that may have it are in
    /// effect.
    pub(super) async fn wait_for_tool(&self, tool: &str) {
        if self.is_registered(tool) {
            return;
        }
        if let Some(described) = self.0.described.get() {
            // A component that is not described yet may have the tool. The description has a time limit of its own.
            let mut described = described.clone();
            let _ = described.wait_for(|described| *described).await;
        }
        let Some(servers) = self.servers() else {
            return;
        };
        let mut replaced = self.0.replaced.subscribe();
        if self.is_registered(tool) {
            return;
        }
        servers.start_for(tool).await;
        // Also if nothing was started: tools that another task has just listed may not be in effect yet.
        let known = servers.knows_tool(tool);
        let resolved =
            async { while known && self.is_unknown(tool) && replaced.changed().await.is_ok() {} };
        // On a timeout the call fails because the tool is unknown.
        let _ = tokio::time::timeout(UPDATE_TIMEOUT, resolved).await;
    }

    fn is_registered(&self, tool: &str) -> bool {
        self.0.pipeline.snapshot().registry.get(tool).is_some()
    }

    fn is_unknown(&self, tool: &str) -> bool {
        self.0.pipeline.snapshot().registry.is_unknown(tool)
    }
}
