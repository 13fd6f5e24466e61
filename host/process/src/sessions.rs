//! Sessions of commands: the resources that the commands of a session share, and the ports of its servers.
//!
//! Out of scope: creating networks, and deciding which clients may reach a server.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use mimir_core::command::JobOwner;
use parking_lot::Mutex;

use crate::sandbox::CommandSession;

/// State of each session and plugin: commands of different plugins share nothing.
#[derive(Default)]
pub(crate) struct CommandSessions {
    sessions: Arc<Mutex<BTreeMap<JobOwner, CommandSessionEntry>>>,
    /// Number of commands that name ports. Every request reads it, and it is usually 0.
    serving: Arc<AtomicUsize>,
}

#[derive(Default)]
struct CommandSessionEntry {
    session: Arc<CommandSession>,
    /// The named ports of background commands, each with the number of running commands that named it.
    ports: BTreeMap<u16, usize>,
    /// Order of last use: higher is more recent.
    used: u64,
}

/// Maximum number of sessions with shared resources. Each holds open files, and not every front end reports the end of
/// a session: beyond this limit, the least recently used session is dropped.
const MAX_SESSIONS: usize = 64;

/// Ports that are registered while a command runs.
pub(crate) struct NamedPorts {
    owner: JobOwner,
    ports: Vec<u16>,
    sessions: Weak<Mutex<BTreeMap<JobOwner, CommandSessionEntry>>>,
    serving: Arc<AtomicUsize>,
}

impl CommandSessions {
    /// Returns the resources shared by the commands of this owner.
    pub(crate) fn session(&self, owner: &JobOwner) -> Arc<CommandSession> {
        let mut entries = self.sessions.lock();
        let now = entries.values().map(|entry| entry.used).max().unwrap_or(0) + 1;
        if !entries.contains_key(owner) && entries.len() >= MAX_SESSIONS {
            let idle = entries.iter().filter(|(_, entry)| entry.ports.is_empty());
            let oldest = idle.min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) {
                entries.remove(&oldest);
            }
        }
        let entry = entries.entry(owner.clone()).or_default();
        entry.used = now;
        Arc::clone(&entry.session)
    }

    /// Registers ports that a command serves, until the returned value is dropped.
    pub(crate) fn name_ports(&self, owner: &JobOwner, ports: &[u16]) -> NamedPorts {
        self.serving.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.sessions.lock();
        let entry = entries.entry(owner.clone()).or_default();
        for port in ports {
            *entry.ports.entry(*port).or_default() += 1;
        }
        NamedPorts {
            owner: owner.clone(),
            ports: ports.to_vec(),
            sessions: Arc::downgrade(&self.sessions),
            serving: Arc::clone(&self.serving),
        }
    }

    /// Returns the ports that commands of a session serve.
    pub(crate) fn ports(&self, session: &str) -> Vec<u16> {
        if self.serving.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let entries = self.sessions.lock();
        let of_session = entries.iter().filter(|(owner, _)| owner.session == session);
        let mut ports: Vec<u16> = of_session
            .flat_map(|(_, entry)| entry.ports.keys().copied())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Connects to a port that a command of the session serves.
    pub(crate) async fn connect(
        &self,
        session: &str,
        port: u16,
    ) -> io::Result<tokio::net::TcpStream> {
        let serving = self
            .sessions
            .lock()
            .iter()
            .find(|(owner, entry)| owner.session == session && entry.ports.contains_key(&port))
            .map(|(_, entry)| Arc::clone(&entry.session));
        match serving {
            Some(session) => session.connect(port).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// Forgets a session. Its resources are freed when the last of its commands ends.
    pub(crate) fn end_session(&self, session: &str) {
        self.sessions
            .lock()
            .retain(|owner, _| owner.session != session);
    }
}

impl Drop for NamedPorts {
    fn drop(&mut self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
        let Some(sessions) = self.sessions.upgrade() else {
            return;
        };
        let mut entries = sessions.lock();
        let Some(entry) = entries.get_mut(&self.owner) else {
            return;
        };
        for port in &self.ports {
            if let Some(count) = entry.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    entry.ports.remove(port);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(session: &str, plugin: &str) -> JobOwner {
        JobOwner {
            session: session.into(),
            plugin: plugin.into(),
        }
    }

    #[tokio::test]
    async fn session_ports_are_listed_while_a_command_serves_them() {
        let sessions = CommandSessions::default();
        let first = sessions.name_ports(&owner("a", "p"), &[8080, 3000]);
        let second = sessions.name_ports(&owner("a", "p"), &[3000]);
        assert_eq!(sessions.ports("a"), [3000, 8080]);
        assert!(sessions.ports("b").is_empty());
        drop(first);
        assert_eq!(sessions.ports("a"), [3000]);
        drop(second);
        assert!(sessions.ports("a").is_empty());
        assert!(sessions.connect("a", 3000).await.is_err());
    }

    #[test]
    fn sessions_are_separate_per_session_and_plugin() {
        let sessions = CommandSessions::default();
        let first = sessions.session(&owner("a", "p"));
        assert!(Arc::ptr_eq(&first, &sessions.session(&owner("a", "p"))));
        for other in [owner("a", "q"), owner("b", "p")] {
            assert!(!Arc::ptr_eq(&first, &sessions.session(&other)));
        }
        for number in 0..MAX_SESSIONS {
            sessions.session(&owner(&number.to_string(), "p"));
        }
        assert!(!Arc::ptr_eq(&first, &sessions.session(&owner("a", "p"))));
        assert!(sessions.sessions.lock().len() <= MAX_SESSIONS);
        let served = sessions.name_ports(&owner("a", "p"), &[1]);
        sessions.end_session("a");
        assert!(!Arc::ptr_eq(&first, &sessions.session(&owner("a", "p"))));
        drop(served);
        assert!(sessions.ports("a").is_empty());
    }
}
