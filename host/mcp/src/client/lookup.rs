//! Which server has what: from the names that clients of mimir know to the server and its own.

use std::sync::Arc;

use mimir_core::{Code, ToolError};
use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext,
    CompletionInfo, Reference, ServerResult,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::ears::Updated;
use super::flags::shown;
use super::library::{self, Library};
use super::readers::Reads;
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

/// Characters of a proposal for an argument.
const PROPOSAL_MOST: usize = 256;

impl Servers {
    /// Whether any server is to be seen beyond its tools.
    pub(crate) fn shares(&self) -> bool {
        let all = self.sorted();
        all.iter()
            .any(|server| server.spec.resources || server.spec.prompts)
    }

    /// What servers have beside tools, as far as it is known. `shows` says whether a tool that reads it is shown.
    pub(crate) fn library(&self, shows: impl Fn(&str) -> bool) -> Library {
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

    /// Has the server say when it is another, or say so no more.
    pub(crate) async fn watch(&self, on: bool) -> Result<(), ToolError> {
        self.server.watch(&self.theirs, on).await
    }

    /// The server's proposals for an argument.
    pub(crate) async fn complete(
        &self,
        reference: &Reference,
        argument: ArgumentInfo,
        context: Option<CompletionContext>,
    ) -> Result<CompletionInfo, ToolError> {
        let can = self.server.known().map(|described| described.can);
        if !can.is_some_and(|can| can.complete) {
            return Ok(CompletionInfo::default());
        }
        let theirs = match reference {
            Reference::Prompt(_) => Reference::for_prompt(self.theirs.clone()),
            _ => Reference::for_resource(self.theirs.clone()),
        };
        let mut params = CompleteRequestParams::new(theirs, argument);
        params.context = context;
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        let ServerResult::CompleteResult(result) = self.server.ask(request).await? else {
            let message = "the server's answer is not what was asked for";
            return Err(ToolError::new(Code::ExecutionError, message));
        };
        let mut info = result.completion;
        info.values.truncate(CompletionInfo::MAX_VALUES);
        for value in &mut info.values {
            *value = shown(mimir_core::text::prefix(value, PROPOSAL_MOST));
        }
        Ok(info)
    }
}
