//! The port of the pipeline: one tool of one server.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, Raw};
use mimir_core::pipeline::Approved;
use serde_json::Value;

use super::result;
use super::server::Server;

/// A tool of a server.
pub(super) struct ServerTool {
    pub(super) server: Arc<Server>,
    /// What the server calls it.
    pub(super) theirs: String,
    /// What it was when it was listed: the tool that was approved.
    pub(super) print: String,
}

impl Backend for ServerTool {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let arguments = match call.arguments() {
                Value::Object(arguments) => arguments.clone(),
                _ => serde_json::Map::new(),
            };
            let observer = Arc::clone(call.observer());
            let answer = self
                .server
                .call(&self.theirs, &self.print, arguments, observer);
            match answer.await {
                Ok(answer) => result::raw(answer, call.limits()),
                Err(error) => Raw::failed(error),
            }
        })
    }
}
