//! The console: a local web page that shows what agents do, answers their questions and stops them.
//!
//! This crate is the HTTP side: the page, sessions, roles, pairing, protection against web pages of strangers, limits and
//! the event stream. The data comes from a [`ConsoleBackend`].

mod backend;
mod event;
mod request;
mod user;

pub use backend::ConsoleBackend;
pub use event::{ConsoleEvent, ConsoleEventKind, ConsoleEvents};
pub use request::{
    ConsoleRequest, PolicyChange, PolicyEdit, PolicyEditFile, QuestionAnswer, QuestionAnswerKind,
    RecordFilter, ServerAction,
};
pub use user::{ConsoleRole, ConsoleUser};
