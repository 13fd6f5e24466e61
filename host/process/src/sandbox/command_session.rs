//! Resources shared by the commands of one session: a network, so that one command can reach a server started by
//! another, and a temporary folder.

use std::fmt;
use std::io;
#[cfg(target_os = "linux")]
use std::sync::Arc;

#[cfg(target_os = "linux")]
use parking_lot::Mutex;

#[cfg(target_os = "linux")]
use super::process::SessionNamespaces;

/// Shared resources of one session, created when its first command starts. Only the sandbox `process` supports them,
/// and only if it creates the namespaces itself: with bubblewrap and in containers, every command is isolated.
#[derive(Default)]
pub struct CommandSession {
    #[cfg(target_os = "linux")]
    shared: Mutex<Option<Arc<SessionNamespaces>>>,
}

impl fmt::Debug for CommandSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

impl CommandSession {
    /// Returns the shared resources, created by `make` on first use.
    #[cfg(target_os = "linux")]
    pub(super) fn shared(
        &self,
        make: impl FnOnce() -> io::Result<SessionNamespaces>,
    ) -> io::Result<Arc<SessionNamespaces>> {
        let mut shared = self.shared.lock();
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        Ok(Arc::clone(shared.insert(Arc::new(make()?))))
    }

    /// Connects to a port on the loopback interface of the session's commands.
    pub async fn connect(&self, port: u16) -> io::Result<tokio::net::TcpStream> {
        #[cfg(target_os = "linux")]
        {
            let shared = self.shared.lock().clone();
            if let Some(shared) = shared {
                return shared.connect(port).await;
            }
        }
        let _ = port;
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}
