//! WebAssembly components as tools: discovered, described, compiled once, and run in a fresh, limited sandbox per
//! call.
//!
//! [`Toolbox`] finds components and creates [`mimir_core::Tool`]s from them; a call arrives through the
//! [`Backend`](mimir_core::Backend) interface with its permissions decided, gets its own store and instance, and runs
//! within its [`mimir_core::Limits`].
//!
//! A component's network requests go through [`mimir_net`], after the effect gate of its call has allowed them.
//!
//! Out of scope: permissions of callers, approval prompts, output.

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
