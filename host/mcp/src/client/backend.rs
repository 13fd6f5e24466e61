//! Pipeline backends: one tool of one server, or the reader of its resources or prompts.

use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::pipeline::Approved;
use serde_json::Value;

use super::call_result;
use super::input_broker::InputRequestBroker;
use super::operation::ServerOperation;
use super::reader_tools::{self, EntryKind};
use super::server::RemoteServer;
use super::user_login;

/// A tool of a server.
pub(super) struct ServerTool {
    pub(super) server: Arc<RemoteServer>,
    /// Name of the tool at the server.
    pub(super) remote_name: String,
    /// Digest of the approved definition.
    pub(super) digest: String,
}

impl Backend for ServerTool {
    fn check_available(&self) -> Result<(), ToolError> {
        self.server.check_available()
    }

    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let server = &self.server.for_user(call.caller());
            let call = Arc::new(call);
            let operation = ServerOperation::Tool {
                name: self.remote_name.clone(),
                arguments: match call.arguments() {
                    Value::Object(arguments) => arguments.clone(),
                    _ => serde_json::Map::new(),
                },
            };
            let broker = InputRequestBroker::new(&server.spec, server.root(), Arc::clone(&call));
            let mut answer = server.call(&operation, Some(&self.digest), &broker).await;
            if let Err(error) = answer {
                answer = match user_login::log_in_for_call(server, &call, error).await {
                    Ok(()) => server.call(&operation, Some(&self.digest), &broker).await,
                    Err(error) => Err(error),
                };
            }
            let result = match answer {
                Ok(answer) => call_result::call_result(answer, call.limits()),
                Err(error) => RawResult::failed(error),
            };
            server
                .deps()
                .refused
                .add_to_result(&server.spec.name, result)
        })
    }
}

/// Reader of a server's resources or prompts.
pub(super) struct EntryReader {
    pub(super) server: Arc<RemoteServer>,
    pub(super) kind: EntryKind,
}

impl Backend for EntryReader {
    fn check_available(&self) -> Result<(), ToolError> {
        self.server.check_available()
    }

    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let server = &self.server.for_user(call.caller());
            let call = Arc::new(call);
            let operation = self.kind.operation(call.arguments());
            if call.arguments()[reader_tools::WATCH] == true {
                let uri = call.arguments()["uri"].as_str().unwrap_or_default();
                let mut watched = server.watch(uri, true).await;
                if let Err(error) = watched {
                    watched = match user_login::log_in_for_call(server, &call, error).await {
                        Ok(()) => server.watch(uri, true).await,
                        Err(error) => Err(error),
                    };
                }
                return match watched {
                    Ok(()) => reader_tools::watch_result(),
                    Err(error) => RawResult::failed(error),
                };
            }
            let broker = InputRequestBroker::new(&server.spec, server.root(), Arc::clone(&call));
            let mut answer = server.call(&operation, None, &broker).await;
            if let Err(error) = answer {
                answer = match user_login::log_in_for_call(server, &call, error).await {
                    Ok(()) => server.call(&operation, None, &broker).await,
                    Err(error) => Err(error),
                };
            }
            let result = match answer {
                Ok(answer) => reader_tools::read_result(answer, call.limits()),
                Err(error) => RawResult::failed(error),
            };
            server
                .deps()
                .refused
                .add_to_result(&server.spec.name, result)
        })
    }
}
