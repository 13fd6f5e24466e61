//! Addresses at which mimir's own consoles listen. No request may reach them, whatever the policy allows: a tool that
//! could use the console would answer its own questions.

use std::net::SocketAddr;
use std::sync::Arc;

use mimir_core::network::{NetworkRefusal, RequestTarget};
use parking_lot::RwLock;

use crate::error::Error;

/// Knows the consoles of this user.
pub trait ConsoleAddresses: Send + Sync {
    /// Returns true if a console listens at this address, or is reached by the host and port of the target.
    fn is_console(&self, target: &RequestTarget, address: SocketAddr) -> bool;
}

/// For all clients of this process: a client that is created without it must not be a way to the console.
static CONSOLES: RwLock<Option<Arc<dyn ConsoleAddresses>>> = RwLock::new(None);

/// Sets the consoles that no client of this process connects to. Replaces earlier ones.
pub fn set_console_addresses(consoles: Arc<dyn ConsoleAddresses>) {
    *CONSOLES.write() = Some(consoles);
}

/// Fails if one of the addresses is that of a console.
pub(crate) fn check_consoles(
    target: &RequestTarget,
    addresses: &[SocketAddr],
) -> Result<(), Error> {
    let consoles = CONSOLES.read().clone();
    let Some(consoles) = consoles else {
        return Ok(());
    };
    let mut addresses = addresses.iter();
    if !addresses.any(|address| consoles.is_console(target, *address)) {
        return Ok(());
    }
    Err(Error::BlockedAddress(NetworkRefusal {
        rule: "console".to_owned(),
        reason: format!(
            "{} is a console of mimir, which tools cannot reach",
            target.origin()
        ),
        remedy: String::new(),
    }))
}
