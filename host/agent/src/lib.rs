//! Agents: a model, the tools that it calls, and the limits of both.
//!
//! [`Agent::run_task`] is the loop: the model is asked ([`Model`]), its calls go through the pipeline like any others,
//! their results go back to the model, until it makes no more calls or a limit is reached
//! ([`Budget`](mimir_core::config::AgentBudget)). [`ModelProvider`] is the model behind a provider's API: it sends requests
//! through `mimir-net` and streams the answers, in the protocols of [`protocol`].
//!
//! The design names the `genai` crate for this. It only accepts a `reqwest::Client`, and `reqwest` takes no custom
//! connector: every request would bypass the network guard, or go through a proxy that sees neither method nor path.
//! So the three protocols are implemented here, on top of `mimir-net`.
//!
//! Out of scope: which tools may run (the pipeline decides), terminals, files, config files, secret storage.

mod agent;
mod call_batch;
mod conversation;
mod error;
mod event;
mod message;
mod model;
pub mod protocol;
mod provider;
mod retry;
mod session_budget;
mod task_usage;
mod trim;
mod worker_call;
mod worker_file;

pub use agent::{Agent, TaskEnd};
pub use conversation::Conversation;
pub use error::ModelError;
pub use event::{AgentEvent, AgentEventSink};
pub use message::{Message, ToolCall, ToolSpec};
pub use model::{Model, ModelReply, ModelRequest, StopReason, TokenUsage};
pub use provider::ModelProvider;
pub use session_budget::{BudgetReservation, SessionBudget};
pub use task_usage::{BudgetLimit, TaskUsage};
pub use worker_call::{AgentSetup, WorkerRegistry, worker_call};
pub use worker_file::{
    CustomToolset, EmptyToolset, FilesystemToolset, McpToolset, ShellRule, ShellToolset, Worker,
    WorkerBudget, WorkerSettings, WorkerToolsets,
};
