//! Agents: a model, the tools that it calls, and the limits of both.
//!
//! [`Agent::run_task`] is the loop: it sends the conversation to the [`Model`], runs the requested tool calls through
//! the pipeline, and sends the results back, until the model makes no more calls or a limit of the
//! [`AgentBudget`](mimir_core::config::AgentBudget) is reached. [`ModelProvider`] is a model behind a provider's API:
//! it sends requests through `mimir-net` and streams the replies. [`protocol`] has the supported protocols.
//!
//! The `genai` crate is not used, because it only accepts a `reqwest::Client`, and `reqwest` takes no custom connector:
//! every request would bypass the network guard, or go through a proxy that sees neither method nor path. So the three
//! protocols are implemented here, on top of `mimir-net`.
//!
//! Out of scope: deciding which tools may run (the pipeline does), terminals, files, config files, secret storage.

mod agent;
mod call_batch;
mod compaction;
mod conversation;
mod error;
mod event;
mod image;
mod message;
mod model;
pub mod protocol;
mod provider;
mod retry;
mod session_budget;
mod task_usage;
mod trim;
mod vision;
mod worker_call;
mod worker_file;

pub use agent::{Agent, TaskEnd};
pub use conversation::{Conversation, ConversationSummary};
pub use error::ModelError;
pub use event::{AgentEvent, AgentEventSink};
pub use image::{ImageError, MAX_IMAGE_BYTES, MessageImage};
pub use message::{Message, ToolCall, ToolSpec};
pub use model::{Model, ModelReply, ModelRequest, StopReason, TokenUsage};
pub use provider::ModelProvider;
pub use session_budget::{BudgetReservation, SessionBudget};
pub use task_usage::{BudgetLimit, TaskUsage};
pub use worker_call::{AgentSetup, WorkerRegistry, worker_call};
pub use worker_file::{
    CustomToolset, EmptyToolset, ExternalToolset, FilesystemToolset, McpToolset, ShellRule,
    ShellToolset, WORKER_CALL, Worker, WorkerBudget, WorkerOwnTools, WorkerOwnToolset,
    WorkerSettings, WorkerToolsets,
};
