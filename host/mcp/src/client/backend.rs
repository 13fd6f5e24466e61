//! Pipeline backends: one tool of one server, or the reader of its resources or prompts.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, Raw};
use mimir_core::pipeline::Approved;
use serde_json::Value;

use super::desk::Desk;
use super::readers::{self, Reads};
use super::result;
use super::server::Server;
use super::wanted::Wanted;

/// A tool of a server.
pub(super) struct ServerTool {
    pub(super) server: Arc<Server>,
    /// Name of the tool at the server.
    pub(super) theirs: String,
    /// Digest of the definition at listing time: the one that was approved.
    pub(super) print: String,
}

impl Backend for ServerTool {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let call = Arc::new(call);
            let wanted = Wanted::Tool {
                name: self.theirs.clone(),
                arguments: match call.arguments() {
                    Value::Object(arguments) => arguments.clone(),
                    _ => serde_json::Map::new(),
                },
            };
            let server = &self.server;
            let desk = Desk::new(&server.spec, server.root(), Arc::clone(&call));
            match server.call(&wanted, Some(&self.print), &desk).await {
                Ok(answer) => result::raw(answer, call.limits()),
                Err(error) => Raw::failed(error),
            }
        })
    }
}

/// Reader of a server's resources or prompts.
pub(super) struct Reader {
    pub(super) server: Arc<Server>,
    pub(super) reads: Reads,
}

impl Backend for Reader {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let call = Arc::new(call);
            let wanted = self.reads.wanted(call.arguments());
            let server = &self.server;
            if call.arguments()[readers::WATCH] == true {
                let uri = call.arguments()["uri"].as_str().unwrap_or_default();
                return match server.watch(uri, true).await {
                    Ok(()) => readers::watched(),
                    Err(error) => Raw::failed(error),
                };
            }
            let desk = Desk::new(&server.spec, server.root(), Arc::clone(&call));
            match server.call(&wanted, None, &desk).await {
                Ok(answer) => readers::raw(answer, call.limits()),
                Err(error) => Raw::failed(error),
            }
        })
    }
}
