//! Helpers for this project's own tests and benches: guests, an arena for hostile guests, fakes, folder snapshots.
//!
//! This crate is built on `mimir-testkit`, which is for tool authors.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "this crate is used in tests only, where a panic is a test failure"
)]

extern crate self as mimir_kit;

use std::time::SystemTime;

use mimir_core::{Call, CallContext, Outcome, RequestId};
use mimir_testkit::{Testkit, Value};

mod arena;
mod builtins;
mod fakes;
mod folder;
mod listing;
mod nats_server;
mod outside;
pub mod scripted_model;
pub mod state_conformance;

pub use arena::{Arena, BOUND};
pub use builtins::{builtins, engines};
pub use fakes::{FixedApprover, MemoryAudit, ParsingRunner, TestPipeline};
pub use folder::picture;
pub use listing::change;
pub use mimir_wasm::SystemClock;
pub use nats_server::NatsServer;
pub use outside::Outside;

/// The guests built by the build script.
#[expect(missing_docs, reason = "each guest is documented in its source")]
pub mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

/// A component built by the build script.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The name of its file, which is also the name of its tool.
    pub name: &'static str,
    /// The path of the component.
    pub path: &'static str,
}

impl Guest {
    /// Reads the component.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path).expect("the build script has built the component")
    }
}

/// Calls a tool in the session with this id.
pub fn in_session(kit: &Testkit, session: &str, tool: &str, arguments: Value) -> Outcome {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: session.to_owned(),
        conversation_id: None,
        user: None,
    };
    kit.block_on(kit.pipeline().call(Call::new(tool, arguments, context)))
}
