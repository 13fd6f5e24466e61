//! Runs a built plugin in mimir's own pipeline, from `cargo test`.
//!
//! A [`Testkit`] has a separate workspace that contains only files added by the test. [`Testkit::call`] goes through
//! the real pipeline: the arguments are validated, the policy decides, a simulated person approves or denies the call,
//! the component runs in its sandbox under its limits, the result is truncated and labelled, and the call is recorded.
//! The returned [`Outcome`] is the one that an agent would get.
//!
//! ```
//! use mimir_testkit::{Approve, Code, Testkit, json};
//!
//! // Any component will do. A plugin's own tests begin with
//! // let kit = Testkit::build(env!("CARGO_MANIFEST_DIR"))?;
//! let component = wat::parse_str(r#"(component
//!     (core module $code
//!         (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
//!     (core instance $code (instantiate $code))
//!     (func (export "add") (param "a" s32) (param "b" s32) (result s32)
//!         (canon lift (core func $code "add"))))"#)?;
//! let kit = Testkit::from_bytes("adder", &component)?;
//!
//! let outcome = kit.call("add", json!({"a": 2, "b": 3}));
//! assert!(outcome.is_ok(), "{}", outcome.text());
//! assert_eq!(outcome.result().unwrap().structured, Some(json!({"result": 5})));
//! assert!(outcome.receipt().fuel > Some(0));
//!
//! // Arguments that do not match the schema never reach the plugin.
//! let refused = kit.call("add", json!({"a": "two"}));
//! assert_eq!(refused.result().unwrap_err().code, Code::InvalidInput);
//!
//! // The simulated person can deny a call.
//! let kit = kit.settings(json!({"tools": {"add": {"approval": "ask"}}}))?.approve(Approve::Never);
//! let refused = kit.call("add", json!({"a": 2, "b": 3}));
//! assert_eq!(refused.result().unwrap_err().code, Code::ApprovalDenied);
//! assert_eq!(kit.cards().last().unwrap().tool, "add");
//!
//! // Every call is recorded.
//! assert_eq!(kit.events().len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Out of scope: running a tool without the pipeline.

mod build;
mod error;
mod kit;
mod model;
mod person;
mod record;
mod secrets;

pub use error::TestkitError;
pub use kit::Testkit;
pub use person::Approve;

/// The code of an error, under the name that the SDK gives it.
pub use mimir_core::ToolErrorCode as Code;
pub use mimir_core::call::{CallProgress, LogLevel, LogLine};
pub use mimir_core::{AuditEvent, Card, Content, Outcome, Quarantined, Tool, ToolErrorCode};
pub use mimir_wasm::BundledComponent;
pub use serde_json::{Value, json};
