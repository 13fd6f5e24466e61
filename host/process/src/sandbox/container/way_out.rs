//! The way out of a container, which has a network without any other machine: a socket that listens in there, opened
//! from outside, and whose connections are taken here.
//!
//! Nothing of the image has a part in it. Only root may do that, or whoever runs an engine without root.

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

    const ONLY_ROOT: &str = "only root, with CAP_SYS_ADMIN, may open a way to a proxy in the containers of an engine that \
                             runs as root; `sandbox: {mode: process, networkAccess: true}` or an engine without root lets \
                             commands out";

    /// Ends with all its connections when it is dropped.
    pub(in super::super) type WayOut = Serving;

    /// Whether this process may open one in containers of this engine, as far as that is known before.
    pub(in super::super) fn possible(facts: &Facts) -> Result<(), Fault> {
        if facts.rootless || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(refused(ONLY_ROOT))
    }

    /// Opens it in the container that the process is the first of, which `first` says anew.
    pub(in super::super) async fn open<F>(
        process: i32,
        proxy: &Proxy,
        first: impl Fn() -> F,
    ) -> Result<WayOut, Fault>
    where
        F: Future<Output = Result<i32, Fault>>,
    {
        let network = Network::of(process);
        // It is that one's if it still runs. One that has ended says why.
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
                doing: "the way out of a container could not be opened",
                error,
            },
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;

    const WHY: &str = "no way to a proxy can be opened in a container that is in a machine of its own; \
                       `sandbox: {mode: process, networkAccess: true}` lets commands out where it is to be had";

    /// There is none.
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
