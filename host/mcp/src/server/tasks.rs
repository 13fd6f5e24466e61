//! Tasks: calls that go on after the response to their request, whose client asks for the result later. A call becomes
//! a task when it takes longer than [`TASK_DELAY`] and its client supports tasks.
//!
//! A task has a name that cannot be guessed, and is visible only to the client that made the call. If workers run the calls,
//! a task outlives the server that made it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::outcome::json_len;
use mimir_core::text::{prefix, visible};
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, InputRequests, InputResponses, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::current_timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::client_observer::{CallUpdate, ClientQuestion};
use crate::elicitation::PendingCallKey;
use crate::http::SealPurpose;

use super::tool_call::{RunningCall, approval_prompt, convert_outcome};
use super::{ClientSession, ToolServer};

mod kept_tasks;

/// Time after which a call becomes a task.
pub(super) const TASK_DELAY: Duration = Duration::from_millis(500);

/// Maximum number of tasks, including ended ones.
const MAX_TASKS: usize = 256;

/// Maximum size of the stored results of all tasks, in bytes. The newest result is stored in any case.
const MAX_RESULTS_SIZE: usize = 64 << 20;

/// Time for which an ended task is kept. Clients are told a time to live that ends no sooner.
const RESULT_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Interval at which clients are told to ask for the state.
const POLL_INTERVAL_MS: u64 = 500;

/// Maximum length of a status message, in bytes.
const MAX_MESSAGE_LENGTH: usize = 500;

/// The tasks of all clients.
#[derive(Default)]
pub(super) struct TaskTable(Mutex<HashMap<String, Arc<StoredTask>>>);

/// A task.
struct StoredTask {
    key: PendingCallKey,
    state: Mutex<TaskState>,
    /// Notified when a question was answered.
    answered: Notify,
}

struct TaskState {
    task: Task,
    phase: TaskPhase,
    created: Instant,
    ended: Option<Instant>,
    /// Size of the stored result, in bytes.
    result_size: usize,
    driver: Option<AbortHandle>,
}

enum TaskPhase {
    Working,
    /// The call waits for the answer to a question.
    Waiting {
        question: ClientQuestion,
        requests: InputRequests,
        responses: InputResponses,
    },
    Completed(JsonObject),
    Failed(JsonObject),
    Cancelled,
}

impl StoredTask {
    fn set_phase(&self, phase: TaskPhase) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        let is_end = !matches!(phase, TaskPhase::Working | TaskPhase::Waiting { .. });
        state.ended = is_end.then(Instant::now);
        state.result_size = match &phase {
            TaskPhase::Completed(result) | TaskPhase::Failed(result) => object_size(result),
            _ => 0,
        };
        state.phase = phase;
        state.task.last_updated_at = current_timestamp();
    }

    fn set_message(&self, message: &str) {
        let mut state = self.state.lock();
        state.task.status_message = Some(prefix(&visible(message), MAX_MESSAGE_LENGTH).to_owned());
        state.task.last_updated_at = current_timestamp();
    }

    /// Returns the state for a client.
    fn detailed(&self) -> DetailedTask {
        let state = self.state.lock();
        let payload = match &state.phase {
            TaskPhase::Working => TaskPayload::Working,
            TaskPhase::Waiting {
                requests,
                responses,
                ..
            } => TaskPayload::InputRequired {
                input_requests: requests
                    .iter()
                    .filter(|(name, _)| !responses.contains_key(*name))
                    .map(|(name, request)| (name.clone(), request.clone()))
                    .collect(),
            },
            TaskPhase::Completed(result) => TaskPayload::Completed {
                result: result.clone(),
            },
            TaskPhase::Failed(error) => TaskPayload::Failed {
                error: error.clone(),
            },
            TaskPhase::Cancelled => TaskPayload::Cancelled,
        };
        let mut task = state.task.clone();
        let last = state.ended.unwrap_or_else(Instant::now);
        task.ttl_ms = Some(millis(last.duration_since(state.created) + RESULT_LIFETIME));
        DetailedTask::new(task, payload)
    }

    /// Asks a question with the state of the task. Returns false if the question cannot be asked.
    fn ask(&self, question: ClientQuestion) -> bool {
        let requests = approval_prompt::to_requests(&question, self.key.answer_scope, None);
        let Some(requests) = requests else {
            approval_prompt::refuse(question);
            return false;
        };
        self.set_phase(TaskPhase::Waiting {
            question,
            requests,
            responses: InputResponses::new(),
        });
        true
    }

    /// Stops the call, unless it has ended.
    fn cancel(&self) {
        self.set_phase(TaskPhase::Cancelled);
        if let Some(driver) = self.state.lock().driver.take() {
            driver.abort();
        }
    }
}

/// A task whose client does not know its name yet. Dropping it stops and removes the task, since nobody could do so later.
struct UnnamedTask<'a> {
    tasks: &'a TaskTable,
    stored: Option<Arc<StoredTask>>,
}

impl UnnamedTask<'_> {
    /// Leaves the task to its client.
    fn keep(mut self) {
        self.stored = None;
    }
}

impl Drop for UnnamedTask<'_> {
    fn drop(&mut self) {
        if let Some(stored) = self.stored.take() {
            let name = stored.state.lock().task.task_id.clone();
            self.tasks.0.lock().remove(&name);
            stored.cancel();
        }
    }
}

impl TaskTable {
    /// Stops the tasks of an owner that has disconnected.
    pub(super) fn stop_tasks_of(&self, owner: &str) {
        let mut tasks = self.0.lock();
        let (stopped, others) = std::mem::take(&mut *tasks)
            .into_iter()
            .partition(|(_, task)| task.key.owner == owner);
        *tasks = others;
        drop(tasks);
        let stopped: HashMap<String, Arc<StoredTask>> = stopped;
        stopped.values().for_each(|task| task.cancel());
    }

    /// Removes the ended tasks whose results are beyond `limit` bytes, the oldest first. The newest one stays.
    fn bound_results(&self, limit: usize) {
        let mut tasks = self.0.lock();
        let ended = tasks.iter().filter_map(|(name, task)| {
            let state = task.state.lock();
            Some((state.ended?, state.result_size, name.clone()))
        });
        let mut ended: Vec<(Instant, usize, String)> = ended.collect();
        ended.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        let mut total: usize = 0;
        for (at, (_, size, name)) in ended.into_iter().enumerate() {
            total = total.saturating_add(size);
            if at > 0 && total > limit {
                tasks.remove(&name);
            }
        }
    }

    /// Returns the time until which clients are expected to ask for the results of the tasks.
    pub(super) fn expects_requests_until(&self) -> Option<Instant> {
        let now = Instant::now();
        let tasks = self.0.lock();
        let ended = tasks.values().map(|task| task.state.lock().ended);
        let last = ended.map(|ended| ended.unwrap_or(now)).max()?;
        Some(last + 2 * Duration::from_millis(POLL_INTERVAL_MS))
    }

    /// Stores a task under a new name. Returns `None` if too many tasks exist, or if there is no name.
    fn insert(&self, name: Option<String>, key: PendingCallKey) -> Option<Arc<StoredTask>> {
        let mut tasks = self.0.lock();
        tasks.retain(|_, task| {
            let ended = task.state.lock().ended;
            ended.is_none_or(|ended| ended.elapsed() < RESULT_LIFETIME)
        });
        if tasks.len() >= MAX_TASKS {
            return None;
        }
        let name = name?;
        let now = current_timestamp();
        let mut task = Task::new(name.clone(), TaskStatus::Working, now.clone(), now)
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        task.ttl_ms = Some(millis(RESULT_LIFETIME));
        let stored = Arc::new(StoredTask {
            key,
            state: Mutex::new(TaskState {
                task,
                phase: TaskPhase::Working,
                created: Instant::now(),
                ended: None,
                result_size: 0,
                driver: None,
            }),
            answered: Notify::new(),
        });
        tasks.insert(name, Arc::clone(&stored));
        Some(stored)
    }
}

impl ClientSession {
    /// Turns a running call into a task. Returns the call if too many tasks exist. Dropping the future stops the call.
    pub(super) async fn make_task(
        &self,
        call: RunningCall,
    ) -> Result<CreateTaskResult, Box<RunningCall>> {
        // The task runs already.
        let name = self
            .server
            .new_call_name(SealPurpose::Task, &call.key.owner, true);
        let Some(stored) = self.server.0.tasks.insert(name, call.key.clone()) else {
            return Err(Box::new(call));
        };
        let created = CreateTaskResult::new(stored.state.lock().task.clone());
        let request_id = call.task.request_id().clone();
        let driver = tokio::spawn(drive(self.server.clone(), Arc::clone(&stored), call));
        stored.state.lock().driver = Some(driver.abort_handle());
        let unnamed = UnnamedTask {
            tasks: &self.server.0.tasks,
            stored: Some(Arc::clone(&stored)),
        };
        // Before the client learns the name, so that it is valid at all servers.
        let name = &created.task.task_id;
        self.server.keep_task(name, &stored.key, &request_id).await;
        unnamed.keep();
        Ok(created)
    }

    /// Returns the state of a task.
    pub(super) async fn task_state(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<DetailedTask, ErrorData> {
        match self.find_task(name, context) {
            Ok(task) => Ok(task.detailed()),
            Err(unknown) => match self.find_lost_task(name, context) {
                Some(lost) => self.server.lost_task_state(&lost).await,
                None => Err(unknown),
            },
        }
    }

    /// Stops a task. A task that has ended stays as it is.
    pub(super) async fn stop_task(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.find_task(name, context) {
            Ok(task) => {
                task.cancel();
                Ok(())
            }
            Err(unknown) => match self.find_lost_task(name, context) {
                Some(lost) => self.server.stop_lost_task(&lost, unknown).await,
                None => Err(unknown),
            },
        }
    }

    /// Delivers answers to the questions of a task. Answers to other questions are ignored.
    pub(super) fn answer_task(
        &self,
        name: &str,
        answers: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let stored = match self.find_task(name, context) {
            Ok(stored) => stored,
            Err(unknown) if self.find_lost_task(name, context).is_none() => return Err(unknown),
            Err(_) => return Err(kept_tasks::no_questions()),
        };
        let mut state = stored.state.lock();
        let (question, requests, mut responses) =
            match std::mem::replace(&mut state.phase, TaskPhase::Working) {
                TaskPhase::Waiting {
                    question,
                    requests,
                    responses,
                } => (question, requests, responses),
                other => {
                    state.phase = other;
                    return Ok(());
                }
            };
        let answers = answers.into_iter();
        responses.extend(answers.filter(|(name, _)| requests.contains_key(name)));
        let is_complete = requests.keys().all(|name| responses.contains_key(name));
        if !is_complete {
            state.phase = TaskPhase::Waiting {
                question,
                requests,
                responses,
            };
            return Ok(());
        }
        let (scope, metrics) = (stored.key.answer_scope, &self.server.0.metrics);
        state.task.last_updated_at = current_timestamp();
        match approval_prompt::answer(question, scope, &mut responses, metrics) {
            Ok(()) => stored.answered.notify_one(),
            // The answers are not valid: the question is asked again.
            Err((question, note)) => {
                state.phase = TaskPhase::Waiting {
                    requests: approval_prompt::to_requests(&question, scope, note)
                        .unwrap_or(requests),
                    question,
                    responses: InputResponses::new(),
                };
            }
        }
        Ok(())
    }

    fn find_task(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<StoredTask>, ErrorData> {
        let tasks = self.server.0.tasks.0.lock();
        let task = tasks.get(name).filter(|task| {
            task.key.owner == self.pipeline_session(context)
                && task.key.answer_scope == Self::answer_scope(context)
        });
        task.cloned().ok_or_else(|| {
            let message = "unknown task: it has expired, or belongs to another client";
            ErrorData::invalid_params(message, None)
        })
    }
}

/// Waits for the call of a task, and stores its questions and its result in the task.
async fn drive(server: ToolServer, stored: Arc<StoredTask>, call: RunningCall) {
    let RunningCall {
        key,
        task,
        mut receivers,
    } = call;
    // Detached, so that a panic of the call ends the task.
    let mut task = task.detach();
    let (mut reads_questions, mut reads_updates, mut is_waiting) = (true, true, false);
    let outcome = loop {
        tokio::select! {
            biased;
            () = server.0.close_signal.closed() => {
                // If a worker keeps the call, it goes on.
                server.release_task(task.request_id());
                return stored.set_phase(TaskPhase::Cancelled);
            }
            outcome = task.outcome() => break outcome,
            () = stored.answered.notified(), if is_waiting => is_waiting = false,
            question = receivers.questions.recv(), if reads_questions && !is_waiting => {
                match question {
                    Some(question) => is_waiting = stored.ask(question),
                    None => reads_questions = false,
                }
            }
            update = receivers.updates.recv(), if reads_updates => match update {
                Some(CallUpdate::Progress(progress)) => {
                    if let Some(message) = &progress.message {
                        stored.set_message(message);
                    }
                }
                Some(CallUpdate::Line(_)) => {}
                None => reads_updates = false,
            },
        }
    };
    let result = match outcome {
        Some(outcome) => {
            server.record_outcome(&key.tool, &outcome);
            convert_outcome(&server, &key.tool, &outcome, true)
        }
        None => Err(ErrorData::internal_error(
            "the call failed unexpectedly",
            None,
        )),
    };
    stored.set_phase(match result {
        Ok(result) => TaskPhase::Completed(object(serde_json::to_value(result))),
        Err(error) => TaskPhase::Failed(object(serde_json::to_value(error))),
    });
    server.0.tasks.bound_results(MAX_RESULTS_SIZE);
}

/// Returns the size of an object as JSON, in bytes.
fn object_size(object: &JsonObject) -> usize {
    let members = object.iter();
    members
        .map(|(name, value)| name.len() + json_len(value))
        .sum()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn object(value: serde_json::Result<Value>) -> JsonObject {
    match value {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elicitation::{self, AnswerScope};

    #[test]
    fn task_results_beyond_the_limit_are_removed_oldest_first() {
        let table = TaskTable::default();
        let insert = |text: Option<usize>| {
            let key = PendingCallKey {
                owner: "o".to_owned(),
                answer_scope: AnswerScope::Owner,
                tool: "t".to_owned(),
                arguments: Value::Null,
            };
            let task = table.insert(elicitation::random_token(), key).unwrap();
            if let Some(length) = text {
                let result = object(Ok(serde_json::json!({ "text": "x".repeat(length) })));
                task.set_phase(TaskPhase::Completed(result));
            }
            task.state.lock().task.task_id.clone()
        };
        let running = insert(None);
        let names: Vec<String> = (0..4).map(|_| insert(Some(1_000))).collect();
        table.bound_results(2_500);
        let stored = |name: &String| table.0.lock().contains_key(name);
        let kept: Vec<bool> = names.iter().map(stored).collect();
        assert_eq!(kept, [false, false, true, true]);
        let large = insert(Some(10_000));
        table.bound_results(2_500);
        assert!(stored(&large) && stored(&running));
        assert!(names.iter().all(|name| !stored(name)));
    }
}
