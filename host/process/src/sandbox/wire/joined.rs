//! The same opened from outside, in the network of a process that something else has made and that waits there.
//!
//! Nothing inside has a part in it. A child of this process goes into that network for as long as it takes to open the
//! socket; it goes into nothing else, so nobody in there sees it. That is for root, and for whoever made the network.

use std::fs::File;
use std::io::{self, Read as _};

use mimir_net::Proxy;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::{LinkNameSpaceType, Timespec, move_into_link_name_space, nanosleep};

use super::{Serving, door, fail, open};
use crate::sandbox::sys;

/// Bytes of a list of control groups: one line for each kind, of which there are some fourteen.
const GROUPS_MOST: u64 = 64 * 1024;

/// How often it is tried where there is no loopback yet, and how long it is waited in between: a second in all.
const TRIES: usize = 1000;
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// Opens a way out in the network of a process, and lets through what the proxy does. One that has another number by now
/// is told by its control groups: they hold this name.
pub(in crate::sandbox) async fn serve(
    process: i32,
    group: Option<String>,
    proxy: &Proxy,
) -> io::Result<Serving> {
    let joined = tokio::task::spawn_blocking(move || join(process, group.as_deref())).await;
    Serving::begin(&joined??, proxy.clone())
}

/// What the child has: namespaces, and where it puts what it opened.
struct Joining {
    /// Whose the network is, where that is not this process.
    user: Option<OwnedFd>,
    network: OwnedFd,
    door: OwnedFd,
}

fn join(process: i32, group: Option<&str>) -> io::Result<OwnedFd> {
    let (here, door) = door()?;
    let mut joining = Joining::new(process, group, door)?;
    let child = sys::fork(0, None, &mut joining, listen)?;
    waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED)?;
    Ok(here)
}

impl Joining {
    fn new(process: i32, group: Option<&str>, door: OwnedFd) -> io::Result<Self> {
        // It stays that of this process: one that gets the same number later is not in it.
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
        let mut groups = String::new();
        File::from(open("cgroup")?)
            .take(GROUPS_MOST)
            .read_to_string(&mut groups)?;
        let other = group.is_some_and(|group| !groups.contains(group));
        if other || is_own(&network, "/proc/self/ns/net")? {
            return Err(io::Error::other("it has ended"));
        }
        let user = sys::owner_of(&network)?;
        let user = (!is_own(&user, "/proc/self/ns/user")?).then_some(user);
        Ok(Self {
            user,
            network,
            door,
        })
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
        if let Some(user) = &joining.user {
            enter(user, LinkNameSpaceType::User)?;
        }
        enter(&joining.network, LinkNameSpaceType::Network)?;
        // Whoever made the network gives it its loopback, and may be at it still.
        for _ in 0..TRIES {
            match open(&joining.door) {
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

fn enter(namespace: &OwnedFd, kind: LinkNameSpaceType) -> Result<(), Errno> {
    move_into_link_name_space(namespace.as_fd(), Some(kind))
}
