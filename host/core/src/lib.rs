//! The domain types of mimir, and the pipeline that every call passes through.
//!
//! A [`Call`] enters [`Pipeline::call`] and leaves as an [`Outcome`]; between the two are the stages of [`pipeline`],
//! each a type. Everything that a stage needs from outside (a backend that runs the tool, a person who approves, an
//! audit log, the time) is a port: a trait here, implemented elsewhere.
//!
//! Out of scope: wasmtime, sockets, terminals, an ambient clock.
//!
//! # Glossary
//!
//! - **Call** (`Call`): one request to run a tool, with its arguments and its context.
//! - **Nested call**: a call that a tool makes during its own (`ParentCall`), under the rights of both.
//! - **Session** (`PipelineSession`): the calls of one client that share taint, approvals and background commands.
//! - **Tool** (`Tool`): a named function for models, with a `ToolDefinition`, an origin and a backend.
//! - **Plugin** (`ToolOrigin`): the file or server that provides one or more tools.
//! - **Registry** (`Registry`): an immutable set of tools, by name and alias.
//! - **Quarantined** (`Quarantined`): a file or a tool left out of the registry, with the reason.
//! - **Backend** (`Backend`): the port that runs approved calls: WebAssembly, script, MCP client, process, container.
//! - **Pipeline** (`Pipeline`): the only way from a call to a backend.
//! - **Stage**: one step of the pipeline (validate, decide, approve, run, sanitize, label, audit), which takes the type
//!   of the stage before.
//! - **Snapshot** (`PipelineSnapshot`): the registry and the policy at one moment; an active call keeps its own.
//! - **Policy** (`Policy`): the rules of the settings files of the team, the user and the project together.
//! - **Rule** (`ArgumentRule` and others): one statement of a policy about some calls.
//! - **Decision** (`Decision`): `allow`, `ask` or `deny`; the strictest one wins.
//! - **Evaluation** (`PolicyEvaluation`): a decision with the reason of every rule that applied.
//! - **Remedy**: a command or a settings line that would allow a refused call, shown to the person and not to models.
//! - **Approval** (`ApprovalAnswer`): a person's answer to an `ask`, for one call, a session, or permanently.
//! - **Card** (`Card`): the information that a person sees when asked.
//! - **Approver** (`Approver`): the port that shows cards and returns answers.
//! - **Approval store** (`ApprovalStore`): the port that stores permanent answers (`StoredApproval`) until they expire.
//! - **Needs** (`Needs`): the permissions that a tool requests: files, hosts, commands, secrets, variables, tools,
//!   a model.
//! - **Grant** (`Grant`): a person's permanent consent to the needs of one build of a plugin, in `.mimir/tools.lock`.
//! - **Effect** (`EffectGate`): an action of a running tool that is checked again: a request, a command, a nested call,
//!   a completion, a secret, a stored value.
//! - **Secret**: a value that a tool uses by placeholder and never sees.
//! - **Mask**: the text in place of a secret in everything that leaves the pipeline.
//! - **Label** (`ContentLabel`): the trust level, the data class and the origin of a result.
//! - **Taint** (`TaintFloor`): the worst label that a session or a call has read; tainted sessions are asked before
//!   they reach out.
//! - **Limits** (`Limits`): wall clock, fuel, memory, output and other bounds of one call.
//! - **Deadline** (`Deadline`): the end of a call's wall clock, paused while an approval is pending.
//! - **Outcome** (`Outcome`): the end of every call: the result or the error, its label and its receipt.
//! - **Receipt** (`Receipt`): the cost of a call: time, fuel, memory, bytes and tokens.
//! - **Audit event** (`AuditEvent`): the record of one call or effect, written through an `AuditSink`.

pub mod approval;
pub mod audit;
pub mod backend;
pub mod call;
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
pub mod name_suggestions;
pub mod needs;
pub mod network;
pub mod outcome;
pub mod paths;
pub mod pipeline;
pub mod policy;
pub mod registry;
pub mod schema;
pub mod storage;
pub mod text;
pub mod token_estimate;
pub mod tool;
pub mod untrusted_mark;
pub mod upstream_request;

pub use approval::{ApprovalAnswer, Approver, Card};
pub use audit::{AuditEvent, AuditSink};
pub use backend::{Backend, BoxFuture, RawResult, ToolAssessment};
pub use call::{Call, CallContext, RequestId};
pub use clock::{Clock, Deadline, Stopwatch};
pub use decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
pub use error::{ToolError, ToolErrorCode};
pub use limits::Limits;
pub use mimir_redact as redact;
pub use mimir_redact::Redactor;
pub use needs::{DirectoryAccess, Needs};
pub use outcome::{Content, ContentLabel, Outcome, Receipt};
pub use pipeline::{Approved, Pipeline};
pub use policy::Policy;
pub use registry::{Quarantined, Registry, ReservedNames};
pub use schema::Schema;
pub use tool::{
    ListedEntry, RiskLevel, Tool, ToolDefinition, ToolGroup, ToolHints, ToolName, ToolOrigin,
    ToolSource,
};
