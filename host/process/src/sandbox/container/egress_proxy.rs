//! Network access of a container, which has only its own loopback: a listening socket for the proxy is opened in the
//! container from outside, and its connections are accepted in this process.
//!
//! Does not depend on programs in the image. Only root, or the user of a rootless engine, may open the socket.

use mimir_net::Proxy;

use super::NAME;
use super::engine_facts::ContainerEngineFacts;
use crate::sandbox::SandboxError;

#[cfg(target_os = "linux")]
pub(super) use linux::{EgressProxy, check_possible, open_proxy};

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{EgressProxy, check_possible, open_proxy};

fn proxy_error(why: &str) -> SandboxError {
    SandboxError::unsupported(NAME, "network access", why)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use super::*;
    use crate::sandbox::loopback_proxy::ProxyTask;
    use crate::sandbox::loopback_proxy::network_namespace::NetworkNamespace;

    const ONLY_ROOT: &str = "network access in containers of an engine that runs as root needs root with CAP_SYS_ADMIN; \
                             use `sandbox: {mode: process, networkAccess: true}` or a rootless engine";

    /// The running proxy of a container. Dropping it closes all connections.
    pub(in super::super) type EgressProxy = ProxyTask;

    /// Checks that this process may open the socket in containers of this engine, as far as this is known in advance.
    pub(in super::super) fn check_possible(
        facts: &ContainerEngineFacts,
    ) -> Result<(), SandboxError> {
        if facts.rootless || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(proxy_error(ONLY_ROOT))
    }

    /// Opens the socket in the container with this first process. `first` looks up the first process again.
    pub(in super::super) async fn open_proxy<F>(
        process: i32,
        proxy: &Proxy,
        first: impl Fn() -> F,
    ) -> Result<EgressProxy, SandboxError>
    where
        F: Future<Output = Result<i32, SandboxError>>,
    {
        let network = NetworkNamespace::of_process(process);
        // The process ID may have been reused, so it is checked again. If the container has ended, `first` returns the
        // reason.
        let serving = match network {
            Ok(network) if first().await? == process => network.serve(proxy).await,
            Ok(_) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error),
        };
        if serving.is_err() {
            first().await?;
        }
        serving.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => proxy_error(ONLY_ROOT),
            _ => SandboxError::Io {
                doing: "cannot open the proxy socket of a container",
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

    /// Not available on this platform.
    pub(in super::super) enum EgressProxy {}

    pub(in super::super) fn check_possible(_: &ContainerEngineFacts) -> Result<(), SandboxError> {
        Err(proxy_error(WHY))
    }

    pub(in super::super) async fn open_proxy<F>(
        _: i32,
        _: &Proxy,
        _: impl Fn() -> F,
    ) -> Result<EgressProxy, SandboxError> {
        Err(proxy_error(WHY))
    }
}
