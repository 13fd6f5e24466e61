//! Calls that a server of version 2025-11-25 performs only as tasks (`execution.taskSupport: "required"` of the tool).
//!
//! rmcp reads neither this member of a tool nor the capability, so mimir learns it from the error that the protocol
//! requires for a plain call.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use rmcp::model::{
    ClientRequest, ContentBlock, CustomRequest, CustomResult, ErrorCode, ProtocolVersion,
    ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::ServerConnection;
use super::remote_task::TaskCancelGuard;
use crate::client::input_broker::InputRequestBroker;
use crate::client::operation::ServerOperation;

/// Minimum time for which the server is asked to keep a task: a person may take long to answer its questions.
const MIN_TASK_LIFETIME: Duration = Duration::from_secs(3600);

impl ServerConnection {
    /// Returns true if the server rejected a call because it performs it only as a task.
    pub(super) fn requires_task(&self, result: &Result<ServerResult, ServiceError>) -> bool {
        let info = self.peer.peer_info();
        info.is_some_and(|info| info.protocol_version == ProtocolVersion::V_2025_11_25)
            && is_rejection(result)
    }

    /// Calls a tool as a task, and waits for the result. Returns `None` for other operations, and if the server creates
    /// no task. Dropping the future cancels the task.
    pub(super) async fn call_as_task(
        &self,
        operation: &ServerOperation,
        broker: &Arc<InputRequestBroker>,
        time_limit: Option<Duration>,
    ) -> Result<Option<ServerResult>, ToolError> {
        let ServerOperation::Tool { name, arguments } = operation else {
            return Ok(None);
        };
        let lifetime = broker.call_time().max(MIN_TASK_LIFETIME);
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let params = json!({"name": name, "arguments": arguments, "task": {"ttl": lifetime}});
        let created = self.send_round(custom_request("tools/call", params), broker, time_limit);
        let ServerResult::CustomResult(CustomResult(created)) = created.await? else {
            return Ok(None);
        };
        let Some(id) = created["task"]["taskId"].as_str() else {
            return Ok(None);
        };
        let mut cancel_guard = TaskCancelGuard {
            connection: self,
            id: Some(id.to_owned()),
            meta: None,
        };
        // The server responds when the task has ended, and sends the questions of the task in the meantime.
        let request = custom_request("tasks/result", json!({ "taskId": id }));
        let result = self.try_round(request, broker, time_limit).await;
        if matches!(result, Ok(_) | Err(ServiceError::McpError(_))) {
            cancel_guard.id = None;
        }
        result.map(Some).map_err(|error| self.service_error(error))
    }
}

/// Returns true for the error of a plain call of a tool that runs only as a task. The text matters because the code alone
/// could be that of a failure inside the tool, after which a second call might do damage.
fn is_rejection(result: &Result<ServerResult, ServiceError>) -> bool {
    match result {
        Err(ServiceError::McpError(error)) => {
            error.code == ErrorCode::METHOD_NOT_FOUND
                && error.message.to_lowercase().contains("task")
        }
        // The TypeScript SDK returns the error as a result.
        Ok(ServerResult::CallToolResult(result)) if result.is_error == Some(true) => {
            matches!(&result.content[..], [ContentBlock::Text(content)]
                if content.text.starts_with("MCP error -32601:")
                    && content.text.contains("requires task augmentation"))
        }
        _ => false,
    }
}

/// Returns a request that rmcp has no type for.
fn custom_request(method: &str, params: Value) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)))
}
