//! Opens the proxy's socket in the network namespace of a waiting process that another program has created.
//!
//! No code in the sandbox is involved. A child of this process enters the network namespace only to open the socket. It
//! enters no other namespace, so it is invisible to the sandbox. This needs root, or the user who created the
//! namespace.

use std::io;

use mimir_net::Proxy;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, Timespec, move_into_link_name_space, nanosleep};

use super::{ProxyTask, fork_to_open, handover_pair, listen_on_loopback, send_error, send_fds};
use crate::sandbox::environment::PROXY;
use crate::sandbox::sys;

/// Number of attempts while the loopback interface is missing, and the delay between them: one second in total.
const MAX_ATTEMPTS: usize = 1000;
const RETRY_DELAY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// Network namespace of a process. Check afterwards that the process still runs: then its number cannot have been
/// reused.
pub(in crate::sandbox) struct NetworkNamespace {
    /// The owning user namespace, if it is not the current one.
    user: Option<OwnedFd>,
    network: OwnedFd,
}

/// State of the child: the network to enter, and the socket for the descriptor.
struct NamespaceJoin {
    network: NetworkNamespace,
    handover_socket: OwnedFd,
}

/// Opens the listening socket in this network.
fn open_listener(network: NetworkNamespace) -> io::Result<OwnedFd> {
    let (parent_socket, child_socket) = handover_pair()?;
    let join = NamespaceJoin {
        network,
        handover_socket: child_socket,
    };
    let listening = fork_to_open(0, join, listen, &parent_socket)?.pop();
    listening.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

impl NetworkNamespace {
    /// Opens the network of the process with this number.
    pub(in crate::sandbox) fn of_process(process: i32) -> io::Result<Self> {
        // The opened folder stays bound to this process, even if the number is reused.
        let folder = openat(
            CWD,
            format!("/proc/{process}"),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let open = |name| {
            openat(
                &folder,
                name,
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let network = open("ns/net")?;
        if is_own(&network, "/proc/self/ns/net")? {
            return Err(io::Error::other(
                "the process is in the network of this machine",
            ));
        }
        let user = sys::user_namespace_of(&network)?;
        let user = (!is_own(&user, "/proc/self/ns/user")?).then_some(user);
        Ok(Self { user, network })
    }

    /// Opens the socket and serves its connections with the proxy.
    pub(in crate::sandbox) async fn serve(self, proxy: &Proxy) -> io::Result<ProxyTask> {
        let listening = tokio::task::spawn_blocking(|| open_listener(self)).await??;
        ProxyTask::begin(listening, proxy.clone())
    }
}

/// Returns true if a namespace is the current one of this process.
fn is_own(namespace: &OwnedFd, own: &str) -> io::Result<bool> {
    let (other, own) = (fstat(namespace)?, stat(own)?);
    Ok((other.st_dev, other.st_ino) == (own.st_dev, own.st_ino))
}

/// Runs in the child, and makes only system calls (see [`sys`]).
fn listen(join: &mut NamespaceJoin) -> ! {
    let send_listener = || {
        if let Some(user) = &join.network.user {
            enter(user, LinkNameSpaceType::User)?;
        }
        enter(&join.network.network, LinkNameSpaceType::Network)?;
        // The creator of the network may not have brought up the loopback interface yet.
        for _ in 0..MAX_ATTEMPTS {
            match listen_on_loopback(PROXY)
                .and_then(|socket| send_fds(&join.handover_socket, &[socket.as_fd()]))
            {
                Err(Errno::ADDRNOTAVAIL) => drop(nanosleep(&RETRY_DELAY)),
                done => return done,
            }
        }
        Err(Errno::ADDRNOTAVAIL)
    };
    if let Err(error) = send_listener() {
        send_error(&join.handover_socket, error);
    }
    sys::exit(0)
}

pub(in crate::sandbox) fn enter(namespace: &OwnedFd, kind: LinkNameSpaceType) -> Result<(), Errno> {
    move_into_link_name_space(namespace.as_fd(), Some(kind))
}
