//! Unix sockets in a workspace with a listener outside any sandbox, such as a container engine or a key agent. A
//! sandbox has its own network, but a socket with a path can still be reached from inside.
//!
//! A socket is harmless if its listener is a command of this program in its own network, since a background server and
//! its client belong together. A socket without a listener is like a plain file, which can be removed.
//!
//! A socket that gets a listener after a command has started is not covered for that command.

use std::cell::OnceCell;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use super::procfs;

/// Returns true for sockets.
pub(super) fn is_socket(kind: FileType) -> bool {
    kind.is_socket()
}

/// Sockets with a listener, by the names that programs bound them to. Both lists are read on first use: most workspaces
/// have no sockets, and scanning all processes is slow.
#[derive(Default)]
pub(super) struct BoundSockets {
    /// Sockets in the host network.
    outside: OnceCell<Vec<PathBuf>>,
    /// Sockets in the networks of this program's commands.
    own: OnceCell<Vec<PathBuf>>,
}

impl BoundSockets {
    /// Returns true if a program outside the sandbox listens on the socket.
    pub(super) fn has_outside_listener(&self, path: &Path) -> bool {
        let is_match = |name: &PathBuf| {
            if name.is_absolute() {
                name == path || name.canonicalize().is_ok_and(|real| real == path)
            } else {
                // The socket was bound relative to an unknown folder.
                name.file_name() == path.file_name()
            }
        };
        let outside = self.machine_network().iter().any(is_match);
        outside || (!self.own_network().iter().any(is_match) && answers(path))
    }

    /// Returns the sockets bound below the workspace at any depth, since the file search skips package folders.
    pub(super) fn bound_below(&self, workspace: &Path) -> Vec<PathBuf> {
        let all = self.machine_network().iter();
        let real = all.filter_map(|name| name.is_absolute().then(|| name.canonicalize().ok())?);
        real.filter(|real| {
            real.symlink_metadata()
                .is_ok_and(|meta| is_socket(meta.file_type()))
        })
        .filter_map(|real| Some(real.strip_prefix(workspace).ok()?.to_owned()))
        .collect()
    }

    fn machine_network(&self) -> &[PathBuf] {
        self.outside.get_or_init(read_machine_sockets)
    }

    fn own_network(&self) -> &[PathBuf] {
        self.own.get_or_init(read_command_sockets)
    }
}

#[cfg(target_os = "linux")]
fn read_machine_sockets() -> Vec<PathBuf> {
    bound_paths("self")
}

#[cfg(target_os = "linux")]
fn read_command_sockets() -> Vec<PathBuf> {
    let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own_network = network("self");
    let mut networks = vec![own_network];
    let mut paths = Vec::new();
    for process in procfs::descendants(rustix::process::getpid()) {
        let process = process.as_raw_nonzero().to_string();
        let process_network = network(&process);
        if process_network.is_some() && !networks.contains(&process_network) {
            networks.push(process_network);
            paths.extend(bound_paths(&process));
        }
    }
    paths
}

/// Returns an empty list: other systems have no such list, so any listener counts as outside.
#[cfg(not(target_os = "linux"))]
fn read_machine_sockets() -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn read_command_sockets() -> Vec<PathBuf> {
    Vec::new()
}

/// Returns the paths of the sockets in the network of a process, without duplicates: a connection has the name of its
/// listener.
#[cfg(target_os = "linux")]
fn bound_paths(process: &str) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let table = std::fs::read(format!("/proc/{process}/net/unix")).unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    // Each line has six numbers, the inode and the name, which may contain spaces.
    let name = |line: &[u8]| {
        let mut rest = line;
        for _ in 0..7 {
            let at = rest.iter().position(|byte| *byte == b' ')?;
            rest = rest.get(at..)?.trim_ascii_start();
        }
        (!rest.is_empty() && !rest.starts_with(b"@")).then(|| rest.to_vec())
    };
    let names: std::collections::BTreeSet<_> = lines.filter_map(name).collect();
    names
        .into_iter()
        .map(|name| std::ffi::OsString::from_vec(name).into())
        .collect()
}

/// Returns true if the socket has a listener, by connecting to it. The path must not contain a symbolic link or be
/// longer than a socket address allows.
#[cfg(target_os = "linux")]
fn answers(path: &Path) -> bool {
    use rustix::fd::AsRawFd;
    use rustix::io::Errno;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };

    let Ok(file) = super::file_identity::open_by_no_link(path) else {
        return false;
    };
    let connected =
        SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd())).and_then(|at| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            connect(&socket, &at)
        });
    // A full backlog or another socket type also means that there is a listener.
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

#[cfg(not(target_os = "linux"))]
fn answers(path: &Path) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};

    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ConnectionRefused | NotFound),
    }
}
