//! Resources that the commands of one session share: a network, in which a server of one is reached by the next, and a
//! temporary folder.

use std::fmt;
use std::io;

#[cfg(target_os = "linux")]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(target_os = "linux")]
use super::process::Shared;

/// Resources that the commands of one session share, made by the sandbox when the first of them starts. The sandbox
/// `process` has them where this process makes its namespaces. With bubblewrap and in containers each command is by
/// itself.
#[derive(Default)]
pub struct Session {
    #[cfg(target_os = "linux")]
    shared: Mutex<Option<Arc<Shared>>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

impl Session {
    /// Returns the shared resources, which `make` makes if there are none yet.
    #[cfg(target_os = "linux")]
    pub(super) fn shared(
        &self,
        make: impl FnOnce() -> io::Result<Shared>,
    ) -> io::Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        Ok(Arc::clone(shared.insert(Arc::new(make()?))))
    }

    /// Connects to a port of the loopback of the session's commands.
    pub async fn connect(&self, port: u16) -> io::Result<tokio::net::TcpStream> {
        #[cfg(target_os = "linux")]
        {
            let shared = self
                .shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(shared) = shared {
                return shared.connect(port).await;
            }
        }
        let _ = port;
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}
