//! Resources that the commands of one session share: a network and a temporary folder.
//!
//! Both belong to a user namespace that is created for the session. Each command gets its own user namespace below it,
//! so it has no privileges over the shared resources. No process remains in the namespaces: they last as long as this
//! process holds them open, and a short-lived child enters them to open resources there.

use parking_lot::Mutex;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::LinkNameSpaceType;
use tokio::net::{TcpSocket, TcpStream};

use super::inside::put;
use super::plan::Attributes;
use super::root::Identity;
use crate::sandbox::environment::PROXY;
use crate::sandbox::sys;
use crate::sandbox::wire::joined::enter;
use crate::sandbox::wire::{door, fail, hand_out, listening, take};

/// The path of the temporary folder in the session's mount namespace, in which no other path is resolved.
const FOLDER: &std::ffi::CStr = c"/proc";

/// The number of mounts of the temporary folder that are prepared in advance.
const AHEAD: usize = 4;

/// The maximum number of concurrent commands with a proxy in one session; each uses its own port.
const PROXIES: u16 = 128;

/// The shared resources of a session.
pub(in crate::sandbox) struct Shared {
    user: OwnedFd,
    network: OwnedFd,
    mounts: OwnedFd,
    /// Mounts of the temporary folder that are not in use yet. Each command takes one.
    folders: Mutex<Vec<OwnedFd>>,
    /// Listening loopback sockets that no proxy uses at present.
    listeners: Arc<Mutex<Vec<Listener>>>,
}

/// A listening socket in the network of a session.
struct Listener {
    socket: OwnedFd,
    port: u16,
}

/// A [`Listener`] for one command. Dropping it makes it available to the next one.
pub(super) struct Lease {
    listener: Option<Listener>,
    home: Weak<Mutex<Vec<Listener>>>,
}

impl Lease {
    /// Returns the port at which the command reaches its proxy.
    pub(super) fn port(&self) -> u16 {
        self.listener.as_ref().map_or(PROXY, |one| one.port)
    }

    /// Returns a copy of the listening socket.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        listener.socket.try_clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(home), Some(listener)) = (self.home.upgrade(), self.listener.take()) {
            home.lock().push(listener);
        }
    }
}

impl Shared {
    /// Creates the namespaces.
    pub(super) fn new() -> io::Result<Self> {
        let Identity { user, group } = Identity::inside();
        let (own_user, own_group) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let (here, there) = door()?;
        let mut making = Making {
            door: there,
            uid_map: format!("{user} {own_user} 1").into_bytes(),
            gid_map: format!("{group} {own_group} 1").into_bytes(),
        };
        let mut all = forked(sys::SHARED, &mut making, make, &here)?.into_iter();
        let mut next = || all.next().ok_or(io::ErrorKind::BrokenPipe);
        Ok(Self {
            user: next()?,
            network: next()?,
            mounts: next()?,
            folders: Mutex::new(all.collect()),
            listeners: Arc::default(),
        })
    }

    /// Enters the network. Must run in a child.
    pub(super) fn enter_network(&self) -> Result<(), Errno> {
        enter(&self.user, LinkNameSpaceType::User)?;
        enter(&self.network, LinkNameSpaceType::Network)
    }

    /// Returns a mount of the temporary folder for one command.
    pub(super) fn folder(&self) -> io::Result<OwnedFd> {
        let waiting = || self.folders.lock();
        if let Some(one) = waiting().pop() {
            return Ok(one);
        }
        let mut made = self.visit(Job::Folders)?;
        let one = made.pop().ok_or(io::ErrorKind::BrokenPipe)?;
        waiting().append(&mut made);
        Ok(one)
    }

    /// Returns a listener for the proxy of one command.
    pub(super) fn listener(&self) -> io::Result<Lease> {
        let free = || self.listeners.lock();
        let waiting = free().pop();
        let listener = match waiting {
            Some(listener) => listener,
            None => {
                let socket = self.visit(Job::Listener)?.pop();
                let socket = socket.ok_or(io::ErrorKind::BrokenPipe)?;
                let address = rustix::net::getsockname(&socket)?;
                let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
                Listener {
                    socket,
                    port: address.port(),
                }
            }
        };
        Ok(Lease {
            listener: Some(listener),
            home: Arc::downgrade(&self.listeners),
        })
    }

    /// Connects to a loopback port in the network, over IPv4 or IPv6.
    pub(in crate::sandbox) async fn connect(self: Arc<Self>, port: u16) -> io::Result<TcpStream> {
        let sockets = tokio::task::spawn_blocking(move || self.visit(Job::Sockets)).await??;
        let addresses = [
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        ];
        let mut failed = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (socket, address) in sockets.into_iter().zip(addresses) {
            let socket = TcpSocket::from_std_stream(socket.into());
            match socket.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn visit(&self, job: Job) -> io::Result<Vec<OwnedFd>> {
        let (here, there) = door()?;
        let mut visit = Visit {
            shared: self,
            job,
            door: there,
        };
        forked(0, &mut visit, go, &here)
    }
}

/// Forks a child and receives the descriptors that it sends before it ends.
fn forked<T>(
    namespaces: u64,
    state: &mut T,
    child: fn(&mut T) -> !,
    here: &OwnedFd,
) -> io::Result<Vec<OwnedFd>> {
    let child = sys::fork(namespaces, None, state, child)?;
    // The exit status does not matter: the result arrives through the socket.
    let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
    take(here)
}

/// The state of the child of [`Shared::new`].
struct Making {
    door: OwnedFd,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
}

/// Runs in the child, in the new namespaces. It makes only system calls (see [`sys`]).
fn make(making: &mut Making) -> ! {
    let made = || {
        put(c"/proc/self/setgroups", b"deny")?;
        put(c"/proc/self/uid_map", &making.uid_map)?;
        put(c"/proc/self/gid_map", &making.gid_map)?;
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
        for (name, value) in super::root::TEMPORARY {
            fsconfig_set_string(context.as_fd(), name, value)?;
        }
        fsconfig_create(context.as_fd())?;
        let plain = u32::try_from(Attributes::PLAIN.0).unwrap_or(u32::MAX);
        let flags = MountAttrFlags::from_bits_retain(plain);
        let folder = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        let at = openat(CWD, FOLDER, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(folder.as_fd(), c"", at.as_fd(), c"", flags)?;
        let [a, b, c, d] = folders()?;
        let all = [&user, &network, &mounts, &a, &b, &c, &d].map(AsFd::as_fd);
        hand_out(&making.door, &all)
    };
    if let Err(error) = made() {
        fail(&making.door, error);
    }
    sys::exit(0)
}

/// Creates detached mounts of the temporary folder.
fn folders() -> Result<[OwnedFd; AHEAD], Errno> {
    let at = openat(CWD, FOLDER, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let one = || {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        open_tree(at.as_fd(), c"", flags)
    };
    Ok([one()?, one()?, one()?, one()?])
}

/// The resource to open in the namespaces of a session.
#[derive(Debug, Clone, Copy)]
enum Job {
    Folders,
    Listener,
    Sockets,
}

/// The state of the child of [`Shared::visit`].
struct Visit<'a> {
    shared: &'a Shared,
    job: Job,
    door: OwnedFd,
}

/// Runs in the child. It makes only system calls.
fn go(visit: &mut Visit<'_>) -> ! {
    if let Err(error) = done(visit) {
        fail(&visit.door, error);
    }
    sys::exit(0)
}

fn done(visit: &Visit<'_>) -> Result<(), Errno> {
    let hand = |all: &[BorrowedFd<'_>]| hand_out(&visit.door, all);
    match visit.job {
        Job::Folders => {
            enter(&visit.shared.user, LinkNameSpaceType::User)?;
            enter(&visit.shared.mounts, LinkNameSpaceType::Mount)?;
            let [a, b, c, d] = folders()?;
            hand(&[a.as_fd(), b.as_fd(), c.as_fd(), d.as_fd()])
        }
        Job::Listener => {
            visit.shared.enter_network()?;
            for port in PROXY..PROXY + PROXIES {
                match listening(port) {
                    Err(Errno::ADDRINUSE) => {}
                    Err(error) => return Err(error),
                    Ok(socket) => return hand(&[socket.as_fd()]),
                }
            }
            Err(Errno::ADDRINUSE)
        }
        Job::Sockets => {
            visit.shared.enter_network()?;
            let socket = |family| {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                socket_with(family, SocketType::STREAM, flags, None)
            };
            let one = socket(AddressFamily::INET)?;
            match socket(AddressFamily::INET6) {
                Ok(other) => hand(&[one.as_fd(), other.as_fd()]),
                Err(_) => hand(&[one.as_fd()]),
            }
        }
    }
}
