//! The folder with the sockets of the open consoles of this user: `live`, beside the user's settings. Only the user can
//! enter it, and no tool or sandboxed command sees it.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use mimir_core::platform;

use crate::private_files;
use crate::process_lock::process_file_name;
use crate::user_dirs::UserDirs;

/// Name of the folder.
const FOLDER: &str = "live";

/// End of the names of sockets.
const SUFFIX: &str = ".sock";

/// Number of sockets that a process connects to.
const MAX_SOCKETS: usize = 16;

/// The folder with the sockets of the open consoles of this user.
#[derive(Debug, Clone)]
pub(super) struct SocketFolder(PathBuf);

impl SocketFolder {
    /// Returns the folder. `None` on platforms without a folder for the user's settings.
    pub(super) fn of_user(user_dirs: &UserDirs) -> Option<Self> {
        Some(Self(user_dirs.config.as_ref()?.join(FOLDER)))
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the names of the sockets. Empty if the folder does not exist, or if others than the user can enter it.
    pub(super) fn sockets(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| process_of(name).is_some()).collect();
        if names.is_empty() || !self.is_private() {
            return Vec::new();
        }
        names.sort();
        names.truncate(MAX_SOCKETS);
        names
    }

    /// Returns true if only this user can enter the folder.
    fn is_private(&self) -> bool {
        let metadata = std::fs::symlink_metadata(&self.0);
        metadata.is_ok_and(|metadata| {
            metadata.is_dir()
                && metadata.uid() == rustix::process::getuid().as_raw()
                && metadata.permissions().mode() & 0o077 == 0
        })
    }

    /// Connects to a socket. Removes it if no process listens any more.
    pub(super) fn connect(&self, name: &str) -> io::Result<UnixStream> {
        let connected = self.with_short_path(name, connect);
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if connected.as_ref().is_err_and(is_refused) && has_ended(name) {
            self.remove(name);
        }
        let stream = connected?;
        check_peer(&stream)?;
        Ok(stream)
    }

    /// Creates a socket of this process, with a random name.
    pub(super) fn listen(&self) -> io::Result<(String, UnixListener)> {
        private_files::private_folder(&self.0)?;
        if !self.is_private() {
            let shown = mimir_core::text::visible(&self.0.display().to_string());
            return Err(io::Error::other(format!(
                "other users can enter {shown}: expected a folder of your own; remove it, and it is created again"
            )));
        }
        // Removes the sockets of consoles that have crashed.
        for name in self.sockets() {
            let _ = self.connect(&name);
        }
        let name = process_file_name()?;
        let new_name = format!("{name}.new");
        let name = format!("{name}{SUFFIX}");
        let listener = self.with_short_path(&new_name, |path| UnixListener::bind(path))?;
        // Named once it listens, so that no reader takes it for that of a console that has crashed.
        std::fs::rename(self.0.join(&new_name), self.0.join(&name))?;
        Ok((name, listener))
    }

    /// Removes a socket.
    pub(super) fn remove(&self, name: &str) {
        let _ = std::fs::remove_file(self.0.join(name));
    }

    /// Calls `work` with a path of a file in the folder that is short enough for a socket.
    fn with_short_path<T>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        /// The address of a socket has 104 bytes on macOS and 108 on Linux, with the final zero.
        const MAX_PATH: usize = 103;
        let path = self.0.join(name);
        if path.as_os_str().len() <= MAX_PATH {
            return work(&path);
        }
        if cfg!(target_os = "linux") {
            use std::os::fd::AsRawFd as _;
            let folder = std::fs::File::open(&self.0)?;
            let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
            return work(&Path::new(&short).join(name));
        }
        let shown = mimir_core::text::visible(&path.display().to_string());
        Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            format!(
                "{shown} is too long for a socket: expected at most {MAX_PATH} bytes; set MIMIR_CONFIG_DIR to a shorter path"
            ),
        ))
    }
}

/// Connects without waiting: a console that has stopped must not block other processes.
#[cfg(target_os = "linux")]
fn connect(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(not(target_os = "linux"))]
fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Returns the process id in the name of a socket, `PID-RANDOM.sock`.
fn process_of(name: &str) -> Option<u32> {
    let (process, random) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_random.then(|| process.parse().ok()).flatten()
}

/// Returns true if no process listens at a socket that has refused a connection.
///
/// On Linux nothing else causes that, and the process id means nothing if the process ran in another container. Elsewhere
/// too many waiting connections cause it, too.
fn has_ended(name: &str) -> bool {
    cfg!(target_os = "linux")
        || process_of(name).is_some_and(|process| !platform::process_may_run(process))
}

/// Fails if the process at the other end belongs to another user.
#[cfg(target_os = "linux")]
fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    if peer.uid == rustix::process::getuid() {
        Ok(())
    } else {
        Err(other_user())
    }
}

/// Does nothing: only this user can create a socket in the folder, which was checked.
#[cfg(not(target_os = "linux"))]
fn check_peer(_: &UnixStream) -> io::Result<()> {
    Ok(())
}

pub(super) fn other_user() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the process at the other end of the socket belongs to another user",
    )
}
