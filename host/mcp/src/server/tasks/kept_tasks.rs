//! Tasks that outlive the server that made them: their worker ends them, and any server behind the same address knows
//! their state.

use std::time::{Duration, SystemTime};

use mimir_core::background_calls::{BackgroundPhase, BackgroundStatus};
use mimir_core::text::{prefix, visible};
use mimir_core::{RequestId, ToolError, ToolErrorCode};
use rmcp::RoleServer;
use rmcp::model::{DetailedTask, ErrorData, Task, TaskPayload, TaskStatus};
use rmcp::service::RequestContext;
use rmcp::task_manager::current_timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::elicitation::{AnswerScope, PendingCallKey};
use crate::http::{SealPurpose, SealedCall};
use crate::result;

use super::super::tool_call::{approval_prompt, convert_outcome};
use super::super::{ClientSession, ToolServer};
use super::{MAX_MESSAGE_LENGTH, POLL_INTERVAL_MS, RESULT_LIFETIME, millis, object};

/// A task that another server has made, which has ended.
pub(super) struct LostTask {
    name: String,
    owner: String,
    call: SealedCall,
}

impl ToolServer {
    /// Makes a task outlive this server, if workers run the calls.
    pub(super) async fn keep_task(&self, name: &str, key: &PendingCallKey, request_id: &RequestId) {
        let Some(background) = self.0.replicas.get().and_then(|set| set.background()) else {
            return;
        };
        let (owner, id) = (owner_name(&key.owner, key.answer_scope), call_id(name));
        let kept = background.keep(&owner, request_id, &key.tool, &id).await;
        if let Err(error) = kept {
            // The task goes on, and ends with this server.
            let (tool, error) = (visible(&key.tool), error.message);
            tracing::debug!(tool, error, "a task ends with this server");
        }
    }

    /// Leaves a task to its worker, because this server ends.
    pub(super) fn release_task(&self, request_id: &RequestId) {
        if let Some(background) = self.0.replicas.get().and_then(|set| set.background()) {
            background.release(request_id);
        }
    }

    /// Returns the state of a task of another server.
    pub(super) async fn lost_task_state(&self, lost: &LostTask) -> Result<DetailedTask, ErrorData> {
        let Some(background) = self.0.replicas.get().and_then(|set| set.background()) else {
            return Ok(lost.ended());
        };
        let (owner, id) = (&lost.owner, call_id(&lost.name));
        let status = background.status(owner, &id).await;
        let Some(status) = status.map_err(not_readable)? else {
            return Ok(lost.ended());
        };
        let payload = match status.phase {
            BackgroundPhase::Running => TaskPayload::Working,
            BackgroundPhase::Cancelled => TaskPayload::Cancelled,
            BackgroundPhase::Done => {
                let outcome = background.outcome(owner, &id).await;
                let Some(outcome) = outcome.map_err(not_readable)? else {
                    return Ok(lost.ended());
                };
                match convert_outcome(self, &status.tool, &outcome, true) {
                    Ok(result) => TaskPayload::Completed {
                        result: object(serde_json::to_value(result)),
                    },
                    Err(error) => TaskPayload::Failed {
                        error: object(serde_json::to_value(error)),
                    },
                }
            }
        };
        Ok(lost.with_state(&status, payload))
    }

    /// Stops a task of another server. Fails with `unknown` if the task ended with its server.
    pub(super) async fn stop_lost_task(
        &self,
        lost: &LostTask,
        unknown: ErrorData,
    ) -> Result<(), ErrorData> {
        let Some(background) = self.0.replicas.get().and_then(|set| set.background()) else {
            return Err(unknown);
        };
        let id = call_id(&lost.name);
        let cancelled = background.cancel(&lost.owner, &id).await;
        if cancelled.map_err(not_readable)? {
            return Ok(());
        }
        let status = background.status(&lost.owner, &id).await;
        status.map_err(not_readable)?.map(drop).ok_or(unknown)
    }
}

impl ClientSession {
    /// Returns a task of this client that another server has made, which has ended.
    pub(super) fn find_lost_task(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<LostTask> {
        let owner = self.pipeline_session(context);
        let call = self.server.lost_call(SealPurpose::Task, name, &owner)?;
        Some(LostTask {
            name: name.to_owned(),
            owner: owner_name(&owner, Self::answer_scope(context)),
            call,
        })
    }
}

impl LostTask {
    /// Returns the state of a task that has ended with its server.
    fn ended(&self) -> DetailedTask {
        let created = timestamp(self.call.created_ms);
        let mut task = Task::new(
            self.name.clone(),
            TaskStatus::Failed,
            created,
            current_timestamp(),
        );
        task.ttl_ms = Some(millis(RESULT_LIFETIME));
        let error = approval_prompt::lost_call_error(&self.call);
        let result = object(serde_json::to_value(result::error_result(&error)));
        DetailedTask::new(task, TaskPayload::Completed { result })
    }

    /// Returns the state of a task that its worker has not ended, or has ended.
    fn with_state(&self, status: &BackgroundStatus, payload: TaskPayload) -> DetailedTask {
        let (created, updated) = (timestamp(status.created_ms), timestamp(status.updated_ms));
        let mut task = Task::new(self.name.clone(), TaskStatus::Working, created, updated)
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        let is_open = matches!(payload, TaskPayload::Working);
        let last_ms = match is_open {
            true => now_ms(),
            false => status.updated_ms,
        };
        let age_ms = last_ms.saturating_sub(status.created_ms);
        task.ttl_ms = Some(age_ms.saturating_add(status.lifetime_ms));
        let message = status.message.as_deref();
        task.status_message =
            message.map(|message| prefix(&visible(message), MAX_MESSAGE_LENGTH).to_owned());
        DetailedTask::new(task, payload)
    }
}

/// Returns the error of an answer to a question of a task whose server has ended.
pub(super) fn no_questions() -> ErrorData {
    let message = "the server that asked has ended, so that the question has no answer; `tasks/get` has the state of the task";
    let data = json!({"code": ToolErrorCode::Unavailable});
    ErrorData::invalid_params(message, Some(data))
}

fn not_readable(error: ToolError) -> ErrorData {
    let data = json!({"code": error.code, "details": error.details});
    ErrorData::internal_error(error.message, Some(data))
}

/// Returns the id of the background call of a task. The name of the task cannot be derived from it.
fn call_id(name: &str) -> String {
    format!("{:x}", Sha256::digest(format!("task\n{name}")))
}

/// Returns the owner of the background call of a task: the owner and the scope of the user's answers, as checked for
/// tasks of this server.
fn owner_name(owner: &str, scope: AnswerScope) -> String {
    let scope = match scope {
        AnswerScope::Owner => "owner",
        AnswerScope::SingleUser => "user",
    };
    format!("{scope}\n{owner}")
}

/// Returns a time in milliseconds since 1970 as RFC 3339.
fn timestamp(ms: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    let time = mimir_core::audit::rfc3339(&time, serde_json::value::Serializer);
    let time = time.ok().and_then(|time| Some(time.as_str()?.to_owned()));
    time.unwrap_or_else(current_timestamp)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, millis)
}
