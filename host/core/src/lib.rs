//! The domain types of mimir, and the pipeline that every tool call passes through.
//!
//! [`Pipeline::call`] takes a [`Call`] and returns an [`Outcome`]. Each stage of the [`pipeline`] in between returns a
//! type of its own, which only the next stage takes.
//! External dependencies of the stages, such as the backend that runs a tool, the approver, the audit log and the
//! clock, are ports: traits that other crates implement.
//!
//! Out of scope: wasmtime, sockets, terminals, access to the system clock.
//!
//! # Glossary
//!
//! - **Call** (`Call`): one request to run a tool, with its arguments and its context.
//! - **Nested call**: a call that a tool makes during its own call (`ParentCall`), limited by the rights of both.
//! - **Session** (`PipelineSession`): the calls of one client, which share taint, approvals and background commands.
//! - **Tool** (`Tool`): a named function for models, with a `ToolDefinition`, an origin and a backend.
//! - **Plugin** (`ToolOrigin`): the file or server that provides one or more tools.
//! - **Registry** (`Registry`): an immutable set of tools, by name and alias.
//! - **Quarantined** (`Quarantined`): a file or a tool left out of the registry, with the reason.
//! - **Backend** (`Backend`): the port that runs approved calls: WebAssembly, script, MCP client, process, container.
//! - **Pipeline** (`Pipeline`): checks calls and passes them to their backends. No call reaches a backend without it.
//! - **Stage**: one step of the pipeline (validate, decide, approve, run, sanitize, label, audit). Each stage takes the
//!   result type of the previous stage.
//! - **Snapshot** (`PipelineSnapshot`): the registry and the policy at one moment; an active call keeps its own.
//! - **Policy** (`Policy`): the rules of the settings files of the team, the user and the project together.
//! - **Rule** (`ArgumentRule` and others): a part of a policy that applies to certain calls.
//! - **Decision** (`Decision`): `allow`, `ask` or `deny`; the strictest one wins.
//! - **Evaluation** (`PolicyEvaluation`): a decision with the reason of every rule that applied.
//! - **Remedy**: a command or a settings line that would allow a refused call; shown to people, never to models.
//! - **Approval** (`ApprovalAnswer`): a person's answer to an `ask`, for one call, a session, or permanently.
//! - **Card** (`Card`): the information shown with an approval question.
//! - **Approver** (`Approver`): the port that shows cards and returns answers.
//! - **Approval store** (`ApprovalStore`): the port that stores permanent answers (`StoredApproval`) until they expire.
//! - **Needs** (`Needs`): the permissions that a tool requests: files, hosts, commands, secrets, variables, tools,
//!   a model.
//! - **Grant** (`Grant`): a person's permanent consent to the needs of one build of a plugin, in `.mimir/tools.lock`.
//! - **Effect** (`EffectGate`): an action of a running tool with a check of its own: a request, a command, a nested
//!   call, a completion, a secret, a stored value.
//! - **Secret**: a value that a tool uses by placeholder and never sees.
//! - **Mask**: the text that replaces a secret in everything that leaves the pipeline.
//! - **Label** (`ContentLabel`): the trust level, the data class and the origin of a result.
//! - **Taint** (`TaintFloor`): the worst label that a session or a call has read. In tainted sessions, network access
//!   and similar effects need approval.
//! - **Limits** (`Limits`): wall clock, fuel, memory, output and other limits of one call.
//! - **Deadline** (`Deadline`): the end of a call's wall clock, paused while an approval is pending.
//! - **Outcome** (`Outcome`): the result or the error of a call, with its label and receipt.
//! - **Receipt** (`Receipt`): the cost of a call: time, fuel, memory, bytes and tokens.
//! - **Audit event** (`AuditEvent`): the record of one call or effect, written through an `AuditSink`.

pub mod approval;
pub mod audit;
pub mod backend;
pub mod background_calls;
pub mod call;
pub mod call_monitor;
pub mod call_switch;
pub mod client_name;
pub mod clock;
pub mod code_language;
pub mod command;
pub mod config;
pub mod decision;
pub mod effective_rights;
pub mod error;
pub mod files;
pub mod grants;
pub mod language_model;
pub mod launch;
pub mod limits;
pub mod memory_state;
pub mod merged_lines;
pub mod name_suggestions;
pub mod needs;
pub mod network;
pub mod outcome;
pub mod output_lines;
pub mod paths;
pub mod peer_messages;
pub mod pipeline;
pub mod policy;
pub mod registry;
pub mod remote_pipeline;
pub mod schema;
pub mod shared_counter;
pub mod shared_state;
pub mod skill_grant;
pub mod storage;
pub mod text;
pub mod token_estimate;
pub mod tool;
pub mod trace_context;
pub mod untrusted_mark;
pub mod upstream_request;
pub mod wire;

pub use approval::{ApprovalAnswer, Approver, Card};
pub use audit::{AuditEvent, AuditSink};
pub use backend::{Backend, BoxFuture, RawResult, ToolAssessment};
pub use call::{Call, CallContext, RequestId};
pub use clock::{Clock, Deadline, Stopwatch};
pub use decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
pub use error::{ToolError, ToolErrorCode};
pub use limits::Limits;
pub use mimir_platform as platform;
pub use mimir_redact as redact;
pub use mimir_redact::Redactor;
pub use needs::{DirectoryAccess, Needs};
pub use outcome::{Content, ContentLabel, Outcome, Receipt};
pub use pipeline::{Approved, Pipeline, PipelineConnections};
pub use policy::Policy;
pub use registry::{Quarantined, Registry, ReservedNames};
pub use schema::Schema;
pub use tool::{
    ListedEntry, RiskLevel, Tool, ToolDefinition, ToolGroup, ToolHints, ToolName, ToolOrigin,
    ToolSource,
};
