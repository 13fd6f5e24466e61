//! The console: a local web page that shows what agents do, answers their questions and stops them.
//!
//! This crate is the HTTP side: the page, sessions, roles, pairing, protection against web pages of strangers, limits and
//! the event stream. The data comes from a [`ConsoleBackend`].

mod address;
mod backend;
mod event;
mod exports;
mod handler;
mod limits;
mod login;
mod login_budget;
mod login_pages;
mod login_record;
mod page;
mod pairing;
mod plain_text;
mod rate;
mod request;
mod request_slots;
mod response;
mod routes;
mod server;
mod sessions;
mod stream;
mod user;

pub use backend::{ConsoleBackend, RecordLines};
pub use event::{ConsoleEvent, ConsoleEventKind, ConsoleEvents};
pub use limits::ConsoleLimits;
pub use login::{BrowserLogin, ConsolePerson, StartedLogin};
pub use login_record::{ConsoleLoginKind, ConsoleLoginRecord, ConsoleLoginRecorder, LoginClient};
pub use pairing::QrMatrix;
pub use request::{
    ConsoleRequest, PolicyChange, PolicyEdit, PolicyEditFile, QuestionAnswer, QuestionAnswerKind,
    RecordFilter, ServerAction,
};
pub use server::{ConsoleOptions, ConsoleServer, OneTimeLink, TeamAddress};
pub use user::{ConsoleRole, ConsoleUser};
