//! The way out of a network that has no other machine: a socket that listens inside, and whose connections are taken
//! outside.
//!
//! Whoever is inside before the program opens it, with the privileges that the program does not have, and hands it out: a
//! socket stays in the network that it was made in. So the program reaches the proxy at an address of its own loopback,
//! and nothing else.

pub(super) mod joined;

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use mimir_net::Proxy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind, listen, recvmsg, send, sendmsg,
    socket_with, socketpair,
};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// Connections that a command has to its proxy at a time; more wait. A package manager opens some dozens.
const MOST: usize = 128;

/// Descriptors that are handed out at once.
pub(super) const HANDED: usize = 8;

/// Connections that wait to be taken.
const WAITING: i32 = 128;

/// How long no connection is taken after one could not be: there are no more descriptors to be had.
const PAUSE: Duration = Duration::from_millis(50);

/// Two ends: the socket comes out of the first, and is put into the other by [`open`].
pub(super) fn door() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    Ok(ends?)
}

/// Inside: a socket that listens on a port of the loopback.
pub(super) fn listening(port: u16) -> Result<OwnedFd, Errno> {
    let listening = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    bind(&listening, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&listening, WAITING)?;
    Ok(listening)
}

/// Inside: hands descriptors out, at most [`HANDED`]. Made of system calls alone, as all that runs there.
pub(super) fn hand_out(door: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    let sent = sendmsg(
        door,
        &[IoSlice::new(b"0")],
        &mut control,
        SendFlags::NOSIGNAL,
    );
    sent.map(drop)
}

/// Inside: says why nothing listens.
pub(super) fn fail(door: &OwnedFd, error: Errno) {
    // Who does not hear it sees that there is no socket.
    let _ = send(
        door,
        &error.raw_os_error().to_ne_bytes(),
        SendFlags::NOSIGNAL,
    );
}

/// Outside: takes what was handed out. It is there already: the sender has ended.
pub(super) fn take(door: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut said = [0; size_of::<i32>()];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(door, &mut [IoSliceMut::new(&mut said)], &mut control, flags)?;
    let mut taken = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            taken.extend(descriptors);
        }
    }
    match taken.is_empty() {
        false => Ok(taken),
        true if got.bytes == said.len() => {
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(said)))
        }
        true => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Outside: lets the one inside go on, who waits for it.
pub(super) fn let_go(door: &OwnedFd) {
    // One that has ended meanwhile has said why by other means.
    let _ = send(door, b"0", SendFlags::NOSIGNAL);
}

/// Inside: waits until it may go on, at most so long. Made of system calls alone.
pub(super) fn wait_to_go(door: &OwnedFd, most: Duration) {
    let most = Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    let _ = poll(&mut [PollFd::new(door, PollFlags::IN)], Some(&most));
}

/// The proxy of a command. Dropping it ends it with all its connections.
pub(super) struct Serving(JoinHandle<()>);

impl Serving {
    /// Serves connections to a socket that listens inside.
    pub(super) fn begin(listening: OwnedFd, proxy: Proxy) -> io::Result<Self> {
        let listener = TcpListener::from_std(listening.into())?;
        Ok(Self(tokio::spawn(serve(listener, proxy))))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, proxy: Proxy) {
    // They are ended with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    let proxy = proxy.clone();
                    connections.spawn(async move { proxy.serve(stream).await });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection to the proxy of a command was not taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
