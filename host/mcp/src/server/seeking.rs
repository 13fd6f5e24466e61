//! A call of a tool that is not known, while the server behind that may have it is not there yet, or a component that
//! may have it was not described yet: it waits for that.
//!
//! Never here: the call itself.

use std::time::Duration;

use mimir_core::Code;

use super::Server;

/// How long it may take until what a server has said counts.
const COUNTS: Duration = Duration::from_secs(5);

impl Server {
    /// Waits for the servers behind that may have this tool, if it is not known, and until what they say counts.
    pub(super) async fn seek(&self, tool: &str) {
        if self.is_there(tool) {
            return;
        }
        if let Some(described) = self.0.described.get() {
            // A component that is described for the first time may have it. What describes them gives up by itself.
            let mut described = described.clone();
            let _ = described.wait_for(|described| *described).await;
        }
        let Some(servers) = self.servers() else {
            return;
        };
        let mut replaced = self.0.replaced.subscribe();
        if self.is_there(tool) || !servers.seek(tool).await {
            return;
        }
        let known = servers.knows(tool);
        let counts =
            async { while known && !self.is_told(tool) && replaced.changed().await.is_ok() {} };
        // What has no tool of this name is refused as such.
        let _ = tokio::time::timeout(COUNTS, counts).await;
    }

    fn is_there(&self, tool: &str) -> bool {
        self.0.pipeline.world().registry.get(tool).is_some()
    }

    /// Whether it is there, or it is known why it is not.
    fn is_told(&self, tool: &str) -> bool {
        let world = self.0.pipeline.world();
        let found = world.registry.find(tool);
        !found.is_err_and(|error| error.code == Code::NotFound)
    }
}
