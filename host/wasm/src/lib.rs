//! WebAssembly components as tools: found, described, compiled once, and run in a fresh, bounded
//! sandbox per call.
//!
//! [`Toolbox`] finds components and makes [`mimir_core::Tool`]s of them; a call comes in through the
//! [`Backend`](mimir_core::Backend) port with its rights settled, gets a store and an instance of its
//! own, and ends inside its [`mimir_core::Limits`].
//!
//! What a component sends over the network goes through [`mimir_net`], after the effect gate of its call has said yes.
//!
//! Never here: who may call what, what a person is asked, what is printed.

mod backend;
mod bindings;
mod cache;
mod call;
mod clock;
mod compile;
mod convert;
mod describe;
mod digest;
mod engine;
mod error;
pub mod family;
mod faults;
mod folder;
pub mod fs;
mod guest;
mod host;
mod http;
mod imports;
pub mod lift;
mod limiter;
mod linker;
mod logs;
mod pace;
mod pipes;
mod plugin;
pub mod program;
mod rest;
pub mod script;
mod toolbox;

pub use cache::{CacheState, CodeCounts};
pub use clock::SystemClock;
pub use compile::{
    ChildCompiler, CompileError, CompileEvent, CompileJob, CompileLimits, Compiler, InProcess,
    run_if_child,
};
pub use digest::Hash;
pub use engine::{Addressing, Allocation, WASMTIME_VERSION};
pub use error::HostError;
pub use host::{EngineFacts, HostOptions, OnCompile, WasmHost};
pub use toolbox::{Bundled, Loaded, Toolbox};
