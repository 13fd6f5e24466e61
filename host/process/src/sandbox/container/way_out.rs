//! Network access of a container, which has no network but its loopback: a listening socket for the proxy in the
//! container, opened from outside, whose connections are accepted here.
//!
//! Needs no program of the image. Only root may open the socket, or the user of a rootless engine.

use mimir_net::Proxy;

use super::NAME;
use super::facts::Facts;
use crate::sandbox::Fault;

#[cfg(target_os = "linux")]
pub(super) use linux::{WayOut, open, possible};

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{WayOut, open, possible};

fn refused(why: &str) -> Fault {
    Fault::CannotHold {
        sandbox: NAME,
        what: "access to the network",
        why: why.to_owned(),
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use super::*;
    use crate::sandbox::wire::Serving;
    use crate::sandbox::wire::joined::Network;

    const ONLY_ROOT: &str = "network access in containers of an engine that runs as root needs root with CAP_SYS_ADMIN; \
                             use `sandbox: {mode: process, networkAccess: true}` or a rootless engine";

    /// The proxy connection of a container. Dropping it closes all its connections.
    pub(in super::super) type WayOut = Serving;

    /// Checks whether this process may open the socket in containers of this engine, as far as that is known in
    /// advance.
    pub(in super::super) fn possible(facts: &Facts) -> Result<(), Fault> {
        if facts.rootless || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(refused(ONLY_ROOT))
    }

    /// Opens the socket in the container whose first process is `process`; `first` looks that process up again.
    pub(in super::super) async fn open<F>(
        process: i32,
        proxy: &Proxy,
        first: impl Fn() -> F,
    ) -> Result<WayOut, Fault>
    where
        F: Future<Output = Result<i32, Fault>>,
    {
        let network = Network::of(process);
        // The process ID could have been reused, so it is checked again. If the container has ended, `first` returns
        // the reason.
        let serving = match network {
            Ok(network) if first().await? == process => network.serve(proxy).await,
            Ok(_) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error),
        };
        if serving.is_err() {
            first().await?;
        }
        serving.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => refused(ONLY_ROOT),
            _ => Fault::Io {
                doing: "the proxy socket of a container could not be opened",
                error,
            },
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;

    const WHY: &str = "network access is not supported in containers that run in a virtual machine; use \
                       `sandbox: {mode: process, networkAccess: true}` where it is available";

    /// Never created on this platform.
    pub(in super::super) enum WayOut {}

    pub(in super::super) fn possible(_: &Facts) -> Result<(), Fault> {
        Err(refused(WHY))
    }

    pub(in super::super) async fn open<F>(
        _: i32,
        _: &Proxy,
        _: impl Fn() -> F,
    ) -> Result<WayOut, Fault> {
        Err(refused(WHY))
    }
}
