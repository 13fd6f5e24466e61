//! Resources shared by the commands of one session: a network and a temporary folder.
//!
//! Both belong to a user namespace created for the session. Each command gets its own user namespace below it, so it
//! has no privileges over the shared resources. No process remains in the namespaces: they last as long as this process
//! holds them open, and a short-lived child enters them to open resources.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::LinkNameSpaceType;
use tokio::net::{TcpSocket, TcpStream};

use super::child_plan::MountAttributes;
use super::child_process::write_file;
use super::root_plan::SandboxIdentity;
use crate::sandbox::environment::PROXY;
use crate::sandbox::loopback_proxy::network_namespace::enter;
use crate::sandbox::loopback_proxy::{
    fork_to_open, handover_pair, listen_on_loopback, send_error, send_fds,
};
use crate::sandbox::sys;

/// Path of the temporary folder in the session's mount namespace, in which no other path is resolved.
const MOUNT_POINT: &std::ffi::CStr = c"/proc";

/// Number of mounts of the temporary folder to prepare in advance.
const SPARE_FOLDERS: usize = 4;

/// Maximum number of concurrent commands with a proxy in one session, each with its own port.
const MAX_PROXIES: u16 = 128;

/// Shared resources of a session.
pub(in crate::sandbox) struct SessionNamespaces {
    user: OwnedFd,
    network: OwnedFd,
    mounts: OwnedFd,
    /// Unused mounts of the temporary folder. Each command takes one.
    folders: Mutex<Vec<OwnedFd>>,
    /// Listening loopback sockets without a proxy.
    listeners: Arc<Mutex<Vec<SessionListener>>>,
}

/// A listening socket in the network of a session.
struct SessionListener {
    socket: OwnedFd,
    port: u16,
}

/// A [`SessionListener`] for one command. Dropping it makes it available to the next command.
pub(super) struct ListenerGuard {
    listener: Option<SessionListener>,
    pool: Weak<Mutex<Vec<SessionListener>>>,
}

impl ListenerGuard {
    /// Returns the port of the proxy in the command's network.
    pub(super) fn port(&self) -> u16 {
        self.listener.as_ref().map_or(PROXY, |one| one.port)
    }

    /// Returns a copy of the listening socket.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        listener.socket.try_clone()
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        if let (Some(pool), Some(listener)) = (self.pool.upgrade(), self.listener.take()) {
            pool.lock().push(listener);
        }
    }
}

impl SessionNamespaces {
    /// Creates the namespaces.
    pub(super) fn new() -> io::Result<Self> {
        let SandboxIdentity { user, group } = SandboxIdentity::for_commands();
        let (own_user, own_group) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let (parent_socket, child_socket) = handover_pair()?;
        let setup = NamespaceSetup {
            handover_socket: child_socket,
            uid_map: format!("{user} {own_user} 1").into_bytes(),
            gid_map: format!("{group} {own_group} 1").into_bytes(),
        };
        let fds = fork_to_open(sys::SHARED, setup, run_namespace_child, &parent_socket)?;
        let mut fds = fds.into_iter();
        let mut next_fd = || fds.next().ok_or(io::ErrorKind::BrokenPipe);
        Ok(Self {
            user: next_fd()?,
            network: next_fd()?,
            mounts: next_fd()?,
            folders: Mutex::new(fds.collect()),
            listeners: Arc::default(),
        })
    }

    /// Enters the network. Must run in a child process.
    pub(super) fn enter_network(&self) -> Result<(), Errno> {
        enter(&self.user, LinkNameSpaceType::User)?;
        enter(&self.network, LinkNameSpaceType::Network)
    }

    /// Returns a mount of the temporary folder for one command.
    pub(super) fn folder(&self) -> io::Result<OwnedFd> {
        let folders = || self.folders.lock();
        if let Some(mount) = folders().pop() {
            return Ok(mount);
        }
        let mut opened = self.open_in_namespaces(NamespaceJob::Folders)?;
        let mount = opened.pop().ok_or(io::ErrorKind::BrokenPipe)?;
        folders().append(&mut opened);
        Ok(mount)
    }

    /// Returns a listener for the proxy of one command.
    pub(super) fn listener(&self) -> io::Result<ListenerGuard> {
        let listeners = || self.listeners.lock();
        let waiting = listeners().pop();
        let listener = match waiting {
            Some(listener) => listener,
            None => {
                let socket = self.open_in_namespaces(NamespaceJob::Listener)?.pop();
                let socket = socket.ok_or(io::ErrorKind::BrokenPipe)?;
                let address = rustix::net::getsockname(&socket)?;
                let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
                SessionListener {
                    socket,
                    port: address.port(),
                }
            }
        };
        Ok(ListenerGuard {
            listener: Some(listener),
            pool: Arc::downgrade(&self.listeners),
        })
    }

    /// Connects to a loopback port in the network, over IPv4 or IPv6.
    pub(in crate::sandbox) async fn connect(self: Arc<Self>, port: u16) -> io::Result<TcpStream> {
        let sockets =
            tokio::task::spawn_blocking(move || self.open_in_namespaces(NamespaceJob::Sockets))
                .await??;
        let addresses = [
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        ];
        let mut last_error = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (socket, address) in sockets.into_iter().zip(addresses) {
            let socket = TcpSocket::from_std_stream(socket.into());
            match socket.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    fn open_in_namespaces(&self, job: NamespaceJob) -> io::Result<Vec<OwnedFd>> {
        let (parent_socket, child_socket) = handover_pair()?;
        let visit = NamespaceVisit {
            shared: self,
            job,
            handover_socket: child_socket,
        };
        fork_to_open(0, visit, run_visit_child, &parent_socket)
    }
}

/// State of the child of [`SessionNamespaces::new`].
struct NamespaceSetup {
    handover_socket: OwnedFd,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
}

/// Runs in the child, in the new namespaces. Makes only system calls (see [`sys`]).
fn run_namespace_child(setup: &mut NamespaceSetup) -> ! {
    let set_up = || {
        write_file(c"/proc/self/setgroups", b"deny")?;
        write_file(c"/proc/self/uid_map", &setup.uid_map)?;
        write_file(c"/proc/self/gid_map", &setup.gid_map)?;
        sys::loopback_up()?;
        let namespace = |name| openat(CWD, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let (user, network, mounts) = (
            namespace(c"/proc/self/ns/user")?,
            namespace(c"/proc/self/ns/net")?,
            namespace(c"/proc/self/ns/mnt")?,
        );
        mount_change(
            c"/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )?;
        let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (name, value) in super::root_plan::TEMPORARY {
            fsconfig_set_string(context.as_fd(), name, value)?;
        }
        fsconfig_create(context.as_fd())?;
        let plain = u32::try_from(MountAttributes::PLAIN.0).unwrap_or(u32::MAX);
        let flags = MountAttrFlags::from_bits_retain(plain);
        let folder = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        let at = openat(
            CWD,
            MOUNT_POINT,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(folder.as_fd(), c"", at.as_fd(), c"", flags)?;
        let [a, b, c, d] = folders()?;
        let all = [&user, &network, &mounts, &a, &b, &c, &d].map(AsFd::as_fd);
        send_fds(&setup.handover_socket, &all)
    };
    if let Err(error) = set_up() {
        send_error(&setup.handover_socket, error);
    }
    sys::exit(0)
}

/// Creates detached mounts of the temporary folder.
fn folders() -> Result<[OwnedFd; SPARE_FOLDERS], Errno> {
    let at = openat(
        CWD,
        MOUNT_POINT,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mount = || {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        open_tree(at.as_fd(), c"", flags)
    };
    Ok([mount()?, mount()?, mount()?, mount()?])
}

/// Resource to open in the namespaces of a session.
#[derive(Debug, Clone, Copy)]
enum NamespaceJob {
    Folders,
    Listener,
    Sockets,
}

/// State of the child of [`SessionNamespaces::open_in_namespaces`].
struct NamespaceVisit<'a> {
    shared: &'a SessionNamespaces,
    job: NamespaceJob,
    handover_socket: OwnedFd,
}

/// Runs in the child. Makes only system calls.
fn run_visit_child(visit: &mut NamespaceVisit<'_>) -> ! {
    if let Err(error) = open_resources(visit) {
        send_error(&visit.handover_socket, error);
    }
    sys::exit(0)
}

fn open_resources(visit: &NamespaceVisit<'_>) -> Result<(), Errno> {
    let send = |all: &[BorrowedFd<'_>]| send_fds(&visit.handover_socket, all);
    match visit.job {
        NamespaceJob::Folders => {
            enter(&visit.shared.user, LinkNameSpaceType::User)?;
            enter(&visit.shared.mounts, LinkNameSpaceType::Mount)?;
            let [a, b, c, d] = folders()?;
            send(&[a.as_fd(), b.as_fd(), c.as_fd(), d.as_fd()])
        }
        NamespaceJob::Listener => {
            visit.shared.enter_network()?;
            for port in PROXY..PROXY + MAX_PROXIES {
                match listen_on_loopback(port) {
                    Err(Errno::ADDRINUSE) => {}
                    Err(error) => return Err(error),
                    Ok(socket) => return send(&[socket.as_fd()]),
                }
            }
            Err(Errno::ADDRINUSE)
        }
        NamespaceJob::Sockets => {
            visit.shared.enter_network()?;
            let socket = |family| {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                socket_with(family, SocketType::STREAM, flags, None)
            };
            let ipv4 = socket(AddressFamily::INET)?;
            match socket(AddressFamily::INET6) {
                Ok(ipv6) => send(&[ipv4.as_fd(), ipv6.as_fd()]),
                Err(_) => send(&[ipv4.as_fd()]),
            }
        }
    }
}
