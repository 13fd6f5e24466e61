//! Lists a server's tools, resources and prompts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mimir_core::ToolError;

use super::{ListedTools, RemoteServer, ServerConnection};
use crate::client::description::{
    MAX_TOTAL_SIZE, ServerAbilities, ServerDescription, definition_digest,
};
use crate::client::operation::ServerListKind;

impl RemoteServer {
    /// Lists everything again, and stores the result.
    pub(super) async fn relist(&self, link: &ServerConnection) -> Result<(), ToolError> {
        let abilities = link.abilities();
        let resources = abilities.resources.filter(|_| self.spec.resources);
        let can = ServerAbilities {
            subscribe: resources
                .as_ref()
                .is_some_and(|can| can.subscribe == Some(true)),
            resources: resources.is_some(),
            prompts: abilities.prompts.is_some() && self.spec.prompts,
            complete: abilities.completions.is_some(),
        };
        let mut room = MAX_TOTAL_SIZE;
        // A server that declares resources or prompts, but no tools, is not asked for tools.
        let (tools, more) = match abilities.tools.is_none() && (can.resources || can.prompts) {
            true => (Vec::new(), false),
            false => {
                link.list(ServerListKind::Tools, self.spec.start, &mut room)
                    .await?
            }
        };
        let mut described = ServerDescription::new(link.server(), tools);
        (described.can, described.more) = (can, more);
        let before = self.known();
        for (there, kind, list) in [
            (can.prompts, ServerListKind::Prompts, &mut described.prompts),
            (
                can.resources,
                ServerListKind::Resources,
                &mut described.resources,
            ),
            (
                can.resources,
                ServerListKind::Templates,
                &mut described.templates,
            ),
        ] {
            if !there {
                continue;
            }
            // A failure here does not affect the tools; some servers have no templates, and return an error for the
            // list. The old list is retained on failure: a changed one would require a person to trust the server
            // again.
            match link.list(kind, self.spec.start, &mut room).await {
                Ok((items, _)) => *list = items,
                Err(error) => {
                    tracing::info!(server = self.spec.name, %error, "the server does not list its {}", kind.key());
                    *list = before
                        .as_deref()
                        .map_or_else(Vec::new, |before| before.list(kind).to_vec());
                }
            }
        }
        let text = serde_json::to_string(&described).unwrap_or_default();
        let now = self.index_tools(described);
        let mut said = self.listed.lock();
        let same = said
            .as_ref()
            .is_some_and(|said| said.described == now.described);
        if !same {
            self.deps.store.write(&self.cache_key(), &text);
            *said = Some(now);
            drop(said);
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.news.notify_one();
        }
        Ok(())
    }

    /// Indexes the tools of a description.
    pub(super) fn index_tools(&self, described: ServerDescription) -> ListedTools {
        let (theirs, _) = described.remote_tools(&self.spec);
        let prints = theirs.into_iter();
        let prints = prints
            .map(|tool| (tool.name, definition_digest(&tool.definition)))
            .collect();
        ListedTools {
            described: Arc::new(described),
            prints: Arc::new(prints),
        }
    }
}
