//! Agents: a model that is asked, the tools that it calls, and the bounds of both.
//!
//! [`Agent::task`] is the loop: the model is asked ([`Model`]), its calls go through the pipeline like anybody's, what
//! came of them goes back, until it has no more calls or a bound is reached ([`Budget`](mimir_core::config::Budget)).
//! [`Provider`] is the model behind a provider's API: requests through `mimir-net`, answers as they come in, in the
//! protocols of [`protocol`].
//!
//! The design names `genai` for that. Its client is a `reqwest::Client` and nothing else, and `reqwest` takes no
//! connector of somebody else's: every request would go past the guard, or through a proxy that sees neither method nor
//! path. So the three protocols are written out here, over the one way out.
//!
//! Never here: which tool may run (the pipeline's), terminals, files, config files, where secrets are kept.

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
