//! Connection from an isolated network to the proxy: a listening socket inside, whose connections are accepted outside.
//!
//! A socket stays in the network in which it was created. A process inside opens it before the program starts, with
//! privileges that the program lacks, and sends it out. The program reaches only the proxy, at an address of its own
//! loopback.

pub(super) mod network_namespace;

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use mimir_net::Proxy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind, listen, recvmsg, send, sendmsg,
    socket_with, socketpair,
};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::sys;

/// Maximum number of concurrent connections of a command to its proxy; further ones wait. A package manager opens a few
/// dozen.
const MAX_CONNECTIONS: usize = 128;

/// Maximum number of descriptors per message.
pub(super) const MAX_SENT_FDS: usize = 8;

/// Backlog of the listening socket.
const LISTEN_BACKLOG: i32 = 128;

/// Delay after a failed accept, which usually means that descriptors have run out.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Creates a socket pair. Descriptors that a process inside sends through the second end with [`send_fds`] arrive at
/// the first.
pub(super) fn handover_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    Ok(ends?)
}

/// Opens a listening socket on a loopback port. Runs inside.
pub(super) fn listen_on_loopback(port: u16) -> Result<OwnedFd, Errno> {
    let listening = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    bind(&listening, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&listening, LISTEN_BACKLOG)?;
    Ok(listening)
}

/// Sends at most [`MAX_SENT_FDS`] descriptors. Runs inside, and makes only system calls.
pub(super) fn send_fds(socket: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SENT_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(b"0")],
        &mut control,
        SendFlags::NOSIGNAL,
    );
    sent.map(drop)
}

/// Sends the error that prevented a socket from being opened. Runs inside.
pub(super) fn send_error(socket: &OwnedFd, error: Errno) {
    // If this fails, the receiver notices the missing socket.
    let _ = send(
        socket,
        &error.raw_os_error().to_ne_bytes(),
        SendFlags::NOSIGNAL,
    );
}

/// Receives the sent descriptors. Runs outside. Does not wait, since the sender has already ended.
pub(super) fn receive_fds(socket: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SENT_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut error_bytes = [0; size_of::<i32>()];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut error_bytes)],
        &mut control,
        flags,
    )?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            fds.extend(descriptors);
        }
    }
    if !fds.is_empty() {
        Ok(fds)
    } else if received.bytes == error_bytes.len() {
        Err(io::Error::from_raw_os_error(i32::from_ne_bytes(
            error_bytes,
        )))
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Forks a child, and receives the descriptors that it sends before it exits. Runs outside.
pub(super) fn fork_to_open<T>(
    namespaces: u64,
    mut state: T,
    child: fn(&mut T) -> !,
    parent_socket: &OwnedFd,
) -> io::Result<Vec<OwnedFd>> {
    let child = sys::fork(namespaces, None, &mut state, child)?;
    // The exit status is irrelevant: the result arrives through the socket.
    let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
    // Closes this process's copy of the other end.
    drop(state);
    receive_fds(parent_socket)
}

/// Releases the process inside from [`wait_for_release`]. Runs outside.
pub(super) fn release_child(socket: &OwnedFd) {
    // If the process has already ended, it has reported the reason through its status pipe.
    let _ = send(socket, b"0", SendFlags::NOSIGNAL);
}

/// Waits at most `time_limit` for [`release_child`]. Runs inside, and makes only system calls.
pub(super) fn wait_for_release(socket: &OwnedFd, time_limit: Duration) {
    let time_limit = Timespec {
        tv_sec: i64::try_from(time_limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time_limit.subsec_nanos().into(),
    };
    let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time_limit));
}

/// Running proxy of a command. Dropping it stops the proxy and closes all connections.
pub(super) struct ProxyTask(JoinHandle<()>);

impl ProxyTask {
    /// Serves connections to a socket that listens inside.
    pub(super) fn begin(listening: OwnedFd, proxy: Proxy) -> io::Result<Self> {
        let listener = TcpListener::from_std(listening.into())?;
        Ok(Self(tokio::spawn(serve(listener, proxy))))
    }
}

impl Drop for ProxyTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, proxy: Proxy) {
    // Dropping the set stops all connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let proxy = proxy.clone();
                    connections.spawn(async move { proxy.serve(stream).await });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection to the proxy of a command was not accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
