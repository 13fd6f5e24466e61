//! Lists a server's tools, resources and prompts.

use std::sync::Arc;

use mimir_core::ToolError;

use super::{ListedTools, RemoteServer, ServerConnection};
use crate::client::description::{
    MAX_TOTAL_SIZE, ServerAbilities, ServerDescription, definition_digest,
};
use crate::client::operation::ServerListKind;

impl RemoteServer {
    /// Lists the server's tools, resources and prompts again, and stores the result.
    pub(super) async fn relist(&self, connection: &ServerConnection) -> Result<(), ToolError> {
        let capabilities = connection.capabilities();
        let resources = capabilities.resources.filter(|_| self.spec.resources);
        let abilities = ServerAbilities {
            subscribe: resources
                .as_ref()
                .is_some_and(|can| can.subscribe == Some(true)),
            resources: resources.is_some(),
            prompts: capabilities.prompts.is_some() && self.spec.prompts,
            complete: capabilities.completions.is_some(),
        };
        let mut remaining = MAX_TOTAL_SIZE;
        // A server that declares resources or prompts, but not tools, has none.
        let (tools, more) =
            if capabilities.tools.is_none() && (abilities.resources || abilities.prompts) {
                (Vec::new(), false)
            } else {
                connection
                    .list(ServerListKind::Tools, self.spec.start, &mut remaining)
                    .await?
            };
        let mut described = ServerDescription::new(connection.server_info(), tools);
        (described.abilities, described.is_truncated) = (abilities, more);
        let previous = self.known();
        for (enabled, kind, list) in [
            (
                abilities.prompts,
                ServerListKind::Prompts,
                &mut described.prompts,
            ),
            (
                abilities.resources,
                ServerListKind::Resources,
                &mut described.resources,
            ),
            (
                abilities.resources,
                ServerListKind::Templates,
                &mut described.templates,
            ),
        ] {
            if !enabled {
                continue;
            }
            // A failure does not affect the tools: some servers return an error instead of an empty list of templates.
            // The old list is retained on failure, because a changed list would require the user to trust the server
            // again.
            match connection.list(kind, self.spec.start, &mut remaining).await {
                Ok((items, _)) => *list = items,
                Err(error) => {
                    tracing::info!(server = self.spec.name, %error, "the server does not list its {}", kind.key());
                    *list = previous
                        .as_deref()
                        .map_or_else(Vec::new, |previous| previous.list(kind).to_vec());
                }
            }
        }
        let text = serde_json::to_string(&described).unwrap_or_default();
        let current = self.index_tools(described);
        let tools = current.digests.len();
        self.status.update(|status| status.tools = Some(tools));
        let mut listed = self.listed.lock();
        let is_unchanged = listed
            .as_ref()
            .is_some_and(|listed| listed.description == current.description);
        if !is_unchanged {
            self.deps.store.write(&self.cache_key(), &text);
            *listed = Some(current);
            drop(listed);
            self.announce_change();
        }
        Ok(())
    }

    /// Indexes the tools of a description.
    pub(super) fn index_tools(&self, described: ServerDescription) -> ListedTools {
        let (tools, _) = described.remote_tools(&self.spec);
        let digests = tools.into_iter();
        let digests = digests
            .map(|tool| (tool.name, definition_digest(&tool.definition)))
            .collect();
        ListedTools {
            description: Arc::new(described),
            digests: Arc::new(digests),
        }
    }
}
