//! What tests and benches share: guests, an arena where one of them is let loose, pictures of a folder.
//!
//! It stands on `mimir-testkit`, which is what authors of tools use; here is only what this project's own
//! tests need beside it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "it runs in tests, where a panic is the report"
)]

extern crate self as mimir_kit;

use std::time::SystemTime;

use mimir_core::{Call, CallContext, Outcome, RequestId};
use mimir_testkit::{Testkit, Value};

mod arena;
mod builtins;
mod folder;
mod listing;
mod outside;
pub mod scripted_model;

pub use arena::{Arena, BOUND};
pub use builtins::{builtins, engines};
pub use folder::picture;
pub use listing::change;
pub use outside::Outside;

/// The guests that the build script made.
#[expect(missing_docs, reason = "each is documented in its source")]
pub mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

/// A component that the build script made.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The name of its file, which is also its tool's.
    pub name: &'static str,
    /// Where it is.
    pub path: &'static str,
}

impl Guest {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path).expect("the build script made it")
    }
}

/// A call in a session of this name.
pub fn in_session(kit: &Testkit, session: &str, tool: &str, arguments: Value) -> Outcome {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: session.to_owned(),
        conversation_id: None,
        user: None,
    };
    kit.block_on(kit.pipeline().call(Call::new(tool, arguments, context)))
}
