//! Third-party MCP servers as a backend: their tools are called through the same pipeline as all others.
//!
//! mimir starts a server, or connects to it, on the first call of one of the server's tools; the tool list is cached.
//! A server's descriptions are untrusted: they are made safe to show, compared with those that the user has seen, and
//! can only make a decision stricter. Resources and prompts are read by tool calls, too, and a server's requests to
//! the client during a call go through the input broker of that call.
//!
//! Out of scope: any access to a server's tool that bypasses [`mimir_core::Pipeline`], programs not started by
//! [`mimir_core::launch::ProgramHandle`], and requests not sent by [`mimir_net::HostClient`].

mod backend;
mod call_result;
mod circuit_breaker;
mod close_reason;
mod connection;
mod description;
mod flags;
mod handshake;
mod http_transport;
mod icons;
mod input_broker;
mod invalid_request;
mod lenient_messages;
mod listener;
mod login_links;
mod lookup;
mod names;
mod oauth;
mod operation;
mod ordered_transport;
mod package_runner;
mod program;
mod rate_limit;
mod reader_tools;
mod refused_hosts;
mod resource_library;
mod sandbox_hint;
mod server;
mod servers;
mod spec;
mod status;
mod stdio_transport;
mod subscription;
mod user_login;

pub use description::{DescriptionStore, ServerAbilities, ServerDescription};
pub use flags::find_flags;
pub use input_broker::AllowedRequests;
pub(crate) use listener::ResourceUpdate;
pub use login_links::LoginLinks;
pub(crate) use login_links::{LinkError, LinkOwner};
pub(crate) use lookup::RemoteEntry;
pub(crate) use oauth::provider_keys;
pub use oauth::{
    CallbackError, LoginDetails, LoginPlan, LoginStore, LoginSummary, PendingLogin,
    RegistrationKind, login_secrets,
};
pub(crate) use oauth::{IdentityLogin, PendingIdentity, random_string};
pub use package_runner::{PackageCommandError, PackageRequest, package_request};
pub use program::stop_server_programs;
pub(crate) use reader_tools::restore_output;
pub use refused_hosts::RefusedHosts;
pub(crate) use resource_library::ResourceLibrary;
pub use server::{HttpClientFactory, ServerClientFactory, ServerDeps};
pub use servers::{FAULT_RETRY_INTERVAL, McpServers, RunRequests, ServerTestReport, ServerTools};
pub use spec::{ServerSpec, ServerTransport, fill_secrets};
pub use status::{ServerFault, ServerObserver, ServerState, ServerStatus};
pub(crate) use user_login::login_step;
