//! WebAssembly components as tools: discovered, described, compiled once, and run in a fresh, limited sandbox per
//! call.
//!
//! [`Toolbox`] finds components and creates [`mimir_core::Tool`]s from them. A call arrives through the
//! [`Backend`](mimir_core::Backend) interface after the policy has decided its permissions, gets its own store and
//! instance, and runs within its [`mimir_core::Limits`].
//!
//! A component's network requests go through [`mimir_net`], after the effect gate of the call has allowed them.
//!
//! Out of scope: permissions of callers, approval prompts, the display of results.

mod agent_tool;
mod api_call;
mod backend;
mod backoff;
mod bindings;
mod cache;
mod call;
mod call_log;
mod clock;
mod compile;
pub mod componentize;
mod convert;
mod describe;
mod digest;
mod engine;
mod error;
pub mod family;
pub mod fs;
mod host;
mod http;
mod http_handler;
mod imports;
pub mod lift;
mod linker;
mod output_pipes;
mod packed;
mod plugin;
pub mod program;
pub mod script;
mod store_limiter;
mod store_state;
mod tool_folder;
mod toolbox;
mod trap_errors;
mod yielding;

pub use api_call::{ApiRequest, ApiResponse};
pub use cache::{CacheState, CodeCounts};
pub use clock::SystemClock;
pub use compile::{
    ChildCompiler, CompileError, CompileEvent, CompileJob, CompileLimits, ComponentCompiler,
    InProcessCompiler, run_if_child,
};
pub use describe::finish_plugin;
pub use digest::Sha256Digest;
pub use engine::{EngineMode, MemoryAddressing, MemoryAllocation, WASMTIME_VERSION};
pub use error::WasmHostError;
pub use host::{CompileObserver, EngineFacts, HostOptions, WasmHost};
pub use packed::PackedComponent;
pub use toolbox::{
    BundledComponent, ComponentCheck, ComponentCheckFactory, LoadedTools, TeamComponent, Toolbox,
};
