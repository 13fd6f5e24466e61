//! The Model Context Protocol in both directions: mimir's tools for other agents, and third-party tools for mimir.
//!
//! A [`ToolServer`] exposes one pipeline to any number of clients. Each connection is a session of its own. A request
//! of a client becomes a [`mimir_core::Call`], and the outcome of the call becomes the response.
//!
//! [`client`] is the other direction: third-party servers whose tools are called through a pipeline.
//!
//! Out of scope: access to tools that bypasses [`mimir_core::Pipeline`], and output on stdout other than protocol
//! messages.

mod call_task;
mod catalogue;
pub mod client;
mod client_observer;
mod discovery;
mod elicitation;
mod http;
mod json_lines;
mod logs;
mod metrics;
mod quoted_text;
mod result;
mod server;
mod skills;
mod transport;
mod untrusted_marks;

pub use catalogue::{TOOL_META, definition};
pub use elicitation::random_token;
pub use http::{
    BrowserIdentity, HttpOptions, HttpService, IdentifiedPerson, IdentityOptions, LoginRecorder,
    ReadinessCheck, ReplicaSet, SealingKeyError, StartedIdentity, StatusEndpoint, UserLogin,
    UserLoginOutcome, is_user_id,
};
pub use metrics::{MetricFamily, MetricKind, MetricLabel, MetricSample, MetricSource, MetricValue};
pub use result::OUTCOME_META;
pub use server::{ApprovalOptions, OnRefusal, ToolServer};
pub use skills::{ServedSkill, ServedSkillFile, SkillSource};
pub use transport::ServeError;
