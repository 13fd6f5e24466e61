//! Lists a server's tools, resources and prompts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mimir_core::ToolError;

use super::{Link, Said, Server};
use crate::client::described::{ALL_MOST, Can, Described, print};
use crate::client::wanted::Kind;

impl Server {
    /// Lists everything again, and stores the result.
    pub(super) async fn look_again(&self, link: &Link) -> Result<(), ToolError> {
        let abilities = link.abilities();
        let resources = abilities.resources.filter(|_| self.spec.resources);
        let can = Can {
            subscribe: resources
                .as_ref()
                .is_some_and(|can| can.subscribe == Some(true)),
            resources: resources.is_some(),
            prompts: abilities.prompts.is_some() && self.spec.prompts,
            complete: abilities.completions.is_some(),
        };
        let mut room = ALL_MOST;
        // A server that declares resources or prompts, but no tools, is not asked for tools.
        let (tools, more) = match abilities.tools.is_none() && (can.resources || can.prompts) {
            true => (Vec::new(), false),
            false => link.list(Kind::Tools, self.spec.start, &mut room).await?,
        };
        let mut described = Described::new(link.server(), tools);
        (described.can, described.more) = (can, more);
        let before = self.known();
        for (there, kind, list) in [
            (can.prompts, Kind::Prompts, &mut described.prompts),
            (can.resources, Kind::Resources, &mut described.resources),
            (can.resources, Kind::Templates, &mut described.templates),
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
        let now = self.said(described);
        let mut said = self.said.lock();
        let same = said
            .as_ref()
            .is_some_and(|said| said.described == now.described);
        if !same {
            self.deps.store.write(&self.kept_under(), &text);
            *said = Some(now);
            drop(said);
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.news.notify_one();
        }
        Ok(())
    }

    /// Indexes the tools of a description.
    pub(super) fn said(&self, described: Described) -> Said {
        let (theirs, _) = described.theirs(&self.spec);
        let prints = theirs.into_iter();
        let prints = prints
            .map(|tool| (tool.name, print(&tool.definition)))
            .collect();
        Said {
            described: Arc::new(described),
            prints: Arc::new(prints),
        }
    }
}
