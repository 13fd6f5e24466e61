//! Sessions of browsers, and the one-time links that begin them.
//!
//! Secrets are stored as hashes, so that a lookup reveals nothing by its time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use mimir_core::ToolError;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::limits::ConsoleLimits;
use crate::login::ConsolePerson;
use crate::rate::RequestBudget;

/// Hash of a secret.
type SecretHash = [u8; 32];

/// The person who uses a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionOwner {
    /// The user who started the console, on this machine.
    Local,
    /// That user, at another device that was paired.
    Paired,
    /// A person whom the identity provider has named.
    Person(ConsolePerson),
}

impl SessionOwner {
    /// Returns a text that differs between owners.
    pub(crate) fn key(&self) -> &str {
        match self {
            SessionOwner::Local => "",
            SessionOwner::Paired => "paired",
            SessionOwner::Person(person) => &person.subject,
        }
    }
}

/// The sessions and links of a console.
pub(crate) struct SessionStore {
    limits: ConsoleLimits,
    sessions: Mutex<HashMap<SecretHash, Arc<BrowserSession>>>,
    links: Mutex<HashMap<SecretHash, UnusedLink>>,
}

/// A session of a browser.
pub(crate) struct BrowserSession {
    pub(crate) owner: SessionOwner,
    ends: Instant,
    idle: Duration,
    used: Mutex<Instant>,
    budget: Mutex<RequestBudget>,
    streams: AtomicUsize,
    ended: watch::Sender<bool>,
}

/// A link that was not used yet.
struct UnusedLink {
    owner: SessionOwner,
    expires: Instant,
}

/// A count of an open event stream. Dropping it ends the count.
pub(crate) struct StreamCount(Arc<BrowserSession>);

impl SessionStore {
    pub(crate) fn new(limits: ConsoleLimits) -> Self {
        Self {
            limits,
            sessions: Mutex::default(),
            links: Mutex::default(),
        }
    }

    /// Creates a link that begins one session. Returns its secret.
    pub(crate) fn add_link(&self, owner: SessionOwner) -> Result<String, ToolError> {
        let secret = random_secret()?;
        let now = Instant::now();
        let expires = now + self.limits.link_lifetime;
        let mut links = self.links.lock();
        links.retain(|_, link| link.expires > now);
        if links.len() >= self.limits.links {
            let oldest = links.iter().min_by_key(|(_, link)| link.expires);
            if let Some(hash) = oldest.map(|(hash, _)| *hash) {
                links.remove(&hash);
            }
        }
        links.insert(hash(&secret), UnusedLink { owner, expires });
        Ok(secret)
    }

    /// Uses a link. It is used up even if `accepts` refuses its owner. Returns the cookie's secret of the new session.
    pub(crate) fn use_link(
        &self,
        secret: &str,
        accepts: impl FnOnce(&SessionOwner) -> bool,
    ) -> Result<Option<String>, ToolError> {
        let link = self.links.lock().remove(&hash(secret));
        let link = link.filter(|link| link.expires > Instant::now() && accepts(&link.owner));
        link.map(|link| self.begin(link.owner)).transpose()
    }

    /// Begins a session. Returns the cookie's secret.
    pub(crate) fn begin(&self, owner: SessionOwner) -> Result<String, ToolError> {
        let secret = random_secret()?;
        let limits = &self.limits;
        let now = Instant::now();
        let session = Arc::new(BrowserSession {
            owner,
            ends: now + limits.lifetime,
            idle: limits.idle,
            used: Mutex::new(now),
            budget: Mutex::new(RequestBudget::new(
                limits.requests_per_second,
                limits.request_burst,
            )),
            streams: AtomicUsize::new(0),
            ended: watch::Sender::new(false),
        });
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| session.end_if_expired());
        if sessions.len() >= limits.sessions {
            let unused = sessions
                .iter()
                .min_by_key(|(_, session)| *session.used.lock());
            if let Some(hash) = unused.map(|(hash, _)| *hash)
                && let Some(session) = sessions.remove(&hash)
            {
                session.end();
            }
        }
        sessions.insert(hash(&secret), session);
        Ok(secret)
    }

    /// Finds the session of a request. A browser may send several cookies of the name, since other servers on the same
    /// host can set them.
    pub(crate) fn find(&self, cookie: &str, headers: &HeaderMap) -> Option<Arc<BrowserSession>> {
        let mut sessions = self.sessions.lock();
        for secret in cookie_values(headers, cookie) {
            let hash = hash(secret);
            let Some(session) = sessions.get(&hash) else {
                continue;
            };
            if session.end_if_expired() {
                return Some(Arc::clone(session));
            }
            sessions.remove(&hash);
        }
        None
    }

    /// Ends the sessions of a request.
    pub(crate) fn end(&self, cookie: &str, headers: &HeaderMap) {
        let mut sessions = self.sessions.lock();
        for secret in cookie_values(headers, cookie) {
            if let Some(session) = sessions.remove(&hash(secret)) {
                session.end();
            }
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        for (_, session) in self.sessions.lock().drain() {
            session.end();
        }
    }
}

impl BrowserSession {
    /// Counts a request. Returns false if there are too many.
    pub(crate) fn take_request(&self) -> bool {
        *self.used.lock() = Instant::now();
        self.budget.lock().take()
    }

    /// Counts an event stream. `None` if there are too many.
    pub(crate) fn open_stream(self: &Arc<Self>, max: usize) -> Option<StreamCount> {
        let taken = self
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < max).then_some(count + 1)
            });
        taken.is_ok().then(|| StreamCount(Arc::clone(self)))
    }

    /// Returns true if the session has not ended.
    pub(crate) fn is_valid(&self) -> bool {
        let now = Instant::now();
        !*self.ended.borrow() && now < self.ends && now < *self.used.lock() + self.idle
    }

    /// Waits until the session is ended by a person.
    pub(crate) async fn wait_until_ended(&self) {
        let mut ended = self.ended.subscribe();
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Returns true if the session is valid, and ends it otherwise.
    fn end_if_expired(&self) -> bool {
        let is_valid = self.is_valid();
        if !is_valid {
            self.end();
        }
        is_valid
    }

    fn end(&self) {
        self.ended.send_replace(true);
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the values of the cookies with this name, at most eight.
pub(crate) fn cookie_values<'a>(
    headers: &'a HeaderMap,
    name: &'a str,
) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(COOKIE).iter();
    let pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .filter(move |(other, _)| *other == name)
        .map(|(_, value)| value)
        .take(8)
}

/// Returns 256 random bits as text.
pub(crate) fn random_secret() -> Result<String, ToolError> {
    let mut bits = [0; 32];
    let filled = getrandom::fill(&mut bits);
    filled.map_err(|_| {
        ToolError::unavailable("the system's random number generator is not available")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NAME: &str = "mimir_console";

    fn store(change: impl FnOnce(&mut ConsoleLimits)) -> SessionStore {
        let mut limits = ConsoleLimits::default();
        change(&mut limits);
        SessionStore::new(limits)
    }

    fn with_cookie(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap();
        HeaderMap::from_iter([(COOKIE, value)])
    }

    #[tokio::test(start_paused = true)]
    async fn session_links_work_once_and_expire() {
        let store = store(|_| {});
        let secret = store.add_link(SessionOwner::Local).unwrap();
        assert!(store.use_link("other", |_| true).unwrap().is_none());
        assert!(store.use_link(&secret, |_| true).unwrap().is_some());
        assert!(store.use_link(&secret, |_| true).unwrap().is_none());
        let secret = store.add_link(SessionOwner::Local).unwrap();
        tokio::time::advance(Duration::from_secs(10 * 60)).await;
        assert!(store.use_link(&secret, |_| true).unwrap().is_none());
        // A link that was tried at the wrong place is gone.
        let secret = store.add_link(SessionOwner::Local).unwrap();
        assert!(store.use_link(&secret, |_| false).unwrap().is_none());
        assert!(store.use_link(&secret, |_| true).unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn session_links_are_bounded() {
        let store = store(|limits| limits.links = 2);
        let links = [(); 3].map(|()| store.add_link(SessionOwner::Local).unwrap());
        assert_eq!(store.links.lock().len(), 2);
        assert!(store.use_link(&links[2], |_| true).unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn session_ends_when_idle_old_or_logged_out() {
        let store = store(|limits| {
            limits.idle = Duration::from_secs(60);
            limits.lifetime = Duration::from_secs(150);
        });
        let cookie = || {
            with_cookie(&format!(
                "a=b; {NAME}={}",
                store.begin(SessionOwner::Local).unwrap()
            ))
        };
        let idle = cookie();
        assert!(store.find(NAME, &idle).is_some());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(store.find(NAME, &idle).is_none());
        let busy = cookie();
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(50)).await;
            assert!(store.find(NAME, &busy).unwrap().take_request());
        }
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(store.find(NAME, &busy).is_none());
        let ended = cookie();
        let session = store.find(NAME, &ended).unwrap();
        store.end(NAME, &ended);
        session.wait_until_ended().await;
        assert!(store.find(NAME, &ended).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn session_number_is_bounded() {
        let store = store(|limits| limits.sessions = 2);
        let mut cookies = vec![];
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            let secret = store.begin(SessionOwner::Local).unwrap();
            cookies.push(with_cookie(&format!("{NAME}={secret}")));
        }
        let found: Vec<_> = cookies
            .iter()
            .map(|cookie| store.find(NAME, cookie).is_some())
            .collect();
        assert_eq!(found, [false, true, true]);
    }

    #[tokio::test]
    async fn session_is_found_beside_planted_cookies() {
        let store = store(|_| {});
        let secret = store.begin(SessionOwner::Local).unwrap();
        let planted = with_cookie(&format!("{NAME}=planted; {NAME}={secret}"));
        assert!(store.find(NAME, &planted).is_some());
    }
}
