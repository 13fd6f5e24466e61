//! The tool `worker_call`, which runs a task of a worker.
//!
//! The worker's tool calls are nested calls on the caller's pipeline, restricted by the worker's file. So a worker
//! never has more permissions than its caller, at any depth. The limits of a task are reserved from the caller's
//! budget; workers that the worker calls reserve theirs from the limits of that task.
//!
//! Out of scope: reading worker files, and selecting each worker's tools.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult, ToolAssessment};
use mimir_core::call::{CallObserver, LogLevel, LogLine};
use mimir_core::config::{AgentBudget, TokenPrice};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::pipeline::{Checked, PipelineSnapshot};
use mimir_core::text::{prefix, visible};
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolTrust};
use mimir_core::{
    Approved, Decision, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError, ToolGroup,
    ToolHints, ToolName, ToolSource,
};
use serde_json::json;

use crate::agent::{Agent, TaskEnd};
use crate::conversation::Conversation;
use crate::event::{AgentEvent, AgentEventSink};
use crate::message::{Message, ToolCall};
use crate::model::Model;
use crate::session_budget::{BudgetReservation, SessionBudget};
use crate::worker_file::{WORKER_CALL, Worker};

/// Maximum nesting depth of workers. In deeper nesting, people could not tell the purpose of a call.
const MAX_DEPTH: usize = 3;

/// The name of similar tools in other agent programs.
const ALIAS: &str = "delegate";

/// Finds workers and configures their agents.
pub trait WorkerRegistry: Send + Sync {
    /// Finds a worker by name and reads its current file.
    fn find(&self, name: &str) -> Result<Worker, ToolError>;

    /// Adds the tools that only the worker has. By default, it has none.
    fn with_own_tools(&self, worker: Worker) -> BoxFuture<'_, Result<Worker, ToolError>> {
        Box::pin(std::future::ready(Ok(worker)))
    }

    /// Returns the model, the system prompt and the limits for a worker's agent.
    fn agent_setup(&self, worker: &Worker) -> Result<AgentSetup, ToolError>;
}

/// Configuration of a worker's agent. The pipeline is the caller's.
pub struct AgentSetup {
    /// The model that the agent uses.
    pub model: Arc<dyn Model>,
    /// The price of the model, if known.
    pub price: Option<TokenPrice>,
    /// The system prompt.
    pub system: String,
    /// The default limits of a task.
    pub budget: AgentBudget,
}

/// Creates the tool `worker_call`. `workers` has the name and the purpose of each worker, for the tool's description;
/// `digest` identifies the build of the tool.
pub fn worker_call(
    registry: Arc<dyn WorkerRegistry>,
    session_budget: SessionBudget,
    workers: &[(String, String)],
    digest: String,
) -> Result<Tool, InvalidToolName> {
    let mut description = "Lets another agent, a worker, do a task, and returns its final answer. The worker does not know \
        this conversation, so include all the information it needs. It may have fewer permissions than you. Workers:"
        .to_owned();
    for (name, purpose) in workers {
        description.push_str(&format!("\n- {name}: {purpose}"));
    }
    let names: Vec<&str> = workers.iter().map(|(name, _)| name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "worker": {"type": "string", "enum": names, "description": "The name of the worker."},
            "task": {"type": "string", "minLength": 1, "description": "The task, with all the information that it needs."},
        },
        "required": ["worker", "task"],
        "additionalProperties": false,
    });
    let needs = Needs {
        // The task text is sent to the model's provider.
        model: true,
        ..Needs::default()
    };
    let definition = ToolDefinition {
        name: ToolName::new(WORKER_CALL)?,
        title: Some("Call a worker".to_owned()),
        description,
        group: ToolGroup::System,
        input_schema: Schema::unchecked(schema.to_string()),
        output_schema: None,
        silent: false,
        approval: Decision::Ask,
        risk: RiskLevel::Medium,
        hints: ToolHints {
            open_world: true,
            ..ToolHints::default()
        },
        needs,
    };
    let origin = ToolOrigin::compiled_in(WORKER_CALL, digest);
    let backend = WorkerCall {
        registry,
        session_budget,
    };
    let tool = Tool::new(
        definition,
        ToolSource::BuiltIn,
        Arc::new(origin),
        ToolTrust::Trusted,
        Arc::new(backend),
    );
    Ok(tool
        .with_aliases(vec![ToolName::new(ALIAS)?])
        .with_assessor(true))
}

struct WorkerCall {
    registry: Arc<dyn WorkerRegistry>,
    session_budget: SessionBudget,
}

/// Maximum number of characters of a worker's instructions on an approval card.
const MAX_SHOWN_INSTRUCTIONS: usize = 200;

impl Backend for WorkerCall {
    /// Returns the details for the approval card: the worker's file, toolsets and beginning of the instructions.
    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<ToolAssessment>, ToolError>> {
        Box::pin(async move {
            let name = call.arguments()["worker"].as_str().unwrap_or_default();
            let worker = self.registry.find(name)?;
            let instructions = worker.settings().instructions.trim();
            let (begin, more) = match prefix(instructions, MAX_SHOWN_INSTRUCTIONS) {
                begin if begin.len() < instructions.len() => (begin, " …"),
                all => (all, ""),
            };
            Ok(Some(ToolAssessment {
                approval: Decision::Ask,
                risk: RiskLevel::Medium,
                summary: format!("have the worker `{name}` ({}) do a task", worker.file()),
                risks: vec![
                    format!("toolsets: {}", worker.toolsets()),
                    format!("instructions: {}{more}", visible(begin)),
                ],
                scope: None,
                each_time: false,
            }))
        })
    }

    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let text = self.run_worker(&call).await;
            RawResult::from(text.map(|text| ToolOutput {
                content: vec![Content::text(text)],
                ..ToolOutput::default()
            }))
        })
    }
}

impl WorkerCall {
    /// Runs the task and returns the worker's final reply.
    async fn run_worker(&self, call: &Approved) -> Result<String, ToolError> {
        let text = |key: &str| {
            call.arguments()[key]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let (name, task) = (text("worker"), text("task"));
        let parent = call.parent();
        let depth = parent
            .callers
            .iter()
            .filter(|caller| caller.tool.as_str() == WORKER_CALL)
            .count();
        if depth > MAX_DEPTH {
            let message =
                format!("workers are nested more than {MAX_DEPTH} deep: do the task yourself");
            return Err(ToolError::limit_exceeded(message));
        }
        let worker = self.registry.find(&name)?;
        let worker = self.registry.with_own_tools(worker).await?;
        // The caller may be a worker without these tools, and servers may be unreachable, so this is not an error.
        for missing in worker.missing_names(&call.pipeline().snapshot()) {
            call.observer().log(LogLine {
                level: LogLevel::Warn,
                text: format!("{name}: runs without {missing}, which its caller does not have"),
            });
        }
        let setup = self.registry.agent_setup(&worker)?;
        let session = call.context().session_id.clone();
        let own_limits = worker.budget(setup.budget);
        let reservation = self
            .session_budget
            .reserve_half(&session, setup.budget, own_limits)
            .await?;
        let own_budget = SessionBudget::default();
        let nested = Arc::new(Self {
            registry: Arc::clone(&self.registry),
            session_budget: own_budget.clone(),
        });
        let agent = Agent {
            model: setup.model,
            pipeline: call.pipeline().restricted(move |snapshot| {
                replace_worker_call(worker.restrict(snapshot), &nested)
            }),
            system: setup.system,
            budget: reservation.budget,
            price: setup.price,
            tools: None,
            session_budget: Some(own_budget.clone()),
            parent: Some(parent),
        };
        let mut work = WorkerTask {
            conversation: Conversation::new(session, agent.model.name()),
            own_budget,
            reservation,
        };
        work.conversation.messages.push(Message::user(task));
        let event_sink = WorkerEventSink {
            name: &name,
            observer: call.observer(),
        };
        // The call's deadline is paused: the task and each of its calls have their own time limits.
        let ended = {
            let _paused = call.deadline().pause();
            agent.run_task(&mut work.conversation, &event_sink).await
        };
        let reply = work.conversation.last_reply().to_owned();
        task_result(&name, ended?, reply)
    }
}

/// Replaces the backend of the tool `worker_call`, which reserves the budgets of nested workers.
fn replace_worker_call(snapshot: PipelineSnapshot, backend: &Arc<WorkerCall>) -> PipelineSnapshot {
    let registry = snapshot.registry.map_tools(|tool| {
        if tool.source != ToolSource::BuiltIn || tool.name().as_str() != WORKER_CALL {
            return Some(Arc::clone(tool));
        }
        let mut tool = Tool::clone(tool);
        tool.backend = Arc::clone(backend) as Arc<dyn Backend>;
        Some(Arc::new(tool))
    });
    PipelineSnapshot {
        registry,
        ..snapshot
    }
}

/// Converts the end of a worker's task and the worker's last reply to the result of the call.
fn task_result(name: &str, ended: TaskEnd, reply: String) -> Result<String, ToolError> {
    match ended {
        TaskEnd::Finished => Ok(if reply.trim().is_empty() {
            "(no output)".to_owned()
        } else {
            reply
        }),
        TaskEnd::LimitReached(limit) => Err(incomplete_error(
            name,
            &format!("has reached {limit}"),
            &reply,
        )),
        TaskEnd::Length => Err(incomplete_error(name, "had its answer cut off", &reply)),
        TaskEnd::Withheld => {
            let message =
                format!("the provider withheld the rest of the answer of the worker `{name}`");
            Err(ToolError::unavailable(message))
        }
    }
}

/// The task of a worker. Dropping it records the usage in the reservation, which then returns the unused budget.
struct WorkerTask {
    conversation: Conversation,
    /// The budget from which the workers that this worker calls reserve theirs.
    own_budget: SessionBudget,
    reservation: BudgetReservation,
}

impl Drop for WorkerTask {
    fn drop(&mut self) {
        // Usage of nested workers that were stopped together with this one.
        let side_usage = self.own_budget.take_side_usage(&self.conversation.id);
        self.conversation.spent.add(&side_usage);
        self.reservation.spent = self.conversation.spent;
    }
}

/// Maximum number of characters of a worker's last message in the error about an unfinished task.
const MAX_SHOWN_MESSAGE: usize = 2_000;

/// Returns the error about an unfinished task. `how` is the predicate of the message, such as "has reached its limit".
fn incomplete_error(name: &str, how: &str, reply: &str) -> ToolError {
    let reply = prefix(reply.trim(), MAX_SHOWN_MESSAGE);
    let message = if reply.is_empty() {
        format!("the worker `{name}` {how} before it was done")
    } else {
        format!("the worker `{name}` {how} before it was done; its last message: {reply}")
    };
    ToolError::limit_exceeded(message)
}

/// Reports the worker's tool calls to the observer of the call.
struct WorkerEventSink<'a> {
    name: &'a str,
    observer: &'a Arc<dyn CallObserver>,
}

impl AgentEventSink for WorkerEventSink<'_> {
    fn handle_event(&self, event: AgentEvent<'_>) {
        if let AgentEvent::Call { name, .. } = event {
            let text = format!("{}: {}", self.name, visible(prefix(name, 64)));
            self.observer.log(LogLine {
                level: LogLevel::Info,
                text,
            });
        }
    }

    fn observer(&self, _: &ToolCall) -> Arc<dyn CallObserver> {
        Arc::clone(self.observer)
    }
}
