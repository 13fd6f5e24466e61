//! Tasks of a server: calls that go on after their response. mimir asks for the state of a task until it ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::call::CallProgress;
use mimir_core::{ToolError, ToolErrorCode};
use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, DetailedTask, ErrorData,
    GetTaskParams, GetTaskRequest, JsonObject, RequestMetaObject, ServerResult, Task, TaskPayload,
    UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{MAX_ROUNDS, MAX_SERVER_TEXT_CHARS, ServerConnection};
use crate::client::input_broker::InputRequestBroker;

/// Interval between two requests for the state of a task, if the server suggests none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Bounds of the interval that a server may suggest.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Time limit of the request that cancels a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

impl ServerConnection {
    /// Waits until a task ends, and returns the result of the call. `time_limit` counts without the time in which a
    /// person answers the task's questions. Dropping the future cancels the task.
    pub(super) async fn await_task(
        &self,
        mut task: Task,
        broker: &Arc<InputRequestBroker>,
        time_limit: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let id = task.task_id.clone();
        let mut cancel_guard = TaskCancelGuard {
            connection: self,
            id: Some(id.clone()),
            meta: self.request_meta(broker),
        };
        let mut remaining = time_limit;
        let mut message = None;
        let mut answered = HashSet::new();
        let mut rounds = 0;
        loop {
            self.report_message(&task, &mut message, broker);
            let started = Instant::now();
            let interval = poll_interval(&task);
            sleep(remaining.map_or(interval, |remaining| interval.min(remaining))).await;
            let request =
                ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(&*id)));
            let result = self.send_round(request, broker, remaining).await?;
            if let Some(limit) = time_limit {
                let left = remaining.unwrap_or_default().checked_sub(started.elapsed());
                remaining = Some(left.ok_or_else(|| self.task_timeout(limit))?);
            }
            let ServerResult::GetTaskResult(state) = result else {
                return Err(self.task_error("returned no valid state of its task"));
            };
            let DetailedTask {
                task: current,
                payload,
                ..
            } = state.task;
            task = current;
            match payload {
                TaskPayload::Working => {}
                TaskPayload::InputRequired { input_requests } => {
                    let open = input_requests
                        .into_iter()
                        .filter(|(name, _)| answered.insert(name.clone()));
                    let open: rmcp::model::InputRequests = open.collect();
                    if open.is_empty() {
                        continue;
                    }
                    rounds += 1;
                    if rounds > MAX_ROUNDS {
                        let what = "keeps sending requests instead of a result";
                        return Err(ToolError::limit_exceeded(self.task_error(what).message));
                    }
                    let responses = broker.answer_requests(open).await?;
                    let params = UpdateTaskParams::new(&*id, responses);
                    let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params));
                    self.send_round(request, broker, remaining).await?;
                }
                TaskPayload::Completed { result } => {
                    cancel_guard.id = None;
                    return self.task_result(result);
                }
                TaskPayload::Failed { error } => {
                    cancel_guard.id = None;
                    return Err(
                        match serde_json::from_value::<ErrorData>(Value::Object(error)) {
                            Ok(error) => self.service_error(ServiceError::McpError(error)),
                            Err(_) => {
                                self.task_error("reports a failed task without a valid error")
                            }
                        },
                    );
                }
                TaskPayload::Cancelled => {
                    cancel_guard.id = None;
                    return Err(self.task_error("cancelled its task"));
                }
                _ => return Err(self.task_error("returned an unknown state of its task")),
            }
        }
    }

    /// Reports the status message of a task as progress, if it is a new one.
    fn report_message(&self, task: &Task, last: &mut Option<String>, broker: &InputRequestBroker) {
        if task.status_message.is_none() || task.status_message == *last {
            return;
        }
        last.clone_from(&task.status_message);
        let text = task.status_message.as_deref().unwrap_or_default();
        broker.observer().progress(CallProgress {
            done: 0,
            total: None,
            message: Some(self.close_reason.mask_text(text, MAX_SERVER_TEXT_CHARS)),
        });
    }

    fn task_result(&self, result: JsonObject) -> Result<ServerResult, ToolError> {
        let result = serde_json::from_value::<CallToolResult>(Value::Object(result));
        let result =
            result.map_err(|_| self.task_error("completed its task without a valid result"))?;
        Ok(ServerResult::CallToolResult(result))
    }

    fn task_error(&self, what: &str) -> ToolError {
        ToolError::execution(format!("the server `{}` {what}", self.close_reason.server))
    }

    fn task_timeout(&self, limit: Duration) -> ToolError {
        let what = format!("did not end its task within {} ms", limit.as_millis());
        ToolError::new(ToolErrorCode::Timeout, self.task_error(&what).message)
    }
}

/// Returns the interval that the server suggests, within bounds.
fn poll_interval(task: &Task) -> Duration {
    let interval = task.poll_interval_ms.map(Duration::from_millis);
    interval
        .unwrap_or(POLL_INTERVAL)
        .clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// Cancels a task at the server when dropped, unless the task has ended.
pub(super) struct TaskCancelGuard<'a> {
    pub(super) connection: &'a ServerConnection,
    pub(super) id: Option<String>,
    pub(super) meta: Option<RequestMetaObject>,
}

impl Drop for TaskCancelGuard<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let request =
            ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
        let mut options = PeerRequestOptions::with_timeout(CANCEL_TIMEOUT);
        options.meta = self.meta.take();
        let peer = self.connection.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // An error means that the connection or the task has ended.
                if let Ok(pending) = peer.send_request_with_option(request, options).await {
                    let _ = pending.await_response().await;
                }
            });
        }
    }
}
