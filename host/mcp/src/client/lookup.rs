//! Which server has what: from the names that clients of mimir know to the server and its own.

use std::collections::HashSet;
use std::sync::Arc;

use mimir_core::ToolError;
use rmcp::model::{ArgumentInfo, CompletionContext, Reference};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::ears::Updated;
use super::library::{self, Library};
use super::readers::{COMPLETE, Reads, WATCH};
use super::server::Server;
use super::servers::Servers;

/// Something that one server has: how it is read, and what the server calls it.
pub(crate) struct Place {
    server: Arc<Server>,
    /// The tool that reads it.
    pub(crate) tool: String,
    /// What the server calls it.
    theirs: String,
}

impl Servers {
    /// Whether any server is to be seen beyond its tools.
    pub(crate) fn shares(&self) -> bool {
        let all = self.sorted();
        all.iter()
            .any(|server| server.spec.resources || server.spec.prompts)
    }

    /// What servers have beside tools, as far as it is known. `shows` gives the entries that a person has seen of a
    /// server, where the tool that reads them is shown.
    pub(crate) fn library(&self, shows: impl Fn(&str) -> Option<HashSet<String>>) -> Library {
        let mut library = Library::default();
        for server in self.sorted() {
            if let Some(described) = server.known() {
                library.add(&server.spec, &described, &shows);
            }
        }
        library
    }

    /// The tools that read what servers have: no model is shown them.
    pub(crate) fn readers(&self) -> Vec<String> {
        let all = self.sorted();
        let names = all.iter().flat_map(|server| {
            [Reads::Resources, Reads::Prompts].map(|reads| reads.name(&server.spec))
        });
        names.collect()
    }

    /// The resource of this URI. `uri` may be that of a template.
    pub(crate) fn resource(&self, uri: &str) -> Option<Place> {
        let mut bare = Vec::new();
        for server in self.sorted() {
            if !server.spec.resources {
                continue;
            }
            if let Some(theirs) = library::uri_there(&server.spec, uri) {
                return Some(Place::of(server.clone(), Reads::Resources, theirs));
            }
            let Some(described) = server.known() else {
                continue;
            };
            if server.spec.prefix.is_empty() && described.can.resources {
                bare.push((server, described));
            }
        }
        let has = |(_, described): &(_, Arc<_>)| library::has(described, uri);
        let at = match bare.len() {
            // It may have more than it lists.
            1 => 0,
            _ => bare.iter().position(has)?,
        };
        let (server, _) = bare.swap_remove(at);
        Some(Place::of(server, Reads::Resources, uri))
    }

    /// The prompt of this name.
    pub(crate) fn prompt(&self, name: &str) -> Option<Place> {
        self.sorted().into_iter().find_map(|server| {
            let theirs = name.strip_prefix(server.spec.prefix.as_str())?;
            let described = server.known().filter(|_| server.spec.prompts)?;
            let listed = described.prompts.iter().any(|one| one["name"] == theirs);
            listed.then(|| Place::of(server, Reads::Prompts, theirs))
        })
    }

    /// News of resources, as clients know them.
    pub(crate) fn news(&self) -> broadcast::Receiver<Updated> {
        self.updates().subscribe()
    }

    /// What clients call a resource of a server.
    pub(crate) fn uri_of(&self, updated: &Updated) -> Option<String> {
        let server = self.get(&updated.server)?;
        Some(library::uri_here(&server.spec, &updated.uri))
    }
}

impl Place {
    fn of(server: Arc<Server>, reads: Reads, theirs: &str) -> Self {
        Self {
            tool: reads.name(&server.spec),
            server,
            theirs: theirs.to_owned(),
        }
    }

    /// The arguments of the call that reads this resource.
    pub(crate) fn reading(&self) -> Value {
        json!({ "uri": self.theirs })
    }

    /// The arguments of the call that gets this prompt.
    pub(crate) fn getting(&self, arguments: Option<Value>) -> Value {
        match arguments {
            Some(arguments) => json!({"name": self.theirs, "arguments": arguments}),
            None => json!({ "name": self.theirs }),
        }
    }

    /// What clients call the URI that this server writes in an answer.
    pub(crate) fn uri_here(&self, theirs: &str) -> String {
        library::uri_here(&self.server.spec, theirs)
    }

    /// Whether its server says when it is another.
    pub(crate) fn is_watchable(&self) -> bool {
        self.server
            .known()
            .is_some_and(|described| described.can.subscribe)
    }

    /// The arguments of the call that has the server say when it changes.
    pub(crate) fn watching(&self) -> Value {
        json!({ "uri": self.theirs, WATCH: true })
    }

    /// Has the server say no more when it changes. It was told the URI by the call that began to watch.
    pub(crate) async fn unwatch(&self) -> Result<(), ToolError> {
        self.server.watch(&self.theirs, false).await
    }

    /// Returns true if the server has proposals for arguments.
    pub(crate) fn completes(&self) -> bool {
        let known = self.server.known();
        known.is_some_and(|described| described.can.complete)
    }

    /// The arguments of the call that asks for proposals for one argument. `context` has the values of others.
    pub(crate) fn completing(
        &self,
        reference: &Reference,
        argument: ArgumentInfo,
        context: Option<CompletionContext>,
    ) -> Value {
        let others = context.and_then(|context| context.arguments);
        let mut arguments: Map<String, Value> = others
            .into_iter()
            .flatten()
            .map(|(name, value)| (name, value.into()))
            .collect();
        arguments.insert(argument.name.clone(), argument.value.into());
        let key = match reference {
            Reference::Prompt(_) => "name",
            _ => "uri",
        };
        json!({key: self.theirs, "arguments": arguments, COMPLETE: argument.name})
    }
}
