//! Lookup of resources and prompts: from the name that clients use to the server and the server's own name.

use std::collections::HashSet;
use std::sync::Arc;

use mimir_core::ToolError;
use rmcp::model::{ArgumentInfo, CompletionContext, Reference};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::listener::ResourceUpdate;
use super::reader_tools::{COMPLETE, EntryKind, WATCH};
use super::resource_library::{self, ResourceLibrary};
use super::server::RemoteServer;
use super::servers::McpServers;

/// A resource or prompt of a server, with the tool that reads it.
pub(crate) struct RemoteEntry {
    server: Arc<RemoteServer>,
    /// Name of the reader tool.
    pub(crate) tool: String,
    /// Name of the entry at the server.
    remote_name: String,
}

impl McpServers {
    /// Returns true if the resources or prompts of any server are visible.
    pub(crate) fn lists_entries(&self) -> bool {
        let servers = self.sorted();
        servers
            .iter()
            .any(|server| server.spec.resources || server.spec.prompts)
    }

    /// Returns the known resources and prompts of all servers. `seen_entries_of` returns the entries that the user has
    /// seen for a reader tool, or `None` if the reader tool is not visible.
    pub(crate) fn build_library(
        &self,
        seen_entries_of: impl Fn(&str) -> Option<HashSet<String>>,
    ) -> ResourceLibrary {
        let mut library = ResourceLibrary::default();
        for server in self.sorted() {
            if let Some(described) = server.known() {
                library.add(&server.spec, &described, &seen_entries_of);
            }
        }
        library
    }

    /// Returns the reader tools, which models do not see.
    pub(crate) fn readers(&self) -> Vec<String> {
        let servers = self.sorted();
        let names = servers.iter().flat_map(|server| {
            [EntryKind::Resources, EntryKind::Prompts].map(|kind| kind.name(&server.spec))
        });
        names.collect()
    }

    /// Finds the resource or resource template with this URI.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<RemoteEntry> {
        let mut unprefixed = Vec::new();
        for server in self.sorted() {
            if !server.spec.resources {
                continue;
            }
            if let Some(remote_uri) = resource_library::server_uri(&server.spec, uri) {
                return Some(RemoteEntry::new(
                    server.clone(),
                    EntryKind::Resources,
                    remote_uri,
                ));
            }
            let Some(described) = server.known() else {
                continue;
            };
            if server.spec.prefix.is_empty() && described.abilities.resources {
                unprefixed.push((server, described));
            }
        }
        let has_resource =
            |(_, described): &(_, Arc<_>)| resource_library::has_resource(described, uri);
        let index = match unprefixed.len() {
            // Servers may have resources that they do not list.
            1 => 0,
            _ => unprefixed.iter().position(has_resource)?,
        };
        let (server, _) = unprefixed.swap_remove(index);
        Some(RemoteEntry::new(server, EntryKind::Resources, uri))
    }

    /// Finds the prompt with this name.
    pub(crate) fn find_prompt(&self, name: &str) -> Option<RemoteEntry> {
        self.sorted().into_iter().find_map(|server| {
            let remote_name = name.strip_prefix(server.spec.prefix.as_str())?;
            let described = server.known().filter(|_| server.spec.prompts)?;
            let listed = described
                .prompts
                .iter()
                .any(|prompt| prompt["name"] == remote_name);
            listed.then(|| RemoteEntry::new(server, EntryKind::Prompts, remote_name))
        })
    }

    /// Subscribes to resource updates.
    pub(crate) fn subscribe_updates(&self) -> broadcast::Receiver<ResourceUpdate> {
        self.updates().subscribe()
    }

    /// Returns the URI of an updated resource as clients know it.
    pub(crate) fn uri_of(&self, updated: &ResourceUpdate) -> Option<String> {
        let server = self.get(&updated.server)?;
        Some(resource_library::client_uri(&server.spec, &updated.uri))
    }
}

impl RemoteEntry {
    fn new(server: Arc<RemoteServer>, kind: EntryKind, remote_name: &str) -> Self {
        Self {
            tool: kind.name(&server.spec),
            server,
            remote_name: remote_name.to_owned(),
        }
    }

    /// Returns the arguments of the call that reads this resource.
    pub(crate) fn read_arguments(&self) -> Value {
        json!({ "uri": self.remote_name })
    }

    /// Returns the arguments of the call that gets this prompt.
    pub(crate) fn prompt_arguments(&self, arguments: Option<Value>) -> Value {
        match arguments {
            Some(arguments) => json!({"name": self.remote_name, "arguments": arguments}),
            None => json!({ "name": self.remote_name }),
        }
    }

    /// Converts a URI in the server's response to the URI that clients know.
    pub(crate) fn client_uri(&self, remote_uri: &str) -> String {
        resource_library::client_uri(&self.server.spec, remote_uri)
    }

    /// Returns true if the server supports update notifications.
    pub(crate) fn is_watchable(&self) -> bool {
        self.server
            .known()
            .is_some_and(|described| described.abilities.subscribe)
    }

    /// Returns the arguments of the call that subscribes to updates.
    pub(crate) fn watch_arguments(&self) -> Value {
        json!({ "uri": self.remote_name, WATCH: true })
    }

    /// Unsubscribes from updates, without a tool call: the server has known the URI since the subscription.
    pub(crate) async fn unwatch(&self, user: Option<&str>) -> Result<(), ToolError> {
        let server = self.server.for_user(user);
        server.watch(&self.remote_name, false).await
    }

    /// Returns true if the server completes arguments.
    pub(crate) fn has_completion(&self) -> bool {
        let known = self.server.known();
        known.is_some_and(|described| described.abilities.complete)
    }

    /// Returns the arguments of the call that completes one argument. `context` contains the values of the others.
    pub(crate) fn completion_arguments(
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
        json!({key: self.remote_name, "arguments": arguments, COMPLETE: argument.name})
    }
}
