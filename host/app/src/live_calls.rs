//! Running calls of all mimir processes of this user on this machine, for consoles.
//!
//! A console opens a [`LiveConsole`]: a socket in the user's own folder. Other mimir processes of the user look for
//! sockets once a second ([`LiveCallPublisher`]), connect, and send what their calls do while they do it. The
//! [`LiveCallHub`] collects it: recent calls with their bounded output, and a stream of events.

mod hub;
mod live_call;

pub use hub::{LiveCallHub, LiveCallSnapshot, LiveCallSource, LiveCallUpdates, LiveUpdate};
pub use live_call::{CallDecision, LiveCall, LiveCallEffect, LiveCallProgress, LiveCallStatus};
