//! The tools that would have the names of a server's tools, for its review.

use std::sync::Arc;

use mimir_core::tool::ToolTrust;
use mimir_core::{Registry, Tool};

use crate::setup::{HostSetup, add_server_tools};

impl HostSetup {
    /// Returns the tools that are known without starting a server, with `tools` in place of those of their own source, as
    /// if they were granted: shows which tool would have each name.
    pub async fn registry_with_granted(&self, tools: &[Tool]) -> Registry {
        let host = self.host();
        let mut known = self.toolbox(Arc::clone(&host)).known_only().load().await;
        add_server_tools(&mut known, self.servers.servers().known());
        let is_replaced = |known: &Tool| {
            let location = &known.origin.location;
            tools.iter().any(|tool| tool.origin.location == *location)
        };
        known.tools.retain(|tool| !is_replaced(tool));
        for tool in tools {
            let mut tool = tool.clone();
            tool.trust = ToolTrust::Trusted;
            known.tools.push(tool);
        }
        self.scripts(host).add_tools_to(&mut known);
        self.build_registry(known).registry
    }
}
