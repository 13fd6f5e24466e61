//! Agents: a model, the tools that it calls, and the limits of both.
//!
//! [`Agent::task`] is the loop: the model is asked ([`Model`]), its calls go through the pipeline like any others,
//! their results go back to the model, until it makes no more calls or a limit is reached
//! ([`Budget`](mimir_core::config::Budget)). [`Provider`] is the model behind a provider's API: it sends requests
//! through `mimir-net` and streams the answers, in the protocols of [`protocol`].
//!
//! The design names the `genai` crate for this. It only accepts a `reqwest::Client`, and `reqwest` takes no custom
//! connector: every request would bypass the network guard, or go through a proxy that sees neither method nor path.
//! So the three protocols are implemented here, on top of `mimir-net`.
//!
//! Out of scope: which tools may run (the pipeline decides), terminals, files, config files, secret storage.

mod agent;
mod calls;
mod conversation;
mod error;
mod event;
mod message;
mod model;
pub mod protocol;
mod provider;
mod purse;
mod retry;
mod spent;
mod trim;
mod worker;

pub use agent::{Agent, Ended};
pub use conversation::Conversation;
pub use error::ModelError;
pub use event::{Event, Face};
pub use message::{Message, ToolCall, ToolSpec};
pub use model::{Ask, Model, Reply, Stop, Usage};
pub use provider::Provider;
pub use purse::{Purse, Share};
pub use spent::{Bound, Spent};
pub use worker::{Hall, Staff, worker_call};
