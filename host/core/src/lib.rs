//! The nouns of mimir and the one road that every call takes.
//!
//! A [`Call`] enters [`Pipeline::call`] and leaves as an [`Outcome`]; between the two stand the stages
//! of [`pipeline`], each a type. What a stage needs from outside (a backend that runs, a person who
//! answers, a place to record, the time) is a port: a trait here, implemented elsewhere.
//!
//! Never here: wasmtime, sockets, terminals, an ambient clock.

pub mod approval;
pub mod audit;
pub mod backend;
pub mod call;
pub mod clock;
pub mod code;
pub mod command;
pub mod config;
pub mod decision;
pub mod error;
pub mod files;
pub mod grants;
pub mod launch;
pub mod limits;
pub mod mark;
pub mod model;
pub mod names;
pub mod needs;
pub mod network;
pub mod outcome;
pub mod paths;
pub mod pipeline;
pub mod policy;
pub mod redact;
pub mod registry;
pub mod schema;
pub mod storage;
pub mod text;
pub mod tokens;
pub mod tool;
pub mod wish;
pub mod worker;

pub use approval::{Answer, Approver, Card};
pub use audit::{AuditSink, Event};
pub use backend::{Assessment, Backend, BoxFuture, Raw};
pub use call::{Call, CallContext, RequestId};
pub use clock::{Clock, Deadline, Watch};
pub use decision::{Decision, Evaluation, Layer, Reason};
pub use error::{Code, ToolError};
pub use limits::Limits;
pub use needs::{Access, Needs};
pub use outcome::{Content, Label, Outcome, Receipt};
pub use pipeline::{Approved, Pipeline};
pub use policy::Policy;
pub use redact::Redactor;
pub use registry::{Quarantined, Registry, Reserved};
pub use schema::Schema;
pub use tool::{Definition, Group, Hints, ListedEntry, Origin, Risk, Source, Tool, ToolName};
