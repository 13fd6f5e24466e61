//! Servers with logins, as each user of a shared mimir reaches them: over a connection and with a login of their own.
//!
//! Out of scope: the users of programs and of servers with an `Authorization` header in the settings. Everyone uses the
//! credentials of the settings there.

use std::collections::HashMap;
use std::sync::Arc;

use mimir_core::ToolError;
use parking_lot::Mutex as Lock;
use tokio::sync::Notify;

use super::{RemoteServer, ServerDeps};
use crate::client::description::DescriptionStore;
use crate::client::oauth::{LoginStore, is_challenge_key};
use crate::client::status::StatusBoard;

/// Number of users of one server above which connections that are not in use are closed.
const MAX_IDLE_USERS: usize = 64;

/// The views of a server, by user.
pub(super) type UserViews = Lock<HashMap<String, Arc<RemoteServer>>>;

impl RemoteServer {
    /// Returns the server as this user reaches it. Without a user, and for a server without logins, that is this one.
    pub(in crate::client) fn for_user(self: &Arc<Self>, user: Option<&str>) -> Arc<Self> {
        let Some(user) = user.filter(|_| self.spec.takes_logins()) else {
            return Arc::clone(self);
        };
        let mut views = self.users.lock();
        if let Some(view) = views.get(user) {
            return Arc::clone(view);
        }
        if views.len() >= MAX_IDLE_USERS {
            // A view in use has another owner, such as the call.
            views.retain(|_, view| Arc::strong_count(view) > 1 || view.is_running());
        }
        let view = self.view_for(user);
        views.insert(user.to_owned(), Arc::clone(&view));
        view
    }

    /// Returns true if users reach the server over connections of their own, whose states differ from that of this one.
    pub(in crate::client) fn has_user_views(&self) -> bool {
        !self.users.lock().is_empty()
    }

    fn view_for(&self, user: &str) -> Arc<Self> {
        let deps = ServerDeps {
            logins: Arc::new(LoginsOfUser {
                all: Arc::clone(&self.deps.logins),
                user: user.to_owned(),
            }),
            store: Arc::new(DescriptionsOfUser {
                all: Arc::clone(&self.deps.store),
                user: user.to_owned(),
            }),
            observer: Arc::new(()),
            ..self.deps.clone()
        };
        // The list of tools is that of the owner: the tools that a user has in addition are not approved.
        let changes = (Arc::default(), Arc::new(Notify::new()));
        let board = StatusBoard::new(Arc::new(()));
        let status = board.entry(&self.spec.name);
        Self::new(
            self.spec.clone(),
            deps,
            changes,
            self.updates.clone(),
            self.restarts,
            status,
        )
    }
}

/// The logins of one user.
struct LoginsOfUser {
    all: Arc<dyn LoginStore>,
    user: String,
}

impl LoginsOfUser {
    /// Returns the key of the user's login. Names of servers and hashes have no dots after the `@`.
    fn key(&self, key: &str) -> String {
        format!("{key}.{}", self.user)
    }
}

impl LoginStore for LoginsOfUser {
    fn read(&self, key: &str) -> Result<Option<String>, ToolError> {
        self.all.read(&self.key(key))
    }

    fn write(&self, key: &str, text: &str) -> Result<(), ToolError> {
        self.all.write(&self.key(key), text)
    }

    fn remove(&self, key: &str) -> Result<(), ToolError> {
        self.all.remove(&self.key(key))
    }

    fn version(&self) -> u64 {
        self.all.version()
    }

    fn lock(&self, key: &str) -> Result<Box<dyn Send>, ToolError> {
        self.all.lock(&self.key(key))
    }

    fn user(&self) -> Option<&str> {
        Some(&self.user)
    }
}

/// The stored descriptions for a user's connection, which does not change what the owner has approved. Only the
/// challenge of the server is stored, because the next login needs its scopes. Each user has challenges of their own:
/// otherwise, one user's calls would choose the scopes that another one's login requests.
struct DescriptionsOfUser {
    all: Arc<dyn DescriptionStore>,
    user: String,
}

impl DescriptionsOfUser {
    /// Returns the key of the user's challenge, or `None` for an id that cannot be part of a file name.
    fn challenge_key(&self, key: &str) -> Option<String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_usable = !self.user.is_empty() && self.user.bytes().all(is_plain);
        is_usable.then(|| format!("{key}.{}", self.user))
    }
}

impl DescriptionStore for DescriptionsOfUser {
    fn read(&self, key: &str) -> Option<String> {
        if is_challenge_key(key) {
            self.all.read(&self.challenge_key(key)?)
        } else {
            self.all.read(key)
        }
    }

    fn write(&self, key: &str, text: &str) {
        if is_challenge_key(key)
            && let Some(key) = self.challenge_key(key)
        {
            self.all.write(&key, text);
        }
    }
}
