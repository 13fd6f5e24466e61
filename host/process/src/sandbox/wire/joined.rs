//! The same opened from outside, in the network of a process that something else has made and that waits there.
//!
//! Nothing inside has a part in it. A child of this process goes into that network for as long as it takes to open the
//! socket; it goes into nothing else, so nobody in there sees it. That is for root, and for whoever made the network.

use std::io;

use mimir_net::Proxy;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::{LinkNameSpaceType, Timespec, move_into_link_name_space, nanosleep};

use super::{Serving, door, fail, hand_out, listening, take};
use crate::sandbox::environment::PROXY;
use crate::sandbox::sys;

/// How often it is tried where there is no loopback yet, and how long it is waited in between: a second in all.
const TRIES: usize = 1000;
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// The network of a process. Whether it is still the one that was meant is known when that process runs on afterwards: a
/// number is not used again before.
pub(in crate::sandbox) struct Network {
    /// Whose it is, where that is not this process.
    user: Option<OwnedFd>,
    network: OwnedFd,
}

/// What the child has beside that: where it puts what it opened.
struct Joining {
    network: Network,
    door: OwnedFd,
}

fn join(network: Network) -> io::Result<OwnedFd> {
    let (here, door) = door()?;
    let mut joining = Joining { network, door };
    let child = sys::fork(0, None, &mut joining, listen)?;
    // Whether anybody hears of its end or not: the door says what came of it.
    let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
    Ok(here)
}

impl Network {
    /// That of the process with this number.
    pub(in crate::sandbox) fn of(process: i32) -> io::Result<Self> {
        // It stays that of one process.
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
            return Err(io::Error::other("it has no network of its own"));
        }
        let user = sys::owner_of(&network)?;
        let user = (!is_own(&user, "/proc/self/ns/user")?).then_some(user);
        Ok(Self { user, network })
    }

    /// Opens a way out in it, and lets through what the proxy does.
    pub(in crate::sandbox) async fn serve(self, proxy: &Proxy) -> io::Result<Serving> {
        let joined = tokio::task::spawn_blocking(|| join(self)).await;
        let listening = take(&joined??)?.pop();
        let listening = listening.ok_or(io::ErrorKind::BrokenPipe)?;
        Serving::begin(listening, proxy.clone())
    }
}

/// Whether a namespace is the one that this process is in.
fn is_own(namespace: &OwnedFd, own: &str) -> io::Result<bool> {
    let (there, own) = (fstat(namespace)?, stat(own)?);
    Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino))
}

/// In the child: system calls alone (see [`sys`]).
fn listen(joining: &mut Joining) -> ! {
    let opened = || {
        if let Some(user) = &joining.network.user {
            enter(user, LinkNameSpaceType::User)?;
        }
        enter(&joining.network.network, LinkNameSpaceType::Network)?;
        // Whoever made the network gives it its loopback, and may be at it still.
        for _ in 0..TRIES {
            match listening(PROXY).and_then(|socket| hand_out(&joining.door, &[socket.as_fd()])) {
                Err(Errno::ADDRNOTAVAIL) => drop(nanosleep(&AGAIN)),
                done => return done,
            }
        }
        Err(Errno::ADDRNOTAVAIL)
    };
    if let Err(error) = opened() {
        fail(&joining.door, error);
    }
    sys::exit(0)
}

pub(in crate::sandbox) fn enter(namespace: &OwnedFd, kind: LinkNameSpaceType) -> Result<(), Errno> {
    move_into_link_name_space(namespace.as_fd(), Some(kind))
}
