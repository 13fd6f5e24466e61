//! Running calls of all mimir processes of this user on this machine, for consoles.
//!
//! A console opens a [`LiveConsole`]: a socket in the user's own folder. Other mimir processes of the user look for
//! sockets once a second ([`LiveCallPublisher`]), connect, and send what their calls do while they do it. The
//! [`LiveCallHub`] collects it: recent calls with their bounded output, and a stream of events.
//!
//! Out of scope: calls of other machines. A console beside a front of a cluster shows the calls that this front passes on.

mod agents;
#[cfg(unix)]
mod console;
mod hub;
mod live_call;
#[cfg(unix)]
mod messages;
#[cfg(unix)]
mod publisher;
#[cfg(unix)]
mod report_queue;
#[cfg(unix)]
mod socket_folder;
#[cfg(test)]
mod tests;
#[cfg(not(unix))]
mod unsupported;

pub use agents::{AgentKey, LiveAgent};
#[cfg(unix)]
pub use console::LiveConsole;
pub use hub::{LiveCallHub, LiveCallSnapshot, LiveCallSource, LiveCallUpdates, LiveUpdate};
pub use live_call::{
    CallDecision, EditedCallArguments, LiveCall, LiveCallEffect, LiveCallProgress, LiveCallStatus,
};
#[cfg(unix)]
pub use publisher::{LiveCallPublisher, flush, set_process_name};
#[cfg(not(unix))]
pub use unsupported::{LiveCallPublisher, LiveConsole, flush, set_process_name};
