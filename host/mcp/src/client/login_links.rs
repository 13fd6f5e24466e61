//! Links with which users of a shared mimir log in at other servers, in a browser.
//!
//! A link belongs to one user and one server, and is not a credential: whoever opens it must first show to be that user.
//!
//! Out of scope: the pages behind the links.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::oauth::random_string;

/// Lifetime of a link, and the part of it after which a call gets a new one.
const LIFETIME: Duration = Duration::from_secs(10 * 60);
const FRESH: Duration = Duration::from_secs(5 * 60);

/// Time for which a call waits for a login: a waiting call takes up a slot of the server, which other users need.
const MAX_WAIT: Duration = Duration::from_secs(2 * 60);

/// Maximum number of links. The oldest one is removed first.
const MAX_LINKS: usize = 4096;

/// Maximum number of times that a link can be opened: each time costs requests to the identity provider.
const MAX_OPENINGS: u32 = 20;

/// Maximum number of times that the links of one user can be opened within the lifetime of a link. A user can get a new
/// link for each call.
const MAX_USER_OPENINGS: usize = 40;

/// The links of a process. Clones share them.
#[derive(Clone, Default)]
pub struct LoginLinks(Arc<LinkTable>);

#[derive(Default)]
struct LinkTable {
    /// URL under which the pages are served; unset while they are not.
    base: OnceLock<String>,
    links: Mutex<HashMap<String, LinkEntry>>,
    /// Times at which the links of each user were opened.
    user_openings: Mutex<HashMap<String, VecDeque<Instant>>>,
    /// Notified when a login has succeeded.
    completed: watch::Sender<()>,
}

struct LinkEntry {
    owner: LinkOwner,
    since: Instant,
    openings: u32,
}

/// The user to whom a link belongs, and the server of the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkOwner {
    /// Id of the user.
    pub(crate) user: String,
    /// Name of the server.
    pub(crate) server: String,
}

/// Reason why a link cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The link is unknown, expired, or was opened too often.
    NotValid,
    /// The links of its user were opened too often.
    TooMany,
}

/// A link for a user.
#[derive(Debug, Clone)]
pub(crate) struct LoginLink {
    pub(crate) id: String,
    pub(crate) url: String,
}

impl LoginLinks {
    /// Enables links, whose pages are served under `base`.
    pub(crate) fn enable(&self, base: &str) {
        // The first server over HTTP serves the pages.
        let _ = self.0.base.set(base.to_owned());
    }

    /// Returns a link for a user, or `None` if no pages are served.
    pub(crate) fn offer(&self, user: &str, server: &str) -> Option<LoginLink> {
        let base = self.0.base.get()?;
        let owner = LinkOwner {
            user: user.to_owned(),
            server: server.to_owned(),
        };
        let mut links = self.0.links.lock();
        links.retain(|_, link| link.since.elapsed() < LIFETIME);
        let known = links.iter().find(|(_, link)| {
            link.owner == owner && link.since.elapsed() < FRESH && link.openings < MAX_OPENINGS
        });
        let id = match known {
            Some((id, _)) => id.clone(),
            None => {
                let id = random_string().ok()?;
                remove_oldest(&mut links);
                let link = LinkEntry {
                    owner,
                    since: Instant::now(),
                    openings: 0,
                };
                links.insert(id.clone(), link);
                id
            }
        };
        let url = format!("{base}/login/{id}");
        Some(LoginLink { id, url })
    }

    /// Returns true if a URL is that of a link that is in use.
    pub(crate) fn has_url(&self, url: &str) -> bool {
        let base = self.0.base.get().map(String::as_str);
        let path = base.and_then(|base| url.strip_prefix(base));
        let id = path.and_then(|path| path.strip_prefix("/login/"));
        id.is_some_and(|id| self.owner(id).is_some())
    }

    /// Returns the owner of a link that is opened, and counts the opening for that user.
    pub(crate) fn open(&self, id: &str) -> Result<LinkOwner, LinkError> {
        let mut links = self.0.links.lock();
        let link = links.get_mut(id).ok_or(LinkError::NotValid)?;
        if link.since.elapsed() >= LIFETIME || link.openings >= MAX_OPENINGS {
            return Err(LinkError::NotValid);
        }
        if !self.count_opening(&link.owner.user) {
            return Err(LinkError::TooMany);
        }
        link.openings += 1;
        Ok(link.owner.clone())
    }

    /// Counts an opening for a user. Returns false if there were too many.
    fn count_opening(&self, user: &str) -> bool {
        let mut all = self.0.user_openings.lock();
        all.retain(|_, times| times.back().is_some_and(|at| at.elapsed() < LIFETIME));
        let times = all.entry(user.to_owned()).or_default();
        while times.front().is_some_and(|at| at.elapsed() >= LIFETIME) {
            times.pop_front();
        }
        let fits = times.len() < MAX_USER_OPENINGS;
        if fits {
            times.push_back(Instant::now());
        }
        fits
    }

    /// Returns the owner of a link that is in use. Fails for an unknown or expired link.
    pub(crate) fn owner(&self, id: &str) -> Option<LinkOwner> {
        let links = self.0.links.lock();
        let link = links.get(id)?;
        (link.since.elapsed() < LIFETIME).then(|| link.owner.clone())
    }

    /// Removes a link whose login has succeeded, and wakes the calls that wait for it.
    pub(crate) fn complete(&self, id: &str) {
        self.0.links.lock().remove(id);
        self.0.completed.send_replace(());
    }

    /// Waits until the login of a link has succeeded. Returns false if that takes too long.
    pub(crate) async fn wait(&self, id: &str) -> bool {
        let mut completed = self.0.completed.subscribe();
        let waiting = async {
            while self.0.links.lock().contains_key(id) {
                if completed.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(MAX_WAIT, waiting).await.unwrap_or(false)
    }
}

fn remove_oldest(links: &mut HashMap<String, LinkEntry>) {
    if links.len() < MAX_LINKS {
        return;
    }
    let oldest = links.iter().min_by_key(|(_, link)| link.since);
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        links.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> LoginLinks {
        let links = LoginLinks::default();
        links.enable("https://mimir.example");
        links
    }

    #[tokio::test(start_paused = true)]
    async fn login_link_belongs_to_one_user_and_expires() {
        assert!(LoginLinks::default().offer("alice", "s").is_none());
        let links = links();
        let link = links.offer("alice", "s").unwrap();
        assert_eq!(link.url, format!("https://mimir.example/login/{}", link.id));
        assert_eq!(link.id.len(), 43);
        assert_eq!(links.offer("alice", "s").unwrap().id, link.id);
        for (user, server) in [("bob", "s"), ("alice", "t")] {
            assert_ne!(links.offer(user, server).unwrap().id, link.id);
        }
        let owner = links.open(&link.id).unwrap();
        assert_eq!((owner.user.as_str(), owner.server.as_str()), ("alice", "s"));
        tokio::time::advance(FRESH).await;
        assert_ne!(links.offer("alice", "s").unwrap().id, link.id);
        assert_eq!(links.owner(&link.id), Some(owner));
        tokio::time::advance(LIFETIME - FRESH).await;
        assert_eq!(links.owner(&link.id), None);
        assert_eq!(links.open(&link.id), Err(LinkError::NotValid));
    }

    #[tokio::test(start_paused = true)]
    async fn login_link_works_once_and_opens_a_limited_number_of_times() {
        let links = links();
        let link = links.offer("alice", "s").unwrap();
        for _ in 0..MAX_OPENINGS {
            assert!(links.open(&link.id).is_ok());
        }
        assert_eq!(links.open(&link.id), Err(LinkError::NotValid));
        assert_ne!(links.offer("alice", "s").unwrap().id, link.id);
        let other = links.offer("bob", "s").unwrap();
        let waiting = links.wait(&link.id);
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        links.complete(&other.id);
        assert!(futures::poll!(&mut waiting).is_pending());
        links.complete(&link.id);
        assert!(waiting.await);
        assert_eq!(links.owner(&link.id), None);
    }

    /// A user who repeats calls to get new links cannot make mimir send requests without end.
    #[tokio::test(start_paused = true)]
    async fn login_links_of_a_user_open_a_limited_number_of_times() {
        let links = links();
        let mut opened = 0;
        let refused = loop {
            let link = links.offer("alice", "s").unwrap();
            match links.open(&link.id) {
                Ok(_) => opened += 1,
                Err(error) => break error,
            }
            assert!(opened <= MAX_USER_OPENINGS, "{opened}");
        };
        assert_eq!((refused, opened), (LinkError::TooMany, MAX_USER_OPENINGS));
        let other = links.offer("alice", "t").unwrap();
        assert_eq!(links.open(&other.id), Err(LinkError::TooMany));
        let bob = links.offer("bob", "s").unwrap();
        assert!(links.open(&bob.id).is_ok());
        tokio::time::advance(LIFETIME).await;
        let fresh = links.offer("alice", "s").unwrap();
        assert!(links.open(&fresh.id).is_ok());
    }

    #[tokio::test]
    async fn login_link_is_recognized_by_its_url() {
        let links = links();
        let link = links.offer("alice", "s").unwrap();
        assert!(links.has_url(&link.url));
        for other in [
            format!("https://evil.example/login/{}", link.id),
            format!("{}x", link.url),
            "https://mimir.example/login/".to_owned(),
            String::new(),
        ] {
            assert!(!links.has_url(&other), "{other}");
        }
        links.complete(&link.id);
        assert!(!links.has_url(&link.url));
        assert!(!LoginLinks::default().has_url(&link.url));
    }

    #[tokio::test(start_paused = true)]
    async fn login_link_table_is_bounded() {
        let links = links();
        let first = links.offer("user", "s").unwrap();
        for number in 0..MAX_LINKS {
            tokio::time::advance(Duration::from_millis(1)).await;
            links.offer(&format!("user-{number}"), "s").unwrap();
        }
        assert_eq!(links.owner(&first.id), None);
        assert_eq!(links.0.links.lock().len(), MAX_LINKS);
    }
}
